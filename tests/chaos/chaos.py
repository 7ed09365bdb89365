#!/usr/bin/env python3
"""Real processes, and trouble at random moments: kills, stops, restarts, drains. What clients get must not change by a byte.

usage: chaos.py [--seed N] [--quick] [--minutes N] [SCENARIO ...]       BATON_BIN and BATON_TINY_MODEL as in tests/e2e/cluster.py

Every choice comes from the seed, which is printed. Each scenario prints one line of figures; the exit code is 1 if one fell
short. --quick is what the test suite runs, in a minute and a half; without it the figures are those of docs/reliability.md.
The soak runs only where it is named.
"""
import argparse
import contextlib
import http.client
import json
import os
import pathlib
import random
import signal
import socket
import ssl
import statistics
import struct
import subprocess
import sys
import tempfile
import threading
import time

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "e2e"))
import cluster  # noqa: E402

DEADLINE_S = 120  # of one answer
STALL_S = 30  # a lease and a recovery, with all that a busy machine adds


class FallsShort(Exception):
    pass


def require(condition, what):
    if not condition:
        raise FallsShort(what)


class Answer:
    """A streamed completion: its text, and when each piece came."""

    def __init__(self, address, prompt, tokens):
        self.text, self.times, self.error = "", [], None
        try:
            self._read(address, prompt, tokens)
        except (OSError, http.client.HTTPException, ValueError) as e:
            self.error = f"{type(e).__name__}: {e}"

    def _read(self, address, prompt, tokens):
        connection = http.client.HTTPConnection(address, timeout=DEADLINE_S)
        with contextlib.closing(connection):
            body = {"prompt": prompt, "max_tokens": tokens, "temperature": 0, "ignore_eos": True, "stream": True}
            connection.request("POST", "/v1/completions", json.dumps(body))
            response = connection.getresponse()
            if response.status != 200:
                self.error = f"{response.status}: {response.read(300).decode(errors='replace')}"
                return
            finish = None
            for line in response:
                if not line.startswith(b"data: ") or line.startswith(b"data: [DONE]"):
                    continue
                event = json.loads(line[6:])
                if "error" in event:
                    self.error = event["error"]["message"]
                    return
                self.times.append(time.monotonic())
                self.text += event["choices"][0]["text"]
                finish = event["choices"][0]["finish_reason"] or finish
            if finish != "length":
                self.error = f"ended with {finish}"


class Streams:
    """Clients that ask the same questions again and again until they are stopped."""

    def __init__(self, chaos, count, tokens, lengths=(3, 40)):
        self.address, self.tokens, self.answers = chaos.http, tokens, []
        self.prompts = [[chaos.random.randrange(3, 200) for _ in range(chaos.random.randrange(*lengths))] for _ in range(count)]
        self.want = [a.text for a in self.once()]

    def once(self):
        answers = [None] * len(self.prompts)

        def ask(i):
            answers[i] = Answer(self.address, self.prompts[i], self.tokens)
        threads = [threading.Thread(target=ask, args=(i,)) for i in range(len(self.prompts))]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        for a in answers:
            require(a.error is None, f"undisturbed: {a.error}")
        return answers

    def __enter__(self):
        self.over = threading.Event()

        def go_on(i):
            while not self.over.is_set():
                self.answers.append((i, Answer(self.address, self.prompts[i], self.tokens)))
                if self.answers[-1][1].error is not None:
                    time.sleep(0.2)
        self.threads = [threading.Thread(target=go_on, args=(i,)) for i in range(len(self.prompts))]
        for t in self.threads:
            t.start()
        return self

    def __exit__(self, *_):
        self.over.set()
        for t in self.threads:
            t.join()

    def check(self):
        """All answers are those of the undisturbed run; returns how many there were."""
        errors = [a.error for _, a in self.answers if a.error is not None]
        require(not errors, f"{len(errors)} of {len(self.answers)} streams failed: {errors[:1]}")
        other = [i for i, a in self.answers if a.text != self.want[i]]
        require(not other, f"{len(other)} of {len(self.answers)} streams have another text")
        return len(self.answers)

    def pauses(self, moments):
        """Sorted: how long after the last of these moments in a gap between two pieces the second one came."""
        pauses = []
        for _, a in self.answers:
            for begin, end in zip(a.times, a.times[1:]):
                if inside := [m for m in moments if begin < m <= end]:
                    pauses.append(end - max(inside))
        return sorted(pauses)


def share(values, part):
    return values[min(len(values) - 1, int(part * len(values)))] if values else 0.0


