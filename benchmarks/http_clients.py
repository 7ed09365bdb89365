#!/usr/bin/env python3
"""Many HTTP clients at once, against a coordinator with a tiny model: how evenly do tokens come, what does an idle connection
cost, and how much memory do they all take? Each client must get its tokens or a clear refusal; else the exit code is 1.

    BATON_BIN=build/release/baton BATON_TINY_MODEL=build/release/tests/e2e/make_tiny_model \\
      PYTHONPATH=tests/e2e benchmarks/http_clients.py [--clients 500] [--tokens 32] [--idle 1000] [--sequences 64]
"""
import argparse
import asyncio
import contextlib
import json
import pathlib
import sys
import tempfile
import time

import cluster


class Client:
    """What one client got: times of the events with text, and how it ended: done, refused (as HTTP says it) or broken."""

    def __init__(self):
        self.times, self.end, self.status = [], "broken", 0


async def stream(host, port, body):
    got = Client()
    with contextlib.suppress(OSError, ValueError, asyncio.IncompleteReadError):
        await read_stream(host, port, body, got)
    return got


async def read_stream(host, port, body, got):
    reader, writer = await asyncio.open_connection(host, port)
    writer.write(f"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body)
    got.status = int((await reader.readline()).split()[1])
    while line := await reader.readline():
        if got.status in (429, 503) and line.lower().startswith(b"retry-after:"):
            got.end = "refused"
            break
        if line.startswith(b"data: [DONE]"):
            got.end = "done"
            break
        if line.startswith(b"data: "):
            got.times.append(time.monotonic())
    writer.close()


async def watch(pid, peak):
    """The most that a process has resident, until cancelled."""
    while True:
        peak.append(cluster.resident_bytes(pid))
        await asyncio.sleep(0.1)


async def idle(host, port, count):
    """Connections that have asked once, and wait."""
    request, open_ones = b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n", []
    for _ in range(count):
        reader, writer = await asyncio.open_connection(host, port)
        writer.write(request)
        await reader.readuntil(b"\r\n\r\n")
        open_ones.append(writer)
    return open_ones


def quantile(values, share):
    return sorted(values)[min(len(values) - 1, int(share * len(values)))]


async def measure(made, flags):
    host, port = made.coordinator.http.rsplit(":", 1)
    pid = made.coordinator.process.pid
    body = json.dumps({"prompt": "a", "max_tokens": flags.tokens, "stream": True, "ignore_eos": True, "logprobs": 0}).encode()
    await stream(host, port, body)
    before = cluster.resident_bytes(pid)
    connections = await idle(host, port, flags.idle)
    each = (cluster.resident_bytes(pid) - before) / flags.idle
    for writer in connections:
        writer.close()
    rss, begin = [before], time.monotonic()
    watcher = asyncio.create_task(watch(pid, rss))
    clients = await asyncio.gather(*(stream(host, port, body) for _ in range(flags.clients)))
    took = time.monotonic() - begin
    watcher.cancel()
    arrivals = [c.times for c in clients if c.end == "done"]
    gaps = [b - a for times in arrivals for a, b in zip(times, times[1:])]
    first = [times[0] - begin for times in arrivals]
    ends = {end: sum(c.end == end for c in clients) for end in ("done", "refused", "broken")}
    return {"clients": flags.clients, **ends, "seconds": took,
            "rss_MiB": {"before": before >> 20, "most": max(rss) >> 20, "after": cluster.resident_bytes(pid) >> 20},
            "events_per_s": sum(map(len, arrivals)) / took,
            "between_events_ms": {"p50": 1e3 * quantile(gaps, .5), "p99": 1e3 * quantile(gaps, .99), "max": 1e3 * max(gaps)},
            "first_event_s": {"p50": quantile(first, .5), "max": max(first)},
            "idle_connections": flags.idle, "bytes_per_idle_connection": each}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clients", type=int, default=500)
    parser.add_argument("--tokens", type=int, default=32)
    parser.add_argument("--idle", type=int, default=1000)
    parser.add_argument("--sequences", type=int, default=64, help="that run at once; the others wait")
    flags = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        model = cluster.tiny_model(pathlib.Path(folder) / "tiny.gguf")
        with cluster.cluster(folder, model, context=64, sequences=flags.sequences, http="127.0.0.1:0") as made:
            report = asyncio.run(measure(made, flags))
    print(json.dumps(report, indent=1))
    return 1 if report["broken"] else 0


sys.exit(main())
