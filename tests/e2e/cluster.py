"""Drives the real program: runs commands, starts workers and coordinators on free ports, and leaves nothing behind.

BATON_BIN           the program
BATON_TINY_MODEL    a program that writes tiny models (tests/e2e/make_tiny_model.cc)
"""
import contextlib
import json
import os
import pathlib
import re
import signal
import socket
import struct
import subprocess
import tempfile
import threading
import time
import unittest

BATON = os.environ["BATON_BIN"]
MAKE_TINY = os.environ["BATON_TINY_MODEL"]
DEADLINE_S = 60
STATE = tempfile.TemporaryDirectory(prefix="baton-state-")  # not the user's own
os.environ["XDG_STATE_HOME"] = STATE.name


def run(*args, stdin="", timeout=DEADLINE_S, env=None):
    """A command to its end; one that hangs fails the test."""
    return subprocess.run([BATON, *map(str, args)], input=stdin, text=True, capture_output=True, timeout=timeout,
                          env=os.environ | (env or {}), errors="replace")


def good(done):
    if done.returncode != 0:
        raise AssertionError(f"{done.args[1:4]}: exit {done.returncode}: {done.stderr.strip()}")
    return done


def run_json(*args, **more):
    return json.loads(good(run(*args, "--json", **more)).stdout)


def tiny_model(path, **options):
    """Writes a tiny model; options as the program's flags."""
    flags = [word for name, value in options.items() for word in (f"--{name.replace('_', '-')}", str(value))]
    subprocess.run([MAKE_TINY, str(path), *flags], check=True, timeout=DEADLINE_S)
    return pathlib.Path(path)


def real_model(name="SmolLM2-135M-Instruct.Q4_1.gguf"):
    """The path of a published model that scripts/fetch_model.sh has fetched; skips the test without it."""
    cache = os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache"
    path = pathlib.Path(cache) / "baton/models" / name
    if not path.exists():
        raise unittest.SkipTest(f"{name} is not in the cache: scripts/fetch_model.sh")
    return path


def read_npy(path):
    """Shape and bytes of a float32 .npy file."""
    data = pathlib.Path(path).read_bytes()
    length = struct.unpack("<H", data[8:10])[0]
    shape = re.search(r"'shape': \((\d+), (\d+)\)", data[10:10 + length].decode())
    return tuple(map(int, shape.groups())), data[10 + length:]