def figures(pid):
    status = pathlib.Path(f"/proc/{pid}/status").read_text()
    threads = int(next(line for line in status.splitlines() if line.startswith("Threads:")).split()[1])
    return {"fds": len(os.listdir(f"/proc/{pid}/fd")), "threads": threads, "rss_MiB": cluster.resident_bytes(pid) >> 20}


class Link:
    """A relay to an address, which can be slow, stand still, be cut, or flip a bit."""

    def __init__(self, target):
        self.target, self.pause_s, self.flips, self.sockets = target.rsplit(":", 1), 0.0, threading.Semaphore(0), []
        self.moves = threading.Event()
        self.moves.set()
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self.listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        with contextlib.suppress(OSError):
            while True:
                near, _ = self.listener.accept()
                try:
                    far = socket.create_connection(self.target)
                except OSError:
                    near.close()
                    continue
                self.sockets += near, far
                for pair in ((near, far), (far, near)):
                    pair[0].setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                    threading.Thread(target=self._carry, args=pair, daemon=True).start()

    def _carry(self, source, sink):
        with contextlib.suppress(OSError):
            while data := bytearray(source.recv(1 << 16)):
                self.moves.wait()
                time.sleep(self.pause_s)
                if self.flips.acquire(blocking=False):
                    data[len(data) // 2] ^= 1
                sink.sendall(data)
        for one in (source, sink):
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)

    def cut(self):
        while self.sockets:
            one = self.sockets.pop()
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()

    def close(self):
        self.listener.close()
        self.cut()


class Chaos:
    """A cluster of `baton up` and what disturbs it."""

    def __init__(self, folder, flags):
        self.folder, self.quick, self.minutes, self.servers, self.client = folder, flags.quick, flags.minutes, [], ()
        self.random = random.Random(flags.seed)
        self.make_model(context=1024)

    def make_model(self, context):
        shape = {"layers": 6, "hidden": 64} if self.quick else {"layers": 24, "hidden": 256}
        self.context, self.model = context, cluster.tiny_model(self.folder / "tiny.gguf", context=context, **shape)

    def up(self, workers=3, spares=0, more=""):
        entry = {"address": "127.0.0.1:0", "threads": 1, "launch": "local"}
        text = cluster.topology_text(self.model, [{"name": f"w{i}"} | entry for i in range(workers)], context=self.context, sequences=8,
                                     more="  http: 127.0.0.1:0\n" + f"journal: {self.folder}/journal\n" + more)
        if spares:
            text += "spares:\n" + "".join(f"  - {{name: s{i}, address: '127.0.0.1:0', threads: 1, launch: local}}\n"
                                          for i in range(spares))
        return self.started(text, "up")

    def started(self, topology, command, env=None):
        file = self.folder / "topology.yaml"
        file.write_text(topology)
        server = cluster.Server(command, "-f", file, env=env)
        self.servers.append(server)
        server.ready()
        self.grpc, self.http = server.grpc, server.http
        return server

    def at(self, topology, address):
        """The file, for a coordinator that takes the place of one before it."""
        topology.write_text(topology.read_text().replace("grpc: 127.0.0.1:0", f"grpc: {address}"))
        return topology

    def stop(self):
        for server in reversed(self.servers):
            with contextlib.suppress(AssertionError):
                server.stop()
        self.servers.clear()

    def status(self):
        return cluster.run_json("status", "--server", self.grpc, *self.client, timeout=30)

    def ask(self, prompt, tokens):
        """A gRPC client's answer, resumed where the coordinator goes."""
        while True:
            begin = time.monotonic()
            done = cluster.run("run", "--server", self.grpc, "--tokens", prompt, "-n", tokens, "--temp", 0, "--ignore-eos",
                               "--json", timeout=DEADLINE_S)
            # Who asks while there is no coordinator is told so at once, or as soon as a busy machine can; whoever was heard is
            # tried to be served for a minute.
            told = "nobody listens" in done.stderr or "still loading" in done.stderr
            if not told or time.monotonic() - begin > 30:
                return done
            time.sleep(0.2)

    def wait_ready(self, seconds=60):
        end, status = time.monotonic() + seconds, None
        while time.monotonic() < end:
            with contextlib.suppress(AssertionError, subprocess.TimeoutExpired):
                status = self.status()
                if status["state"] == "ready" and all(os.path.exists(f"/proc/{w['pid']}") for w in self.alive(status)):
                    return status  # of a spare that is gone it may still tell
            time.sleep(0.05)
        raise FallsShort(f"not ready after {seconds} s: {status and status['state']}")

    def send(self, which, pids):
        """A signal to whoever is still there: what `status` says is a moment old."""
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, which)

    def kill(self, pids):
        self.send(signal.SIGKILL, pids)

    def alive(self, status):
        return [w for w in status["workers"] if w["pid"]]

    def kv_blocks_used(self):
        connection = http.client.HTTPConnection(self.http, timeout=30)
        with contextlib.closing(connection):
            connection.request("GET", "/api/cluster")
            return json.loads(connection.getresponse().read())["kv_blocks"]["used"]

    def metric(self, name):
        """The sum over coordinator and workers."""
        connection = http.client.HTTPConnection(self.http, timeout=30)
        with contextlib.closing(connection):
            connection.request("GET", "/metrics")
            lines = connection.getresponse().read().decode().splitlines()
        found = [line for line in lines if name in line and not line.startswith("#")]
        require(found, f"no metric {name}")
        return sum(float(line.split()[-1]) for line in found)

    def wait_idle(self):
        """Nothing runs and no sequence holds blocks; the figures of status are a moment old."""
        end = time.monotonic() + 5
        while True:
            status, used = self.wait_ready(), self.kv_blocks_used()
            if status["sequences"] == {"running": 0, "waiting": 0} and used == 0:
                return status
            require(time.monotonic() < end, f"left behind: {status['sequences']}, {used} KV blocks in use")
            time.sleep(0.1)

    def worker_figures(self):
        return {w["name"]: figures(w["pid"]) for w in self.alive(self.wait_ready())}


