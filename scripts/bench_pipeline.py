#!/usr/bin/env python3
"""What two machines give: two workers of one thread each against one worker of two, in turn, on this machine.

A prompt; many streams (two groups, so the other side has half as many); one stream, against one process with one thread;
requests that arrive at random, and the bubbles of each stage; and how far apart the tokens of streams lie while a long prompt
is read. Prints medians and their ratio beside what it should reach; ends with 1 where one falls short. --json FILE.

    scripts/bench_pipeline.py MODEL --baton build/release/baton
"""
import argparse
import contextlib
import json
import os
import pathlib
import random
import statistics
import subprocess
import sys
import tempfile
import threading

from soak import server

PATIENCE_S = 900
ANY_TOKEN = (300, 2000)


class Cluster:
    """A coordinator, its workers, and what one asks of them."""

    def __init__(self, stack, args, folder, threads, sequences):
        folder.mkdir()
        self.args, self.env = args, os.environ | {"XDG_STATE_HOME": str(folder / "state")}
        text = (f"model: {args.model}\ncontext: {args.context}\nsequences: {sequences}\njournal: \"off\"\n"
                "listen:\n  grpc: 127.0.0.1:0\nworkers:\n")
        for i, count in enumerate(threads):
            worker = stack.enter_context(server([args.baton, "worker", "--listen", "127.0.0.1:0", "--name", f"w{i}", "--models",
                                                 args.model.parent, "--threads", count], self.env))
            text += f"  - {{name: w{i}, address: \"{worker.address}\", threads: {count}}}\n"
        (folder / "topology.yaml").write_text(text)
        self.address = stack.enter_context(server([args.baton, "serve", "-f", folder / "topology.yaml"], self.env)).address

    def bench(self, *words):
        report = self.json("bench", "--server", self.address, "--no-speculation", *words)
        if report["failed"]:
            raise SystemExit(f"{report['failed']} requests failed: {report['first_error']}")
        return report

    def json(self, *words):
        done = subprocess.run([str(w) for w in (self.args.baton, *words, "--json")], env=self.env, capture_output=True, text=True,
                              timeout=PATIENCE_S)
        if done.returncode != 0:
            raise SystemExit(f"baton {' '.join(map(str, words[:3]))}: {done.stderr.strip()}")
        return json.loads(done.stdout)

    def prompt(self, seed, length):
        """Tokens per second of a prompt that nobody has sent before."""
        draw = random.Random(seed)
        ids = ",".join(str(draw.randrange(*ANY_TOKEN)) for _ in range(length))
        return self.json("run", "--server", self.address, "--tokens", ids, "-n", 1, "--temp", 0)["timings"]["prefill_tokens_per_s"]

    def streams(self, seed, count, tokens):
        """Tokens per second of some streams in decode."""
        report = self.bench("--clients", count, "--requests", count, "--prompt", 16, "--output", tokens, "--seed", seed)
        return count * 1000 / report["tbt_ms"]["mean"]

    def arrivals(self, seed):
        return self.bench("--requests", 16, "--rate", self.args.rate, "--prompt", "exp:100", "--output", 64, "--seed", seed)

    def distance(self, seed, long_prompt):
        """p95 of milliseconds between the tokens of four streams, while a prompt is read where it has a length."""
        reader = threading.Thread(target=self.prompt, args=(seed, long_prompt)) if long_prompt else None
        if reader:
            reader.start()
        report = self.bench("--clients", 4, "--requests", 4, "--prompt", 16, "--output", self.args.tokens * 2, "--seed", seed)
        if reader:
            reader.join()
        return report["tbt_ms"]["p95"]


def alone(args):
    """Tokens per second of one process with one thread."""
    words = [args.baton, "bench", "-m", args.model, "-t", 1, "--prefill", 0, "--decode", args.tokens, "--batch", 1, "--repeat", 1,
             "--json"]
    done = subprocess.run([str(w) for w in words], capture_output=True, check=True, timeout=PATIENCE_S)
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
        ("stages busy meanwhile", lambda s: 1 - bubbles[-1], lambda s: 1, 0.90),
        (f"tokens beside a prompt of {args.long_prompt}, their distance", lambda s: two.distance(s, 0),
         lambda s: two.distance(s, args.long_prompt), 0.50),
    ]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", type=lambda p: pathlib.Path(p).resolve())
    parser.add_argument("--baton", default="baton", type=lambda p: pathlib.Path(p).resolve() if "/" in p else p)
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
    with tempfile.TemporaryDirectory(prefix="baton-pipeline-") as folder, contextlib.ExitStack() as stack:
        folder = pathlib.Path(folder)
        two = Cluster(stack, args, folder / "two", (1, 1), 16)
        one = Cluster(stack, args, folder / "one", (2,), 16)
        half = Cluster(stack, args, folder / "half", (2,), 8)  # as many at a time as a group of the two has
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
