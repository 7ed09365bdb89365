#!/usr/bin/env python3
"""What `baton plan` predicts against what is measured, on this machine: two and three workers, and one of them slowed down.

Each case starts a cluster without known speeds, so that it measures them, takes the prediction from the file that it leaves, and
asks with as many streams as the topology has and with one. Prints a table; --json FILE. Ends with 1 where a prediction is
further off than --within.

    scripts/bench_plan.py MODEL --baton build/release/baton
"""
import contextlib
import functools
import json
import pathlib
import signal
import sys
import threading
import time

import local_cluster

SLOW_PERIOD_S = 0.02
# Threads of each worker, and the share of time that it may run.
CASES = {
    "two alike": [(1, 1), (1, 1)],
    "one at half speed": [(1, 1), (1, 0.5)],
    "three alike": [(1, 1), (1, 1), (1, 1)],
    "three with one at half speed": [(1, 1), (1, 0.5), (1, 1)],
}


@contextlib.contextmanager
def slowed(process, share):
    """Lets a process run for a share of the time only, as cpulimit does."""
    stop = threading.Event()

    def hold():
        while not stop.is_set():
            process.send_signal(signal.SIGSTOP)
            time.sleep(SLOW_PERIOD_S * (1 - share))
            process.send_signal(signal.SIGCONT)
            time.sleep(SLOW_PERIOD_S * share)

    thread = threading.Thread(target=hold)
    if share < 1:
        thread.start()
    try:
        yield
    finally:
        stop.set()
        if share < 1:
            thread.join()


def measure(args, case):
    workers = [local_cluster.Worker(threads, around=functools.partial(slowed, share=share)) for threads, share in case]
    settings = f"context: 1024\nsequences: {args.streams}\nspeculation: false\njournal: \"off\"\n"
    with contextlib.ExitStack() as stack:
        cluster = local_cluster.Cluster(stack, args, workers, settings)
        plan = cluster.ask("plan", "-f", cluster.file)
        rate = lambda streams: cluster.tokens_per_s(streams, "--prompt", 8, "--output", args.tokens)
        rate(args.streams)  # first touch
        many, one = rate(args.streams), rate(1)
    return {"layers": [s["layers"]["end"] - s["layers"]["begin"] for s in plan["stages"]],
            "predicted": plan["predicted"]["tokens_per_s"], "measured": many,
            "predicted_one": 1000 / plan["predicted"]["latency_ms_per_token"], "measured_one": one}


def main():
    parser = local_cluster.parser(__doc__)
    parser.add_argument("--streams", type=int, default=8)
    parser.add_argument("--tokens", type=int, default=48, help="of each answer")
    parser.add_argument("--within", type=float, default=0.15)
    parser.add_argument("--cases", default=",".join(CASES), help="some of: " + ", ".join(CASES))
    parser.add_argument("--json", type=pathlib.Path)
    args = parser.parse_args()
    rows, worst = {}, 0.0
    print(f"{'':>26} {'layers':>12} {'predicted':>10} {'measured':>10} {'ratio':>6}   {'one stream':>10} {'measured':>10} {'ratio':>6}")
    for name in args.cases.split(","):
        row = rows[name] = measure(args, CASES[name])
        ratios = [row["measured"] / row["predicted"], row["measured_one"] / row["predicted_one"]]
        worst = max(worst, *(abs(r - 1) for r in ratios))
        print(f"{name:>26} {'+'.join(map(str, row['layers'])):>12} {row['predicted']:>10.1f} {row['measured']:>10.1f} {ratios[0]:>6.2f}"
              f"   {row['predicted_one']:>10.1f} {row['measured_one']:>10.1f} {ratios[1]:>6.2f}", flush=True)
    if args.json:
        args.json.write_text(json.dumps(rows, indent=1) + "\n")
    sys.exit(worst > args.within)


if __name__ == "__main__":
    main()