def require_no_more(before, after):
    """Figures of one process, or of one that took its place."""
    require(after["fds"] <= before["fds"] + 10 and after["threads"] <= before["threads"] + 8, f"{before} became {after}")
    require(after["rss_MiB"] <= 1.5 * before["rss_MiB"] + 30, f"{before} became {after}")


def require_answers(got, want):
    """`got`: which prompt, and the command that asked; `want`: the tokens of each prompt's undisturbed answer."""
    failed = [d.stderr.strip() for _, d in got if d.returncode != 0]
    require(not failed, f"{len(failed)} of {len(got)} answers failed: {failed[:1]}")
    other = [i for i, d in got if json.loads(d.stdout)["tokens"] != want[i]]
    require(not other, f"{len(other)} of {len(got)} answers have other tokens")


def workers(chaos):
    """Random workers die, sometimes two at once, each time while all streams run."""
    kills, count, tokens = (3, 3, 150) if chaos.quick else (100, 8, 500)
    chaos.up()
    streams, done, moments = Streams(chaos, count, tokens), 0, []
    pid = chaos.status()["coordinator"]["pid"]
    before, workers_before = figures(pid), chaos.worker_figures()
    with streams:
        while done < kills:
            time.sleep(chaos.random.uniform(0.2, 1.0 if chaos.quick else 3.0))
            alive = chaos.alive(chaos.wait_ready())
            victims = chaos.random.sample(alive, min(len(alive), kills - done, chaos.random.choice((1, 1, 1, 2))))
            chaos.kill([w["pid"] for w in victims])
            moments.append(time.monotonic())
            done += len(victims)
    answers = streams.check()
    status = chaos.wait_idle()
    after, workers_after = figures(pid), chaos.worker_figures()
    require(status["coordinator"]["pid"] == pid, "the coordinator is another one")
    require_no_more(before, after)
    for name, figure in workers_after.items():
        require_no_more(workers_before[name], figure)
    pauses = streams.pauses(moments)
    limit = 10 if chaos.quick else 3
    require(share(pauses, 0.95) < limit, f"the 95th of 100 pauses takes {share(pauses, 0.95):.2f} s, expected {limit}")
    return (f"{done} kills, {answers} streams of {tokens} tokens equal; pause p50 {share(pauses, 0.5):.2f} s, "
            f"p95 {share(pauses, 0.95):.2f} s, longest {pauses[-1] if pauses else 0:.2f} s; no KV block in use; coordinator "
            f"{before} -> {after}, workers {workers_before} -> {workers_after}")


def long_context(chaos):
    """The first, the middle or the last worker dies in the answer to a long prompt: who comes after it still has what it computed."""
    length, tokens, victims = (700, 300, ("w0",)) if chaos.quick else (6000, 600, ("w0", "w1", "w2", "w0", "w1", "w2"))
    chaos.make_model(context=8192)
    chaos.up()
    streams, told = Streams(chaos, 1, tokens, lengths=(length, length + 1)), []
    for victim in victims:
        streams.once()  # so that the next one begins at once
        with streams:
            time.sleep(0.2 if chaos.quick else 1.5)
            pid = next(w["pid"] for w in chaos.alive(chaos.wait_ready()) if w["name"] == victim)
            moment = time.monotonic()
            chaos.kill([pid])
        gaps = [end - max(begin, moment) for _, a in streams.answers for begin, end in zip(a.times, a.times[1:]) if end > moment]
        told.append(f"{victim} {max(gaps):.1f} s" if gaps else f"{victim} between answers")
    return f"a prompt of {length}, pauses {', '.join(told)}; {streams.check()} answers of {tokens} tokens equal"


