#!/usr/bin/env python3
"""What nvcc makes of kernels/cuda: whether the kernels that should have wide loads, dp4a and tensor-core instructions
have them, and how many registers they take. Needs nvcc on PATH, no GPU.

  check_cuda_code.py                  the intermediate language (PTX); a test where there is nvcc
  check_cuda_code.py --sass ARCH      the machine code of one architecture (90); needs cuobjdump
  check_cuda_code.py --registers ARCH,ARCH   a table of registers and spilled bytes, as in docs/cuda.md. Takes minutes for
                                      an architecture; what was compiled is kept in build/cuda_code until a kernel
                                      changes, so that it may be interrupted and goes on
"""
import argparse
import concurrent.futures
import hashlib
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
SOURCES = sorted((ROOT / "kernels/cuda").glob("*.cu"))
INCLUDED = sorted([*(ROOT / "kernels").glob("*.h"), *(ROOT / "kernels/cuda").glob("*.*h")])
KEPT = ROOT / "build/cuda_code"
FLAGS = ["-std=c++20", f"-I{ROOT}", "--fmad=false", "--expt-relaxed-constexpr", "-Werror=all-warnings",
         "-DBATON_ISA_NAMESPACE=cuda", '-DBATON_CUDA_ARCHITECTURES="none"']

# Kernels by a pattern of their mangled names: how many there are at least, and the instructions that each must have, in
# PTX and in machine code.
WIDE_LOAD = (r"ld\.global\.(nc\.)?v4", r"LDG\.E\.128")
RULES = (
    # Few rows, types whose integers are unpacked by words: 16-byte loads and products of four bytes.
    (r"RowMatMulINS._\d+Block(Q|IQ4|MXFP4)", 39, (WIDE_LOAD, (r"dp4a", r"IDP\."))),
    # Many rows: tensor cores.
    (r"TileMatMulINS._\d+Block", 13, (WIDE_LOAD, (r"mma\.sync.*s8\.s8", r"IMMA\."))),
    # Float weights: 16 bytes from shared memory, too.
    (r"FloatMatMulI", 12, (WIDE_LOAD, (r"ld\.shared\.v4", r"LDS\.128"))),
    (r"AttendILNS._6KvTypeE[01]E", 2, (WIDE_LOAD,)),
)
# Rows of the table of registers.
FAMILIES = (
    ("few rows, blocks of 32", r"RowMatMulINS._\d+Block(Q\d_[01]|IQ4_NL|MXFP4)E"),
    ("few rows, super-blocks", r"RowMatMulINS._\d+Block(Q\d_K|IQ4_XS)E"),
    ("few rows, code books and ternary", r"RowMatMulI"),
    ("tiles, blocks of 32", r"TileMatMulINS._\d+Block(Q\d_[01]|IQ4_NL|MXFP4)E"),
    ("tiles, super-blocks", r"TileMatMulI"),
    ("float weights", r"FloatMatMulI"),
    ("attention", r"AttendI|MergeChunks|StoreRows"),
    ("logits", r"KeepBest|SumWeights|WriteSummary"),
    ("rows, rounding, experts", r""),
)


def compile_all(jobs):
    """Runs nvcc once for each (source, further flags, output); their error outputs."""
    def one(job):
        source, flags, out = job
        return subprocess.run(["nvcc", *FLAGS, *flags, "-o", str(out), str(source)], capture_output=True, text=True)
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for (source, _, _), done in zip(jobs, runs := list(pool.map(one, jobs))):
            if done.returncode != 0:
                sys.exit(f"check_cuda_code.py: error: {source.name} does not compile:\n{done.stdout}{done.stderr}")
    return [done.stdout + done.stderr for done in runs]


def kernels_of(text, start):
    """(name, code) of each kernel; `start` matches a kernel's first line and its name."""
    starts = list(re.finditer(start, text, re.M))
    for at, after in zip(starts, [*starts[1:], None]):
        yield at[1], text[at.end():after.start() if after else len(text)]


