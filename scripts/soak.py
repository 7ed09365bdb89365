#!/usr/bin/env python3
"""Runs a cluster under mixed load for a while and fails where it stalls or grows.

Workers and a coordinator on loopback; `baton bench --server` asks in rounds of other lengths, clients and arrivals. After each
round: RSS, file descriptors and threads of every process. The last third of the rounds may not stand above the middle third.

    scripts/soak.py MODEL --baton build/release/baton --workers 3 --minutes 10
"""
import contextlib
import os
import pathlib
import random
import re
import statistics
import sys
import time

import local_cluster

ROUND_S = 180
MAY_GROW = {"rss_mib": (1.05, 8), "fds": (1.0, 4), "threads": (1.0, 4)}  # times, plus


def figures(pid):
    status = pathlib.Path(f"/proc/{pid}/status").read_text()
    number = lambda key: int(re.search(rf"{key}:\s+(\d+)", status)[1])
    return {"rss_mib": number("VmRSS") / 1024, "threads": number("Threads"), "fds": len(os.listdir(f"/proc/{pid}/fd"))}


def load(args, cluster, draw):
    """One round; it ends in time and without failures."""
    words = ["--requests", draw.randint(16, 48), "--clients", draw.randint(1, 24),
             "--prompt", draw.choice(["1-64", "exp:60", f"{args.context // 4}-{args.context // 2}"]),
             "--output", draw.choice(["1", "1-32", "exp:24"]), "--seed", draw.randint(0, 1 << 30),
             "--shared-prefix", draw.choice([0, 0, 40])]
    words += ["--rate", draw.randint(5, 50)] if draw.random() < 0.3 else []
    words += ["--no-speculation"] if draw.random() < 0.3 else []
    return cluster.bench(*words, patience_s=ROUND_S)


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
    parser = local_cluster.parser(__doc__)
    parser.add_argument("--workers", type=int, default=3)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--context", type=int, default=1024)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    draw, samples, tokens, requests = random.Random(args.seed), [], 0, 0
    with contextlib.ExitStack() as stack:
        cluster = local_cluster.Cluster(stack, args, [local_cluster.Worker()] * args.workers,
                                        f"context: {args.context}\nsequences: 16\n")
        end = time.monotonic() + args.minutes * 60
        while time.monotonic() < end or len(samples) < 6:
            report = load(args, cluster, draw)
            tokens, requests = tokens + report["output_tokens"], requests + report["completed"]
            samples.append({name: figures(process.pid) for name, process in cluster.processes.items()})
    for name in samples[0]:
        first, last = samples[len(samples) // 3][name], samples[-1][name]
        print(f"{name}: " + ", ".join(f"{kind} {first[kind]:.0f} -> {last[kind]:.0f}" for kind in first))
    print(f"{args.workers} workers, {len(samples)} rounds, {requests} requests, {tokens} tokens")
    if found := grown(samples):
        sys.exit("it grows: " + "; ".join(found))


if __name__ == "__main__":
    main()