def stopped(chaos):
    """A worker that stands still for 3 s is slow, not lost."""
    chaos.up()
    streams = Streams(chaos, 2, 300)
    epoch = chaos.wait_ready()["epoch"]
    with streams:
        time.sleep(0.3)
        victim = chaos.random.choice(chaos.alive(chaos.status()))["pid"]
        os.kill(victim, signal.SIGSTOP)
        time.sleep(1.5 if chaos.quick else 3)
        os.kill(victim, signal.SIGCONT)
        time.sleep(0.3)
    answers = streams.check()
    require(chaos.wait_ready()["epoch"] == epoch, "it was taken for lost")
    return f"{answers} streams equal, epoch {epoch} as before"


def coordinator(chaos):
    """The coordinator dies; clients resume, workers keep what they have loaded."""
    kills, count, tokens = (1, 2, 400) if chaos.quick else (20, 4, 500)
    up = chaos.up()
    prompts = [",".join(str(chaos.random.randrange(3, 200)) for _ in range(10)) for _ in range(count)]

    def ask(prompt):
        return chaos.ask(prompt, tokens)
    want = [json.loads(cluster.good(ask(p)).stdout)["tokens"] for p in prompts]
    before, done, over, got = chaos.wait_ready(), 0, threading.Event(), []

    def count_loads():
        return sum("loaded layers" in line for line in up.words().splitlines())
    loads_before = count_loads()  # two each where the first measures led to another division

    def go_on(i):
        while not over.is_set():
            got.append((i, ask(prompts[i])))
    threads = [threading.Thread(target=go_on, args=(i,)) for i in range(count)]
    for t in threads:
        t.start()
    try:
        while done < kills:
            time.sleep(chaos.random.uniform(0.5, 1) if chaos.quick else chaos.random.uniform(3, 6))
            chaos.kill([chaos.wait_ready()["coordinator"]["pid"]])
            done += 1
            time.sleep(0.3)
        chaos.wait_ready()
    finally:
        over.set()
        for t in threads:
            t.join()
    require_answers(got, want)
    after = chaos.wait_ready()
    require([w["pid"] for w in after["workers"]] == [w["pid"] for w in before["workers"]], "workers were restarted")
    loads = count_loads() - loads_before
    require(loads == 0, f"{loads} loads after the start of {len(before['workers'])} workers")
    return f"{done} kills, {len(got)} answers of {tokens} tokens equal, {loads} loads by {len(before['workers'])} workers in all"


def rolling(chaos):
    """Every worker is drained, restarted and taken back while clients ask; nobody notices."""
    chaos.up(workers=2, spares=1)
    streams, drained = Streams(chaos, 3 if chaos.quick else 8, 60), 0
    with streams:
        for name in ("w0", "w1", "s0") if chaos.quick else ("w0", "w1", "s0") * 3:
            chaos.wait_ready()
            cluster.good(cluster.run("drain", name, "--server", chaos.grpc, timeout=DEADLINE_S))
            drained += 1
            old = next(w["pid"] for w in chaos.status()["workers"] if w["name"] == name)
            os.kill(old, signal.SIGTERM)
            end = time.monotonic() + 60
            while time.monotonic() < end:
                now = next(w for w in chaos.status()["workers"] if w["name"] == name)
                if now["pid"] not in (0, None, old) and now["state"] != "draining":
                    break
                time.sleep(0.2)
            require(time.monotonic() < end, f"{name} is not taken back: {now}")
    return f"{drained} drains and restarts, {streams.check()} requests, none failed, all equal"


def other_build(path):
    """The same program with another commit in its name, as a newer one would say."""
    mine = cluster.run_json("version")["build"].encode()
    digits = bytes(b"0123456789"[(c - 47) % 10] if chr(c).isdigit() else c for c in mine)
    program = pathlib.Path(cluster.BATON).read_bytes()
    require(mine in program and mine != digits, f"{mine!r} is not in the program")
    path.write_bytes(program.replace(mine, digits))
    path.chmod(0o755)
    return path, digits.decode()


