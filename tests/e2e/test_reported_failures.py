"""What users of engines like this one have reported in public: clients that go away, addresses of every spelling, memory that
the system refuses, caches that are cold. Dying workers, hostile peers and mixed versions have tests of their own."""
import concurrent.futures
import contextlib
import ctypes
import http.client
import json
import os
import re
import resource
import shutil
import signal
import socket
import subprocess
import time
import unittest

import cluster

RUN = ("--tokens", "3,4,5", "-n", 8, "--temp", 0, "--ignore-eos", "--json")


def tokens_of(done):
    return json.loads(cluster.good(done).stdout)["tokens"]


class Stream:
    """A streamed completion on a connection that may be cut at any moment."""

    def __init__(self, address, prompt, max_tokens):
        host, port = address.rsplit(":", 1)
        body = json.dumps({"prompt": prompt, "max_tokens": max_tokens, "ignore_eos": True, "stream": True, "temperature": 0})
        self.socket = socket.create_connection((host, int(port)), timeout=cluster.DEADLINE_S)
        self.socket.sendall(f"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode())
        self.file = self.socket.makefile("rb")

    def events(self, count=None):
        """So many events, or all that come."""
        got = 0
        while got != count and (line := self.file.readline()):
            if line.startswith(b"data: [DONE]"):
                break
            got += line.startswith(b"data: ")
        return got

    def close(self):
        self.file.close()
        self.socket.close()


class ClientsGoAway(cluster.TestCase):
    def setUp(self):
        super().setUp()
        model = cluster.tiny_model(self.folder / "tiny.gguf", context=8192)
        self.made = cluster.Cluster(self.folder, model, context=8192, sequences=1, http="127.0.0.1:0")
        self.addCleanup(self.made.stop)
        self.http = self.made.coordinator.http

    def open(self, *args):
        stream = Stream(self.http, *args)
        self.addCleanup(stream.close)
        return stream

    def wait_counts(self, **wanted):
        end = time.monotonic() + 15
        while (counts := self.made.status()["sequences"]) != wanted and time.monotonic() < end:
            time.sleep(0.02)
        self.assertEqual(counts, wanted)

    def metric(self, name):
        connection = http.client.HTTPConnection(self.http, timeout=30)
        with contextlib.closing(connection):
            connection.request("GET", "/metrics")
            text = connection.getresponse().read().decode()
        found = re.search(rf"^{re.escape(name)} (\d+)$", text, re.MULTILINE)
        return int(found[1]) if found else 0

    def cancelled(self):
        return self.metric('baton_requests_finished_total{reason="cancelled"}')

    def assert_idle(self):
        """What was cancelled holds nothing, and no more steps than those on their way are computed for it."""
        self.wait_counts(running=0, waiting=0)
        self.assertEqual(self.metric("baton_kv_blocks_used"), 0)
        steps = self.metric("baton_micro_batches_total")
        time.sleep(0.2)
        self.assertLessEqual(self.metric("baton_micro_batches_total"), steps + len(self.made.workers))

    def test_one_that_waits_and_one_that_reads(self):
        running = self.open([3, 4], 3000)
        running.events(3)
        queued = self.open([5, 6], 100)
        self.wait_counts(running=1, waiting=1)
        self.assertGreater(self.metric("baton_kv_blocks_used"), 0)
        queued.close()
        self.wait_counts(running=1, waiting=0)
        self.assertEqual(running.events(20), 20)  # untouched
        running.close()
        self.assert_idle()
        self.assertEqual(self.cancelled(), 2)
        self.assertGreater(self.open([7], 5).events(), 0)

    def test_in_the_middle_of_a_long_prompt(self):
        long = self.open([3 + i % 200 for i in range(8000)], 10)
        self.wait_counts(running=1, waiting=0)
        long.close()
        self.assert_idle()
        self.assertEqual(self.cancelled(), 1)
        self.assertGreater(self.open([7], 5).events(), 0)


class SlowWorkers(cluster.TestCase):
    def test_one_that_stands_still_for_longer_than_its_lease(self):
        model = cluster.tiny_model(self.folder / "tiny.gguf", context=8192)
        ask = ("--tokens", "3,4", "-n", 3000, "--temp", 0, "--ignore-eos")
        with cluster.cluster(self.folder, model, context=8192, more="limits: {lease: 1500ms}\n") as c, \
                concurrent.futures.ThreadPoolExecutor() as pool:
            want = c.generate(*ask)["tokens"]
            running = pool.submit(c.generate, *ask)
            while c.status()["sequences"]["running"] == 0 and not running.done():
                pass
            slow = c.workers[1].process
            slow.send_signal(signal.SIGSTOP)
            try:
                self.assertEqual(running.result()["tokens"], want)  # the other worker took its layers
                c.coordinator.wait_line("worker w1 is lost: silent for 1.5s")
            finally:
                slow.send_signal(signal.SIGCONT)
            self.assertEqual(c.generate(*ask)["tokens"], want)  # what it still had to say is of an epoch that is over


class Addresses(cluster.TestCase):
    def test_every_spelling_of_this_host(self):
        model = cluster.tiny_model(self.folder / "tiny.gguf")
        hosts = ["127.0.0.1", "localhost"]
        with contextlib.suppress(OSError), socket.create_server(("::1", 0), family=socket.AF_INET6):
            hosts.append("[::1]")
        alone = tokens_of(cluster.run("run", "-m", model, *RUN))
        for host in hosts:
            worker = self.start("worker", "--listen", f"{host}:0", "--models", self.folder, "--name", "w").ready()
            self.assertTrue(worker.grpc.startswith(host + ":"))
            topology = self.folder / "topology.yaml"
            text = cluster.topology_text(model, [{"name": "w", "address": f"'{worker.grpc}'"}])
            topology.write_text(text.replace("grpc: 127.0.0.1:0", f"grpc: '{host}:0'"))
            server = self.start("serve", "-f", topology).ready()
            self.assertEqual(tokens_of(cluster.run("run", "--server", server.grpc, *RUN)), alone, host)
            server.stop()

    def test_those_that_are_none(self):
        for address, word in (("::1", "[::1]:7071"), ("host:99999", "99999"), ("host:", "port"), ("[::1]", "PORT")):
            self.assert_fails(cluster.run("worker", "--listen", address), 64, word)
            self.assert_fails(cluster.run("status", "--server", address), 64, word)


class Memory(cluster.TestCase):
    def setUp(self):
        super().setUp()
        self.model = cluster.tiny_model(self.folder / "tiny.gguf")

    def test_a_cache_that_the_system_does_not_give(self):
        limit = 3 << 30
        command = [cluster.BATON, "run", "-m", str(self.model), "--context", "16000000", *map(str, RUN)]
        done = subprocess.run(command, text=True, capture_output=True, timeout=60,
                              preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (limit, limit)))
        self.assert_fails(done, 75, "KV cache", "16000", "shorter context")
        self.assert_fails(cluster.run("run", "-m", self.model, "--context", 1 << 31, *RUN), 64, "context")

    @unittest.skipIf(shutil.which("capsh") is None and os.geteuid() == 0, "capsh is not installed: root may lock all memory")
    def test_memory_that_must_not_be_locked(self):
        enter = f"ulimit -l 64 && exec {'capsh --drop=cap_ipc_lock -- -c' if os.geteuid() == 0 else 'sh -c'} 'exec \"$0\" \"$@\"' \"$@\""
        worker = self.start("worker", "--listen", "127.0.0.1:0", "--models", self.folder, "--name", "w", "--mlock",
                            wrapper=["sh", "-c", enter, "sh"]).ready()
        topology = self.folder / "topology.yaml"
        topology.write_text(cluster.topology_text(self.model, [{"name": "w", "address": worker.grpc}]))
        server = self.start("serve", "-f", topology).ready()
        self.assertEqual(tokens_of(cluster.run("run", "--server", server.grpc, *RUN)),
                         tokens_of(cluster.run("run", "-m", self.model, *RUN)))
        worker.wait_line("loaded layers .* mapped, not locked;")
        warnings = [line for line in worker.words().splitlines() if "warning" in line]
        self.assertEqual(len(warnings), 1, worker.words())
        self.assertRegex(warnings[0], r"not locked .*65536 bytes; raise it with ulimit -l")

    def test_however_memory_is_given_the_answer_is_the_same(self):
        def drop_caches():
            with open(self.model, "rb") as file:
                os.fsync(file.fileno())
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)

        libc = ctypes.CDLL(None, use_errno=True)
        node_0 = (ctypes.c_ulong * 1)(1)
        ways = {"cold": drop_caches, "warm": lambda: None,
                "no huge pages": lambda: libc.prctl(41, 1, 0, 0, 0),  # PR_SET_THP_DISABLE
                "interleaved": lambda: libc.syscall(238, 3, node_0, 64)}  # set_mempolicy(MPOL_INTERLEAVE) of x86-64
        answers = {}
        for way, prepare in ways.items():
            done = subprocess.run([cluster.BATON, "run", "-m", str(self.model), *map(str, RUN)], text=True, capture_output=True,
                                  timeout=60, preexec_fn=prepare)
            answers[way] = tokens_of(done)
            self.assertRegex(done.stderr, r"loaded layers .* of weights, mapped; .*NUMA node", way)
        self.assertEqual(set(map(tuple, answers.values())), {tuple(answers["warm"])})


if __name__ == "__main__":
    unittest.main()