def check(kernels, column):
    faults = []
    for pattern, least, instructions in RULES:
        found = [(name, code) for name, code in kernels if re.search(pattern, name)]
        if len(found) < least:
            faults.append(f"{len(found)} kernels match {pattern}, expected {least} at least")
        for name, code in found:
            for instruction in instructions:
                if not re.search(instruction[column], code):
                    faults.append(f"{name}: no {instruction[column]}")
    print("\n".join(faults) or f"{len(kernels)} kernels, as they should be")
    return 1 if faults else 0


def check_ptx(folder):
    outs = [folder / f"{source.stem}.ptx" for source in SOURCES]
    compile_all([(s, ["-ptx", "-arch=compute_90"], o) for s, o in zip(SOURCES, outs)])
    start = r"^(?:\.visible |\.weak )?\.entry (\w+)\("
    return check([k for out in outs for k in kernels_of(out.read_text(), start)], 0)


def check_sass(folder, arch):
    outs = [folder / f"{source.stem}.cubin" for source in SOURCES]
    compile_all([(s, ["-cubin", f"-arch=sm_{arch}"], o) for s, o in zip(SOURCES, outs)])
    text = "".join(subprocess.run(["cuobjdump", "-sass", str(o)], capture_output=True, text=True, check=True).stdout
                   for o in outs)
    return check(list(kernels_of(text, r"^\s*Function : (\w+)")), 1)


def registers_said(folder, source, arch):
    """What ptxas says of a source, from an earlier run where nothing has changed."""
    digest = hashlib.sha256(b"".join(path.read_bytes() for path in [source, *INCLUDED])).hexdigest()[:16]
    kept = KEPT / f"{source.stem}.{arch}.{digest}.txt"
    if kept.exists():
        return kept.read_text()
    began = time.monotonic()
    job = (source, ["-cubin", f"-arch=sm_{arch}", "-Xptxas", "-v"], folder / f"{source.stem}.{arch}.cubin")
    said = compile_all([job])[0]
    KEPT.mkdir(parents=True, exist_ok=True)
    kept.write_text(said)
    print(f"{source.name} for {arch}: {time.monotonic() - began:.0f} s", file=sys.stderr, flush=True)
    return said


def table_of_registers(folder, architectures):
    jobs = [(source, arch) for arch in architectures for source in SOURCES]
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        outputs = list(pool.map(lambda job: registers_said(folder, *job), jobs))
    used = {name: [] for name, _ in FAMILIES}  # (registers, spilled bytes, architecture)
    for (_, arch), said in zip(jobs, outputs):
        for name, about in kernels_of(said, r"Compiling entry function '(\w+)'"):
            family = next(f for f, pattern in FAMILIES if re.search(pattern, name))
            registers = int(re.search(r"Used (\d+) registers", about)[1])
            spilled = int(re.search(r"(\d+) bytes spill stores", about)[1])
            used[family].append((registers, spilled, arch))
    print("| kernels | how many | registers | most bytes spilled |\n|---|---|---|---|")
    for family, all_used in used.items():
        if not all_used:
            continue
        registers = sorted(r for r, _, _ in all_used)
        spills = max(s for _, s, _ in all_used)
        where = sorted({arch for _, s, arch in all_used if s > 0}, key=int)
        print(f"| {family} | {len(all_used) // len(architectures)} | {registers[0]} to {registers[-1]} | "
              f"{spills}{' (' + ', '.join(where) + ')' if spills else ''} |")
    return 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sass", metavar="ARCH")
    parser.add_argument("--registers", metavar="ARCHS")
    flags = parser.parse_args()
    for tool in ("nvcc", *(("cuobjdump",) if flags.sass else ())):
        if not shutil.which(tool):
            sys.exit(f"check_cuda_code.py: error: no {tool} on PATH")
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        if flags.sass:
            return check_sass(folder, flags.sass)
        if flags.registers:
            return table_of_registers(folder, flags.registers.split(","))
        return check_ptx(folder)


if __name__ == "__main__":
    sys.exit(main())
