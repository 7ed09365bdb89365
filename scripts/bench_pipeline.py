#!/usr/bin/env python3
"""What two machines give: two workers of one thread each against one worker of two, in turn, on this machine.

A prompt; many streams (two groups, so the other side has half as many); one stream, against one process with one thread;
requests that arrive at random, and the bubbles of each stage; and how far apart the tokens of streams lie while a long prompt
is read. Prints medians and their ratio beside what it should reach; ends with 1 where one falls short. --json FILE.

    scripts/bench_pipeline.py MODEL --baton build/release/baton
"""
import contextlib
import json
import pathlib
import random
import statistics
import subprocess
import sys
import threading

import local_cluster

ANY_TOKEN = (300, 2000)


class Pipeline(local_cluster.Cluster):
    """What is asked of each."""

    def __init__(self, stack, args, threads, sequences):
        super().__init__(stack, args, [local_cluster.Worker(count) for count in threads],
                         f"context: {args.context}\nsequences: {sequences}\njournal: \"off\"\n")
        self.args = args

    def prompt(self, seed, length):
        """Tokens per second of a prompt that nobody has sent before."""
        draw = random.Random(seed)
        ids = ",".join(str(draw.randrange(*ANY_TOKEN)) for _ in range(length))
        return self.ask("run", "--server", self.address, "--tokens", ids, "-n", 1, "--temp", 0)["timings"]["prefill_tokens_per_s"]

    def streams(self, seed, count, tokens):
        """Tokens per second of some streams in decode."""
        return self.tokens_per_s(count, "--prompt", 16, "--output", tokens, "--seed", seed)

    def arrivals(self, seed):
        return self.bench("--requests", 16, "--rate", self.args.rate, "--prompt", "exp:100", "--output", 64, "--seed", seed,
                          "--no-speculation")

    def distance(self, seed, long_prompt):
        """p95 of milliseconds between the tokens of four streams, while a prompt is read where it has a length."""
        reader = threading.Thread(target=self.bench, args=("--clients", 1, "--requests", 1, "--prompt", long_prompt, "--output", 1,
                                                            "--seed", seed + 1000)) if long_prompt else None
        if reader:
            reader.start()
        report = self.bench("--clients", 4, "--requests", 4, "--prompt", 16, "--output", self.args.tokens * 2, "--seed", seed,
                            "--no-speculation")
        if reader:
            reader.join()
        return report["tbt_ms"]["p95"]


def alone(args):
    """Tokens per second of one process with one thread."""
    words = [args.baton, "bench", "-m", args.model, "-t", 1, "--prefill", 0, "--decode", args.tokens, "--batch", 1, "--repeat", 1,
             "--json"]
    done = subprocess.run([str(w) for w in words], capture_output=True, check=True, timeout=local_cluster.PATIENCE_S)
    decode, = (r for r in json.loads(done.stdout)["results"] if r["test"] == "decode")
    return decode["tokens_per_s"]["median"]


# (name, what it measures: the pipeline's figure and what it is held against, what the ratio should be at least).
def cases(args, two, one, half):
    bubbles = []

    def random_arrivals(seed):
        report = two.arrivals(seed)
        bubbles.append(max(stage["bubble_share"] for stage in report["stages"]))
        return report["tokens_per_s"]
    return [
        (f"prompt of {args.prompt}", lambda s: two.prompt(s, args.prompt), lambda s: one.prompt(s, args.prompt), 0.95),
        ("8 streams, against 4", lambda s: two.streams(s, 8, args.tokens), lambda s: one.streams(s, 4, args.tokens), 0.95),
        ("one stream", lambda s: two.streams(s, 1, args.tokens), lambda s: alone(args), 0.97),
        ("16 requests at random", random_arrivals, lambda s: half.arrivals(s)["tokens_per_s"], 0.90),
        ("stages busy meanwhile", lambda s: 1 - bubbles[s], lambda s: 1, 0.90),
        (f"tokens beside a prompt of {args.long_prompt}, their distance", lambda s: two.distance(s, 0),
         lambda s: two.distance(s, args.long_prompt), 0.50),
    ]


def main():
    parser = local_cluster.parser(__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--context", type=int, default=4096)
    parser.add_argument("--prompt", type=int, default=2048)
    parser.add_argument("--long-prompt", type=int, default=3500)
    parser.add_argument("--tokens", type=int, default=48, help="of each answer")
    parser.add_argument("--rate", type=float, default=2, help="of requests a second that arrive at random")
    parser.add_argument("--cases", default="", help="only those with one of these words in their names, as prompt,random")
    parser.add_argument("--json", type=pathlib.Path)
    args = parser.parse_args()
    wanted = [word for word in args.cases.split(",") if word]
    short, rows = False, {}
    with contextlib.ExitStack() as stack:
        two = Pipeline(stack, args, (1, 1), 16)
        one = Pipeline(stack, args, (2,), 16)
        half = Pipeline(stack, args, (2,), 8)  # as many at a time as a group of the two has
        print(f"{'':>48} {'pipeline':>9} {'against':>9} {'ratio':>6} {'reach':>6}")
        for name, ours, theirs, reach in cases(args, two, one, half):
            if wanted and not any(word in name for word in wanted):
                continue
            seen = [(ours(seed), theirs(seed)) for seed in range(args.rounds)]
            left, right = (statistics.median(side) for side in zip(*seen))
            rows[name] = {"pipeline": left, "against": right, "ratio": left / right, "reach": reach, "rounds": seen}
            short = short or left / right < reach
            print(f"{name:>48} {left:>9.2f} {right:>9.2f} {left / right:>6.2f} {reach:>6.2f}", flush=True)
    if args.json:
        args.json.write_text(json.dumps(rows, indent=1) + "\n")
    sys.exit(short)


if __name__ == "__main__":
    main()
