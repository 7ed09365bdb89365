#!/usr/bin/env python3
"""What slow links cost: two workers in two network namespaces, eight streams, links of several delays.

For each link: tokens/s as `baton plan` predicts them from the measured speeds and the link, and as `baton bench --server`
measures them. Prints a table, writes --json and --plot. Needs root; leaves no namespace behind.

    scripts/bench_links.py MODEL --baton build/release/baton --delays 0.05,1,5,20 --mbit 100
"""
import contextlib
import json
import pathlib
import subprocess
import sys

import local_cluster

SCRIPTS = pathlib.Path(__file__).resolve().parent
LEFT, RIGHT = "baton-left", "baton-right"
LEFT_ADDRESS, RIGHT_ADDRESS = "10.97.0.1", "10.97.0.2"
PORT = 21900


def ip(*words):
    subprocess.run(["ip", *words], check=True)


def inside(namespace):
    return ("ip", "netns", "exec", namespace)


@contextlib.contextmanager
def namespaces():
    for name in (LEFT, RIGHT):
        ip("netns", "add", name)
    try:
        for name in (LEFT, RIGHT):
            ip("-n", name, "link", "set", "lo", "up")
        yield
    finally:
        for name in (LEFT, RIGHT):
            subprocess.run(["ip", "netns", "delete", name], check=False)


def measure(args, delay_ms):
    """One link: what is predicted, what is seen."""
    settings = f"context: 1024\nsequences: {args.streams}\ninsecure: true\nspeculation: false\njournal: \"off\"\n"
    workers = [local_cluster.Worker(layers=layers, listen=f"{address}:{PORT + 1}", flags=("--insecure",), inside=inside(where))
               for layers, address, where in zip(args.layers, (LEFT_ADDRESS, RIGHT_ADDRESS), (LEFT, RIGHT))]
    link = (sys.executable, SCRIPTS / "slow_link.py", LEFT, f"{LEFT_ADDRESS}/24", RIGHT, f"{RIGHT_ADDRESS}/24", "--delay-ms", delay_ms,
            "--mbit", args.mbit)
    with contextlib.ExitStack() as stack:
        stack.enter_context(local_cluster.started(link, "up"))
        cluster = local_cluster.Cluster(stack, args, workers, settings, f"{LEFT_ADDRESS}:{PORT}", inside(LEFT))
        load = ("--clients", args.streams, "--requests", args.streams, "--prompt", 8, "--no-speculation")
        cluster.bench(*load, "--output", 8)
        seen = cluster.bench(*load, "--output", args.tokens)
        plan = cluster.ask("plan", "-f", cluster.file)
    return {"delay_ms": delay_ms, "predicted": plan["predicted"]["tokens_per_s"], "measured": seen["tokens_per_s"],
            "tbt_p50_ms": seen["tbt_ms"]["p50"], "bubbles": [s["bubble_share"] for s in seen["stages"]]}


def plot(rows):
    """Two lines over the links, as SVG."""
    width, height, left, top = 420, 220, 60, 30
    most = max(max(r["predicted"], r["measured"]) for r in rows) * 1.1
    x = lambda i: left + width * i / max(1, len(rows) - 1)
    y = lambda value: top + height * (1 - value / most)
    text = ['<svg xmlns="http://www.w3.org/2000/svg" width="560" height="320" font-family="sans-serif" font-size="12">',
            '<rect width="560" height="320" fill="white"/>']
    for i, row in enumerate(rows):
        text.append(f'<text x="{x(i):.0f}" y="{top + height + 18}" text-anchor="middle">{row["delay_ms"]:g} ms</text>')
    for step in range(0, 5):
        value = most * step / 4
        text.append(f'<line x1="{left}" x2="{left + width}" y1="{y(value):.1f}" y2="{y(value):.1f}" stroke="#ddd"/>'
                    f'<text x="{left - 6}" y="{y(value) + 4:.1f}" text-anchor="end">{value:.0f}</text>')
    for n, (name, colour) in enumerate((("predicted", "#1f77b4"), ("measured", "#d62728"))):
        points = " ".join(f"{x(i):.1f},{y(row[name]):.1f}" for i, row in enumerate(rows))
        text.append(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2"/>'
                    f'<text x="{left + 120 * n}" y="{top + height + 40}" fill="{colour}">{name} tokens/s</text>')
    text.append(f'<text x="{left}" y="18">one-way delay of the link, two workers, eight streams</text></svg>\n')
    return "\n".join(text)


def main():
    parser = local_cluster.parser(__doc__)
    parser.add_argument("--delays", default="0.05,1,5,20", help="milliseconds, one way")
    parser.add_argument("--mbit", type=float, default=100)
    parser.add_argument("--streams", type=int, default=8)
    parser.add_argument("--tokens", type=int, default=64, help="of each answer")
    parser.add_argument("--layers", default="auto,auto", type=lambda t: t.split(","), help="of the two workers, as 0-14,15-29")
    parser.add_argument("--json", type=pathlib.Path)
    parser.add_argument("--plot", type=pathlib.Path)
    args = parser.parse_args()
    rows = []
    print(f"{'delay':>8} {'predicted':>10} {'measured':>10} {'ratio':>7} {'between tokens p50':>20}")
    for delay in map(float, args.delays.split(",")):
        with namespaces():
            row = measure(args, delay)
        rows.append(row)
        print(f"{delay:>6g}ms {row['predicted']:>10.1f} {row['measured']:>10.1f} {row['measured'] / row['predicted']:>7.2f}"
              f" {row['tbt_p50_ms']:>17.1f} ms", flush=True)
    if args.json:
        args.json.write_text(json.dumps(rows, indent=1) + "\n")
    if args.plot:
        args.plot.write_text(plot(rows))


if __name__ == "__main__":
    main()
