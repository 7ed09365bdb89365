#!/usr/bin/env python3
"""usage: check_instructions.py OBJECT...

Looks into the kernels' objects, whose paths name their instruction set (cpu/amx/kernels.cc.o): each set uses the
instructions that it is there for and none above them, and leaves no inline function outside its namespace, which the
linker might give to the files of a lesser set.
"""
import re
import subprocess
import sys

AVX512, TILES = r"%zmm|\{%k", r"%tmm|tile"
# By folder: what must stand in its objects taken together, and what may not.
SETS = {
    "avx2": (["vpmaddubsw", "vfmadd"], [AVX512, TILES, "vpdpbusd"]),
    "avx_vnni": (["vpdpbusd.*%ymm"], [AVX512, TILES]),
    "avx512": (["vpdpbusd.*%zmm", "vpdpwssd.*%zmm"], [TILES]),
    "amx": (["ldtilecfg", "tileloadd", "tilestored", "tilezero", "tdpbssd", "tdpbsud", "tilerelease"], []),
}


def output(*command: str) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def faults(isa: str, objects: list[str]) -> list[str]:
    wanted, forbidden = SETS[isa]
    code = output("objdump", "--disassemble", "--no-show-raw-insn", "--no-addresses", *objects)
    lines = (line.split("#")[0] for line in code.splitlines() if line.startswith("\t"))
    instructions = [line for line in lines if "<" not in line]  # jumps name functions, which may be called like anything
    first = lambda pattern: next(filter(re.compile(pattern).search, instructions), None)
    found = [f"{isa}: no {want}" for want in wanted if first(want) is None]
    found += [f"{isa}: uses {line.strip()}" for pattern in forbidden if (line := first(pattern)) is not None]
    for line in output("nm", "--demangle", "--defined-only", *objects).splitlines():
        symbol = re.match(r"[0-9a-f]+ [VWu] (.*)", line)
        if symbol and f"baton::kernels::{isa}::" not in symbol.group(1):
            found.append(f"{isa}: shares {symbol.group(1)} with other files")
    return found


def main() -> int:
    by_set = {isa: [path for path in sys.argv[1:] if f"cpu/{isa}/" in path] for isa in SETS}
    missing = [f"no objects of {isa}" for isa, objects in by_set.items() if not objects]
    found = missing or [fault for isa, objects in by_set.items() for fault in faults(isa, objects)]
    print(*found, sep="\n")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
