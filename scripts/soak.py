#!/usr/bin/env python3
"""Runs a cluster under mixed load for a while and fails where it stalls or grows.

Workers and a coordinator on loopback; `baton bench --server` asks in rounds of other lengths, clients and arrivals. After each
round: RSS, file descriptors and threads of every process. The last third of the rounds may not stand above the middle third.

    scripts/soak.py MODEL --baton build/release/baton --workers 3 --minutes 10
"""
import argparse
import contextlib
import json
import os
import pathlib
import random
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time

START_S, ROUND_S = 60, 180
MAY_GROW = {"rss_mib": (1.05, 8), "fds": (1.0, 4), "threads": (1.0, 4)}  # times, plus


def figures(pid):
    status = pathlib.Path(f"/proc/{pid}/status").read_text()
    number = lambda key: int(re.search(rf"{key}:\s+(\d+)", status)[1])
    return {"rss_mib": number("VmRSS") / 1024, "threads": number("Threads"), "fds": len(os.listdir(f"/proc/{pid}/fd"))}


@contextlib.contextmanager
def server(words, env):
    process = subprocess.Popen([str(w) for w in words], stderr=subprocess.PIPE, text=True, env=env)
    try:
        said = []
        for line in process.stderr:
            said.append(line)
            if found := re.match(r"ready grpc=(\S+)", line):
                break
        else:
            raise SystemExit("".join(said))
        process.address = found[1]
        # Read on, so that a full pipe never stops it.
        process.log = subprocess.Popen(["cat"], stdin=process.stderr, stdout=subprocess.DEVNULL)
        yield process
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            raise SystemExit(f"{words[1]} did not end on SIGTERM") from None


@contextlib.contextmanager
def cluster(args, folder):
    env = os.environ | {"XDG_STATE_HOME": str(folder / "state")}
    with contextlib.ExitStack() as stack:
        workers = [stack.enter_context(server([args.baton, "worker", "--listen", "127.0.0.1:0", "--name", f"w{i}", "--models",
                                               args.model.parent, "--threads", 1], env)) for i in range(args.workers)]
        text = f"model: {args.model}\ncontext: {args.context}\nsequences: 16\nlisten:\n  grpc: 127.0.0.1:0\nworkers:\n"
        text += "".join(f"  - {{name: w{i}, address: \"{w.address}\", threads: 1}}\n" for i, w in enumerate(workers))
        (folder / "topology.yaml").write_text(text)
        serve = stack.enter_context(server([args.baton, "serve", "-f", folder / "topology.yaml"], env))
        yield {"serve": serve, **{f"w{i}": w for i, w in enumerate(workers)}}


def ask(args, processes, draw):
    """One round of load; it ends in time and without failures."""
    words = [args.baton, "bench", "--server", processes["serve"].address, "--json", "--requests", draw.randint(16, 48),
             "--clients", draw.randint(1, 24), "--prompt", draw.choice(["1-64", "exp:60", f"{args.context // 4}-{args.context // 2}"]),
             "--output", draw.choice(["1", "1-32", "exp:24"]), "--seed", draw.randint(0, 1 << 30),
             "--shared-prefix", draw.choice([0, 0, 40])]
    words += ["--rate", draw.randint(5, 50)] if draw.random() < 0.3 else []
    words += ["--no-speculation"] if draw.random() < 0.3 else []
    done = subprocess.run([str(w) for w in words], capture_output=True, text=True, timeout=ROUND_S)
    if done.returncode != 0:
        raise SystemExit(f"a round failed: {done.stderr.strip()}")
    report = json.loads(done.stdout)
    if report["failed"]:
        raise SystemExit(f"{report['failed']} requests failed: {report['first_error']}")
    return report


def grown(samples):
    """What stands higher at the end than in the middle; the beginning is warming up."""
    third = len(samples) // 3
    found = []
    for name in samples[0]:
        for kind, (times, plus) in MAY_GROW.items():
            middle, last = (statistics.median(s[name][kind] for s in part) for part in (samples[third:2 * third], samples[-third:]))
            if last > middle * times + plus:
                found.append(f"{name}: {kind} from {middle:.0f} to {last:.0f}")
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", type=lambda p: pathlib.Path(p).resolve())
    parser.add_argument("--baton", default="baton", type=lambda p: pathlib.Path(p).resolve() if "/" in p else p)
    parser.add_argument("--workers", type=int, default=3)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--context", type=int, default=1024)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    draw, samples, tokens, requests = random.Random(args.seed), [], 0, 0
    with tempfile.TemporaryDirectory(prefix="baton-soak-") as folder, cluster(args, pathlib.Path(folder)) as processes:
        end = time.monotonic() + args.minutes * 60
        while time.monotonic() < end or len(samples) < 6:
            report = ask(args, processes, draw)
            tokens, requests = tokens + report["output_tokens"], requests + report["completed"]
            samples.append({name: figures(process.pid) for name, process in processes.items()})
    for name in samples[0]:
        first, last = samples[len(samples) // 3][name], samples[-1][name]
        print(f"{name}: " + ", ".join(f"{kind} {first[kind]:.0f} -> {last[kind]:.0f}" for kind in first))
    print(f"{args.workers} workers, {len(samples)} rounds, {requests} requests, {tokens} tokens")
    if found := grown(samples):
        sys.exit("it grows: " + "; ".join(found))


if __name__ == "__main__":
    main()