def upgrade(chaos):
    """Another build of the same protocol: refused by a running cluster in one line on each side, as bits are a build's; put in
    place of the old one everywhere, while clients ask, nobody's answer breaks off or changes."""
    count, tokens = (2, 300) if chaos.quick else (6, 500)
    up = chaos.up(workers=2)
    newer, name = other_build(chaos.folder / "newer")
    prompts = [",".join(str(chaos.random.randrange(3, 200)) for _ in range(10)) for _ in range(count)]

    def ask(i):
        return chaos.ask(prompts[i], tokens)
    want = [json.loads(cluster.good(ask(i)).stdout)["tokens"] for i in range(count)]
    got, over = [], threading.Event()

    def go_on(i):
        while not over.is_set():
            got.append((i, ask(i)))
    threads = [threading.Thread(target=go_on, args=(i,)) for i in range(count)]
    for t in threads:
        t.start()
    try:
        # A worker of the newer build wants to join.
        stranger = cluster.Server("worker", "--listen", "127.0.0.1:0", "--name", "stranger", "--models", chaos.folder,
                                  "--threads", 1, program=newer)
        chaos.servers.append(stranger)
        file = chaos.folder / "topology.yaml"
        before = file.read_text()  # ends with the workers
        file.write_text(before.rstrip("\n") + f"\n  - {{name: stranger, address: '{stranger.ready().grpc}'}}\n")
        epoch = chaos.wait_ready()["epoch"]
        refused = cluster.run("reload", "--server", chaos.grpc)
        lines = [line for line in refused.stderr.splitlines() if "version mismatch" in line and name in line]
        require(refused.returncode != 0 and len(lines) == 1, f"the newcomer is not refused in a line: {refused.stderr}")
        stranger.wait_line(rf"version mismatch: .*{name.replace('+', '.')}", 10)
        require(chaos.wait_ready()["epoch"] == epoch, "the pipeline was disturbed by a worker of another build")
        file.write_text(before)
        # All processes are replaced: clients resume at the new coordinator.
        address = chaos.grpc
        time.sleep(1)
        up.stop()  # and its children
        chaos.servers.append(cluster.Server("up", "-f", chaos.at(file, address), program=newer))
        chaos.servers[-1].ready()
        require(cluster.run_json("status", "--server", address)["state"] == "ready", "the newer build does not serve")
        time.sleep(1)
    finally:
        over.set()
        for t in threads:
            t.join()
    require_answers(got, want)
    return f"{len(got)} answers of {tokens} tokens equal, before and after; said of the newcomer: {lines[0].strip()}"


def mixed(chaos):
    """A spare on another instruction set goes on where the lost worker was, both ways."""
    told, names = [], json.loads(cluster.good(cluster.run("devices", "--json")).stdout)
    best = "avx2" if "avx2" in json.dumps(names) else "scalar"
    for usual, other in ((best, "scalar"), ("scalar", best)):
        started = []
        for name, isa in (("a", usual), ("b", usual), ("spare", other)):
            server = cluster.Server("worker", "--listen", "127.0.0.1:0", "--name", name, "--models", chaos.folder, "--threads", "1",
                                    env={"BATON_ISA": isa})
            started.append(server)
            chaos.servers.append(server)
        entries = [{"name": s, "address": w.ready().grpc} for s, w in zip(("a", "b"), started)]
        text = cluster.topology_text(chaos.model, entries, context=1024, more="  http: 127.0.0.1:0\njournal: 'off'\n")
        text += f"spares:\n  - {{name: spare, address: '{started[2].ready().grpc}'}}\n"
        chaos.started(text, "serve")
        streams = Streams(chaos, 2, 100 if chaos.quick else 500)
        with streams:
            time.sleep(0.2)
            started[chaos.random.randrange(2)].kill()
            time.sleep(1)
            status = chaos.wait_ready()
        answers = streams.check()
        spare = next(w for w in chaos.wait_ready()["workers"] if w["name"] == "spare")
        require(spare["layers"]["end"] > spare["layers"]["begin"], f"the spare has nothing to do: {status}")
        told.append(f"{usual} to {other}: {answers} streams equal")
        chaos.stop()
    return "; ".join(told)


def links(chaos):
    """Links to workers are slow, stand still, are cut, or flip a bit: under TLS and without."""
    told = troubled_links(chaos, tls=True)
    chaos.stop()
    return f"TLS: {told}; none: {troubled_links(chaos, tls=False)}"


