"""`baton reload`: workers join and leave a running cluster, layers move, and nobody's answer changes by a byte."""
import os
import signal
import subprocess
import threading
import time
import unittest

import cluster

TOKENS = 700
PROMPTS = ("3,4,5", "6,7,8,9", "10,11")


class Streams:
    """Clients that ask again and again while something happens."""

    def __init__(self, server):
        self.server, self.over, self.got = server, threading.Event(), []
        self.want = [self.ask(i) for i in range(len(PROMPTS))]

    def ask(self, i):
        return cluster.run_json("run", "--server", self.server, "--tokens", PROMPTS[i], "-n", TOKENS, "--temp", 0,
                                "--ignore-eos")["tokens"]

    def __enter__(self):
        def go_on(i):
            while not self.over.is_set():
                try:
                    self.got.append((i, self.ask(i)))
                except (AssertionError, subprocess.TimeoutExpired) as e:
                    self.got.append((i, str(e)))
        self.threads = [threading.Thread(target=go_on, args=(i,)) for i in range(len(PROMPTS))]
        for t in self.threads:
            t.start()
        time.sleep(0.5)
        return self

    def __exit__(self, *_):
        self.over.set()
        for t in self.threads:
            t.join()

    def check(self, test):
        other = [answer for i, answer in self.got if answer != self.want[i]]
        test.assertFalse(other, f"{len(other)} of {len(self.got)} answers: {str(other[:1])[:300]}")
        test.assertGreaterEqual(len(self.got), len(PROMPTS))


class Reload(cluster.TestCase):
    def setUp(self):
        super().setUp()
        self.model = cluster.tiny_model(self.folder / "tiny.gguf", layers=6, context=1024)
        self.file = self.folder / "topology.yaml"

    def write(self, workers, spares=(), more=""):
        text = cluster.topology_text(self.model, workers, context=1024, more="journal: 'off'\nmeasure: false\n" + more)
        if spares:
            text += "spares:\n" + "".join(f"  - {{name: {s['name']}, address: '{s['address']}', threads: 1}}\n" for s in spares)
        self.file.write_text(text)

    def worker(self, name):
        server = self.start("worker", "--listen", "127.0.0.1:0", "--name", name, "--models", self.folder, "--threads", 1)
        return server, {"name": name, "address": server.ready().grpc, "threads": 1}

    def workers_of(self, server):
        return {w["name"]: w for w in cluster.run_json("status", "--server", server)["workers"]}

    def test_a_spare_joins_and_takes_over(self):
        (_, a), (second, b), (_, s) = (self.worker(name) for name in ("a", "b", "s"))
        self.write([a, b])
        server = self.start("serve", "-f", self.file).ready().grpc
        streams = Streams(server)
        with streams:
            self.write([a, b], [s])
            answer = cluster.run_json("reload", "--server", server)
            self.assertEqual(answer, {"joined": ["s"], "left": []})
            self.assertEqual(self.workers_of(server)["s"]["state"], "ready")
            second.kill()
            cluster.good(cluster.run("status", "--server", server, "--wait", "30s"))
        streams.check(self)
        self.assertEqual(self.workers_of(server)["s"]["layers"]["end"], 6)

    def test_up_starts_what_is_new_and_stops_what_is_gone(self):
        def launched(*names):
            return [{"name": n, "address": "127.0.0.1:0", "threads": 1, "launch": "local"} for n in names]
        self.write(launched("a", "b"))
        up = self.start("up", "-f", self.file)
        server = up.ready().grpc
        streams = Streams(server)
        with streams:
            self.write(launched("a", "new", "b"))
            told = cluster.good(cluster.run("reload", "--server", server)).stdout
            self.assertRegex(told, r"^new joined \(ready, layers \d+-\d+\)\n$")
            now = self.workers_of(server)
            self.assertEqual([now[n]["layers"]["end"] > now[n]["layers"]["begin"] for n in ("a", "new", "b")], [True] * 3)
            gone = now["b"]["pid"]
            self.write(launched("a", "new"))
            up.process.send_signal(signal.SIGHUP)
            up.wait_line(r"topology: b left")
            end = time.monotonic() + 20
            while os.path.exists(f"/proc/{gone}") and time.monotonic() < end:
                time.sleep(0.1)
            self.assertFalse(os.path.exists(f"/proc/{gone}"), "b should have ended")
        streams.check(self)
        self.assertEqual(list(self.workers_of(server)), ["a", "new"])
        self.assertEqual(cluster.run_json("status", "--server", server)["state"], "ready")
        self.assertEqual(up.stop(), 0)

    def test_what_cannot_be_changes_nothing(self):
        def launched(*names, **more):
            return [{"name": n, "address": "127.0.0.1:0", "threads": 1, "launch": "local"} | more for n in names]
        self.write(launched("a", "b"))
        server = self.start("up", "-f", self.file).ready().grpc
        before = cluster.run_json("status", "--server", server)
        broken = {
            "needs a restart": lambda: self.write(launched("a", "b"), more="wire: f16\n"),
            "threads of worker a": lambda: self.write(launched("a", "b", threads=2)),
            "topology.yaml:": lambda: self.file.write_text(self.file.read_text().replace("address", "adress")),
            "new: ": lambda: self.write(launched("a", "b") + launched("new", device="cuda:9")),
        }
        for words, edit in broken.items():
            edit()
            done = cluster.run("reload", "--server", server)
            self.assertNotEqual(done.returncode, 0)
            self.assertEqual(done.stdout, "")
            self.assertIn(words, done.stderr)
        after = cluster.run_json("status", "--server", server)
        self.assertEqual([after["epoch"], [w["pid"] for w in after["workers"]]],
                         [before["epoch"], [w["pid"] for w in before["workers"]]])


if __name__ == "__main__":
    unittest.main()