class Server:
    """A worker, serve or up in the background; its words are kept for whoever asks why."""

    def __init__(self, *args, env=None, wrapper=(), program=BATON):
        self.process = subprocess.Popen([*wrapper, program, *map(str, args)], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                        stderr=subprocess.PIPE, text=True, errors="replace", env=os.environ | (env or {}))
        self.lines, self.said = [], threading.Condition()
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    def _read(self):
        for line in self.process.stderr:
            with self.said:
                self.lines.append(line.rstrip("\n"))
                self.said.notify_all()
        with self.said:
            self.lines.append(None)
            self.said.notify_all()

    def wait_line(self, pattern, timeout=DEADLINE_S):
        """The first line that matches, now or later."""
        end, seen = time.monotonic() + timeout, 0
        with self.said:
            while True:
                while seen < len(self.lines):
                    if self.lines[seen] is None:
                        raise AssertionError(f"it ended before it said {pattern!r}:\n{self.words()}")
                    if found := re.search(pattern, self.lines[seen]):
                        return found
                    seen += 1
                if (left := end - time.monotonic()) <= 0:
                    raise AssertionError(f"did not say {pattern!r} in {timeout} s:\n{self.words()}")
                self.said.wait(left)

    def ready(self, timeout=DEADLINE_S):
        """Waits for the ready line: the addresses for gRPC and, where there is one, for HTTP."""
        found = self.wait_line(r"^ready grpc=(\S+)(?: http=(\S+))?", timeout)
        self.grpc, self.http = found[1], found[2]
        return self

    def words(self):
        return "\n".join(line for line in self.lines if line is not None)

    def wait(self, timeout=DEADLINE_S):
        """The exit code of one that ends by itself."""
        return self.process.wait(timeout)

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait(DEADLINE_S)

    def stop(self):
        """Ends it as a person would; returns the exit code."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(15)
            except subprocess.TimeoutExpired:
                self.kill()
                raise AssertionError(f"did not end on SIGTERM:\n{self.words()}") from None
        self.reader.join(5)
        self.process.stderr.close()
        return self.process.returncode


def free_address():
    with socket.create_server(("127.0.0.1", 0)) as held:
        return f"127.0.0.1:{held.getsockname()[1]}"


def topology_text(model, workers, context=512, sequences=4, http="", more=""):
    listen = "listen:\n  grpc: 127.0.0.1:0\n" + (f"  http: {http}\n" if http else "")
    text = f"model: {model}\ncontext: {context}\nsequences: {sequences}\n{listen}{more}workers:\n"
    for worker in workers:
        text += "  - {" + ", ".join(f"{key}: {value}" for key, value in worker.items()) + "}\n"
    return text


class Cluster:
    """Workers and a coordinator, started one by one."""

    def __init__(self, folder, model, num_workers=2, layers=None, models=None, **topology):
        """models: the folder of each worker; where the model lies, unless given."""
        self.servers, entries = [], []
        try:
            self.workers = []
            for i in range(num_workers):
                models_dir = models[i] if models else pathlib.Path(model).parent
                self.workers.append(self._start("worker", "--listen", "127.0.0.1:0", "--name", f"w{i}", "--models", models_dir,
                                                "--threads", 1))
            self.idle_bytes = None
            for i, worker in enumerate(self.workers):
                entry = {"name": f"w{i}", "address": worker.ready().grpc, "threads": 1}
                entries.append(entry | ({"layers": layers[i]} if layers else {}))
            self.idle_bytes = resident_bytes(self.workers[0].process.pid)
            file = pathlib.Path(folder) / "topology.yaml"
            file.write_text(topology_text(model, entries, **topology))
            self.coordinator = self._start("serve", "-f", file)
            self.grpc = self.coordinator.ready().grpc
        except BaseException:
            self.stop()
            raise

    def _start(self, *args):
        self.servers.append(Server(*args))
        return self.servers[-1]

    def generate(self, *args, timeout=DEADLINE_S):
        return run_json("run", "--server", self.grpc, *args, timeout=timeout)

    def status(self):
        return run_json("status", "--server", self.grpc)

    def stop(self):
        return [server.stop() for server in reversed(self.servers)]


@contextlib.contextmanager
def cluster(folder, model, **options):
    made = Cluster(folder, model, **options)
    try:
        yield made
    finally:
        made.stop()


def resident_bytes(pid):
    return int(re.search(r"VmRSS:\s+(\d+)", pathlib.Path(f"/proc/{pid}/status").read_text())[1]) * 1024


def mapped_bytes(pid, path):
    """Resident bytes of a file in the process's mappings."""
    total, inside = 0, False
    for line in pathlib.Path(f"/proc/{pid}/smaps").read_text().splitlines():
        if re.match(r"[0-9a-f]+-[0-9a-f]+ ", line):
            inside = line.endswith(str(path))
        elif inside and line.startswith("Rss:"):
            total += int(line.split()[1]) * 1024
    return total


def locked_bytes(pid):
    return int(re.search(r"VmLck:\s+(\d+)", pathlib.Path(f"/proc/{pid}/status").read_text())[1]) * 1024


class TestCase(unittest.TestCase):
    """With a folder of its own."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="baton-e2e-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def start(self, *args, **more):
        server = Server(*args, **more)
        self.addCleanup(server.stop)
        return server

    def assert_fails(self, done, code, *words):
        """One line of error with these words, and nothing on stdout."""
        self.assertEqual(done.returncode, code, done.stderr)
        self.assertEqual(done.stdout, "")
        error = next((line for line in done.stderr.splitlines() if line.startswith("baton: error: ")), "")
        self.assertTrue(error, done.stderr)
        for word in words:
            self.assertIn(word, error)