def troubled_links(chaos, tls):
    count, tokens, troubles = (2, 100, 4) if chaos.quick else (8, 300, 60)
    more, chaos.client, files = "journal: 'off'\nlimits: {step: 5s}\n", (), ()
    if tls:
        certs = chaos.folder / "certs"
        cluster.good(cluster.run("certs", "init", "-d", certs))
        for name, role in (("head", "coordinator"), ("w", "worker"), ("root", "admin")):
            cluster.good(cluster.run("certs", "issue", name, "--role", role, "--host", "127.0.0.1", "-d", certs))
        chaos.client, files = ("--tls", certs / "root"), ("--tls", certs / "w")
        more += "tls: {" + ", ".join(f"{key}: {certs}/head/{key}.pem" for key in ("ca", "cert", "key")) + "}\n"
    for i in range(3):
        chaos.servers.append(cluster.Server("worker", "--listen", "127.0.0.1:0", "--name", f"w{i}", "--models", chaos.folder,
                                            "--threads", 1, *files))
    relays = [Link(worker.ready().grpc) for worker in chaos.servers]
    entries = [{"name": f"w{i}", "address": relay.address} for i, relay in enumerate(relays)]
    chaos.started(cluster.topology_text(chaos.model, entries, context=1024, sequences=8, http="127.0.0.1:0", more=more), "serve")
    counts = {"slow": 0, "still": 0, "cut": 0, "flip": 0}
    streams = Streams(chaos, count, tokens)
    with streams:
        for i in range(troubles):
            time.sleep(chaos.random.uniform(0.2, 1.0))
            relay, kind = chaos.random.choice(relays), list(counts)[i % len(counts)]
            counts[kind] += 1
            if kind == "slow":
                relay.pause_s = 0.01
                time.sleep(1)
                relay.pause_s = 0.0
            elif kind == "still":
                relay.moves.clear()
                time.sleep(1 if chaos.quick else 3)
                relay.moves.set()
            elif kind == "cut":
                relay.cut()
            else:
                relay.flips.release()
        chaos.wait_ready()
        # Most flips hit activations, which nothing but the checksum protects.
        while not tls and chaos.metric("changed_messages_total") == 0:
            require(counts["flip"] < 100, f"of {counts['flip']} flipped bits none was found")
            counts["flip"] += 1
            chaos.random.choice(relays).flips.release()
            time.sleep(0.5)
            chaos.wait_ready()
    answers, changed = streams.check(), chaos.metric("changed_messages_total")
    chaos.wait_idle()
    for relay in relays:
        relay.close()
    return f"{counts}, {changed:.0f} changed messages found, {answers} streams of {tokens} tokens equal"


class SlowWriters:
    """Clients of gRPC whose request comes byte by byte, a second apart, for as long as the block lasts."""
    # The preface, no settings, and a request whose only header has a name of 16,000 letters (RFC 9113 and 7541).
    FIRST = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0]) + (16004).to_bytes(3, "big") + bytes([1, 0, 0, 0, 0, 1])
    THEN = bytes([0x00, 0x7f, 0x81, 0x7c]) + b"x" * 16000

    def __init__(self, count, address, context):
        self.stop, self.sockets = threading.Event(), []
        for _ in range(count):
            raw = socket.create_connection(address, timeout=10, source_address=("127.0.0.2", 0))
            self.sockets.append(context.wrap_socket(raw, server_hostname="127.0.0.1"))
            self.sockets[-1].sendall(self.FIRST)
        self.thread = threading.Thread(target=self.write)

    def write(self):
        for byte in self.THEN:
            for one in self.sockets:
                with contextlib.suppress(OSError):  # the server need not bear it
                    one.sendall(bytes([byte]))
            if self.stop.wait(1):
                return

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.stop.set()
        self.thread.join()
        for one in self.sockets:
            one.close()


def crowd(chaos):
    """Thousands connect and say nothing, begin a TLS handshake and go no further, or write a byte a second: others are served, and room is
    made again."""
    idle, half, slow, limit = (300, 30, 5, 64) if chaos.quick else (2000, 200, 100, 512)
    certs = chaos.folder / "certs"
    cluster.good(cluster.run("certs", "init", "-d", certs))
    for name, role in (("head", "coordinator"), ("root", "admin")):
        cluster.good(cluster.run("certs", "issue", name, "--role", role, "--host", "127.0.0.1", "-d", certs))
    chaos.client = ("--tls", certs / "root")
    tls = ", ".join(f"{key}: {certs}/head/{key}.pem" for key in ("ca", "cert", "key"))
    chaos.up(workers=1, more=f"tls: {{{tls}}}\nlimits: {{connections: {limit}}}\n")
    hello = ssl.MemoryBIO()
    with contextlib.suppress(ssl.SSLWantReadError):
        ssl.create_default_context().wrap_bio(ssl.MemoryBIO(), hello, server_hostname="127.0.0.1").do_handshake()
    first_words, told = hello.read(), []
    known = ssl.create_default_context(cafile=certs / "root" / "ca.pem")
    known.load_cert_chain(certs / "root" / "cert.pem", certs / "root" / "key.pem")
    known.set_alpn_protocols(["h2"])
    status = chaos.wait_ready()
    ports = {"coordinator": (chaos.grpc, status["coordinator"]["pid"], limit),
             "worker": (status["workers"][0]["address"], status["workers"][0]["pid"], 512)}
    streams = Streams(chaos, 2, 100)
    for name, (address, pid, most) in ports.items():
        host, port = address.rsplit(":", 1)
        before, guests, connected = figures(pid), [], 0
        with streams, SlowWriters(slow, (host, int(port)), known):
            for i in range(idle + half):
                one = socket.create_connection((host, int(port)), timeout=10, source_address=("127.0.0.2", 0))
                with contextlib.suppress(OSError):  # refused ones
                    if i < half:
                        one.sendall(first_words[:len(first_words) // 2])
                guests.append(one)
            chaos.wait_ready()  # from another address than theirs
            crowded = figures(pid)
        open_files = crowded["fds"] - before["fds"]
        require(0 < open_files <= most // 2 + 20, f"{name}: {open_files} more files for {len(guests)} connections, of {most}")
        require(crowded["rss_MiB"] <= before["rss_MiB"] + 200, f"{name}: {before} became {crowded}")
        begin = time.monotonic()
        if chaos.quick:
            for one in guests:
                one.close()
        while figures(pid)["fds"] > before["fds"] + 20:  # handshakes that stall are cut after 20 s
            require(time.monotonic() - begin < 40, f"{name}: {before} became {figures(pid)}, and stays so")
            time.sleep(0.2)
        for one in guests:
            one.close()
        told.append(f"{name} {before} -> {crowded}, after {time.monotonic() - begin:.0f} s {figures(pid)}")
    return (f"{idle} idle connections, {half} half handshakes and {slow} slow writers: {'; '.join(told)}; "
            f"{streams.check()} streams equal")


class Clock:
    """The clock of the day of one process, which may be set; clock_shift.c has the other half."""

    def __init__(self, folder, name):
        self.file = folder / f"{name}.clock"
        self.env = {"LD_PRELOAD": str(folder / "clock_shift.so"), "CLOCK_SHIFT": str(self.file)}
        self.hours = 0.0
        self.file.write_bytes(bytes(8))

    def move(self, hours):
        self.hours += hours
        with open(self.file, "r+b") as file:  # mapped by the process
            file.write(struct.pack("=q", int(self.hours * 3600e9)))


def clock(chaos):
    """The clocks of coordinator and workers are an hour apart and jump, both ways; a loss is still noticed and mended in seconds."""
    jumps, count, tokens = (8, 2, 200) if chaos.quick else (60, 8, 500)
    source = pathlib.Path(__file__).resolve().with_name("clock_shift.c")
    subprocess.run([os.environ.get("CC", "cc"), "-O2", "-shared", "-fPIC", "-o", chaos.folder / "clock_shift.so", source, "-ldl"],
                   check=True, timeout=DEADLINE_S)
    names = ("w0", "w1", "w2", "spare")
    clocks = {name: Clock(chaos.folder, name) for name in ("coordinator", *names)}
    workers = {}
    for i, name in enumerate(names):
        clocks[name].move(i - 1)
        workers[name] = cluster.Server("worker", "--listen", "127.0.0.1:0", "--name", name, "--models", chaos.folder, "--threads", 1,
                                       env=clocks[name].env)
    chaos.servers += workers.values()
    entries = [{"name": name, "address": workers[name].ready().grpc} for name in names]
    text = cluster.topology_text(chaos.model, entries[:3], context=1024, sequences=8, http="127.0.0.1:0",
                                 more="journal: 'off'\nlimits: {lease: 4s}\n")
    text += f"spares:\n  - {{name: spare, address: '{workers['spare'].grpc}'}}\n"
    pid = chaos.started(text, "serve", env=clocks["coordinator"].env).process.pid
    streams, epoch = Streams(chaos, count, tokens), chaos.wait_ready()["epoch"]
    with streams:
        for _ in range(jumps):
            time.sleep(chaos.random.uniform(0.1, 0.5))
            one = chaos.random.choice(list(clocks.values()))
            one.move(chaos.random.choice((-1, 1)) * chaos.random.choice((1 / 60, 0.5, 6)))
        time.sleep(1)
        require(chaos.wait_ready()["epoch"] == epoch, "a jump was taken for a loss")
        for one in clocks.values():  # what waits for a date now waits for hours
            one.move(-3)
        time.sleep(1)
        killed = time.monotonic()
        workers["w0"].kill()
        while chaos.wait_ready()["epoch"] == epoch:
            time.sleep(0.1)
        back_s = time.monotonic() - killed
        epoch, stopped = chaos.status()["epoch"], time.monotonic()
        os.kill(workers["w1"].process.pid, signal.SIGSTOP)  # says nothing from now on
        while chaos.status()["epoch"] == epoch:
            require(time.monotonic() - stopped < STALL_S, "the lease of a silent worker does not end")
            time.sleep(0.1)
        silent_s = time.monotonic() - stopped
        os.kill(workers["w1"].process.pid, signal.SIGCONT)
        chaos.wait_ready()
    answers = streams.check()
    require(back_s < STALL_S, f"after the loss of a worker it took {back_s:.1f} s until it went on")
    trace = json.loads(cluster.good(cluster.run("trace", "--server", chaos.grpc, timeout=30)).stdout)
    longest = max(e["ts"] + e["dur"] for e in trace["traceEvents"] if "dur" in e) / 1e6
    require(longest < DEADLINE_S, f"a trace of {longest:.0f} s")
    shifts = ", ".join(f"{name} {one.hours:+.1f} h" for name, one in clocks.items())
    return (f"{jumps} jumps, {answers} streams of {tokens} tokens equal; a killed worker replaced after {back_s:.1f} s, a silent one "
            f"after {silent_s:.1f} s; coordinator {figures(pid)}; in the end {shifts}")


def soak(chaos):
    """All kinds of trouble at workers for a while: no stall, nothing grows."""
    chaos.up(workers=3, spares=1)
    streams = Streams(chaos, 4, 200)
    pid, samples, counts, moments = chaos.status()["coordinator"]["pid"], [], {"kill": 0, "kill two": 0, "stop": 0, "drain": 0}, []
    end = time.monotonic() + 60 * chaos.minutes
    with streams:
        while time.monotonic() < end:
            time.sleep(chaos.random.uniform(1, 4))
            alive = chaos.alive(chaos.wait_ready())
            kind = chaos.random.choice(list(counts))
            counts[kind] += 1
            victims = chaos.random.sample(alive, min(len(alive), 2 if kind == "kill two" else 1))
            if kind == "stop":
                chaos.send(signal.SIGSTOP, [victims[0]["pid"]])
                time.sleep(chaos.random.uniform(0.5, 3))
                chaos.send(signal.SIGCONT, [victims[0]["pid"]])
            elif kind == "drain":
                cluster.run("drain", victims[0]["name"], "--server", chaos.grpc, timeout=DEADLINE_S)  # refused where no room is
                chaos.kill([victims[0]["pid"]])  # comes back by itself
            else:
                chaos.kill([w["pid"] for w in victims])
            moments.append(time.monotonic())
            samples.append(figures(pid))
    answers = streams.check()
    chaos.wait_idle()
    gaps = [b - a for _, answer in streams.answers for a, b in zip(answer.times, answer.times[1:])]
    require(max(gaps) < STALL_S, f"a stream stood still for {max(gaps):.1f} s")
    third = max(1, len(samples) // 3)
    early, late = ({key: statistics.median(s[key] for s in part) for key in samples[0]} for part in
                   (samples[third:2 * third] or samples, samples[-third:]))
    require(late["fds"] <= early["fds"] + 4 and late["threads"] <= early["threads"] + 4, f"{early} became {late}")
    require(late["rss_MiB"] <= 1.05 * early["rss_MiB"] + 8, f"{early} became {late}")
    return (f"{chaos.minutes:g} min, {counts}, {answers} streams of 200 tokens equal; longest pause {max(gaps):.2f} s; coordinator's "
            f"medians of the middle and last third {early} -> {late}")


SCENARIOS = {f.__name__: f for f in (workers, long_context, stopped, coordinator, rolling, upgrade, mixed, links, clock, crowd, soak)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("scenario", nargs="*", choices=[*SCENARIOS, []], default=[])
    parser.add_argument("--seed", type=int, default=time.time_ns() % 100000)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--minutes", type=float, default=60, help="of the soak")
    flags = parser.parse_args()
    print(f"seed {flags.seed}", flush=True)
    failures = 0
    for name in flags.scenario or [name for name in SCENARIOS if name != "soak"]:
        with tempfile.TemporaryDirectory(prefix="baton-chaos-") as folder:
            chaos = Chaos(pathlib.Path(folder), flags)
            begin = time.monotonic()
            try:
                line = SCENARIOS[name](chaos)
            except (FallsShort, AssertionError, subprocess.TimeoutExpired) as e:
                failures += 1
                said = "\n".join(line for s in chaos.servers for line in s.words().splitlines()[-40:])
                line = f"FALLS SHORT: {e}\n{said}"
            finally:
                chaos.stop()
            print(f"{name}: {line} ({time.monotonic() - begin:.0f} s)", flush=True)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
