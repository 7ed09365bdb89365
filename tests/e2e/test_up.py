"""`baton up`: starts all, waits, forwards words, brings a dead worker back, stops all."""
import json
import os
import subprocess
import time
import unittest

import cluster


def alive(pid):
    try:
        os.kill(pid, 0)
        return True
    except ProcessLookupError:
        return False


class Up(cluster.TestCase):
    def up(self, model, **more):
        file = self.folder / "topology.yaml"
        workers = [{"name": name, "address": "127.0.0.1:0", "threads": 1, "launch": "local"} for name in ("left", "right")]
        file.write_text(cluster.topology_text(model, workers, **more))
        return self.start("up", "-f", file)

    def test_starts_answers_and_stops(self):
        up = self.up(cluster.tiny_model(self.folder / "tiny.gguf")).ready()
        up.wait_line(r"^left \| ready grpc=")
        answer = cluster.run_json("run", "--server", up.grpc, "--tokens", "3,4", "-n", 4, "--ignore-eos")
        self.assertEqual(len(answer["tokens"]), 4)
        self.assertEqual([s["worker"] for s in answer["stages"]], ["left", "right"])
        status = cluster.run_json("status", "--server", up.grpc)
        pids = [w["pid"] for w in status["workers"]] + [status["coordinator"]["pid"]]
        self.assertEqual(up.stop(), 0)
        self.assertFalse([pid for pid in pids if alive(pid)])

    def test_status_is_watched_until_the_cluster_ends(self):
        up = self.up(cluster.tiny_model(self.folder / "tiny.gguf")).ready()
        text = cluster.good(cluster.run("status", "--server", up.grpc)).stdout
        self.assertRegex(text, r"(?m)^left +ready +layers 0-")
        self.assertEqual(text.splitlines()[-1], "idle: no requests")
        watch = subprocess.Popen([cluster.BATON, "status", "--watch", "--json", "--server", up.grpc], text=True,
                                 stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.addCleanup(watch.communicate)
        self.addCleanup(watch.kill)
        self.assertEqual([json.loads(watch.stdout.readline())["state"] for _ in range(2)], ["ready", "ready"])
        self.assertEqual(up.stop(), 0)
        self.assertEqual(watch.wait(30), 69)

    def test_children_die_with_it(self):
        up = self.up(cluster.tiny_model(self.folder / "tiny.gguf")).ready()
        status = cluster.run_json("status", "--server", up.grpc)
        pids = [w["pid"] for w in status["workers"]] + [status["coordinator"]["pid"]]
        up.kill()
        end = time.monotonic() + 15
        while any(map(alive, pids)) and time.monotonic() < end:
            time.sleep(0.1)
        self.assertFalse([pid for pid in pids if alive(pid)])

    def test_a_killed_worker_comes_back_and_the_answer_is_the_same(self):
        up = self.up(cluster.tiny_model(self.folder / "tiny.gguf")).ready()
        ask = ("run", "--server", up.grpc, "--tokens", "3,4", "-n", 40, "--temp", 0, "--ignore-eos")
        first = cluster.run_json(*ask)["tokens"]
        workers = cluster.run_json("status", "--server", up.grpc)["workers"]
        os.kill(workers[1]["pid"], 9)
        self.assertEqual(cluster.run_json(*ask)["tokens"], first)
        cluster.good(cluster.run("status", "--server", up.grpc, "--wait", "20s"))

    def test_a_model_that_is_not_there(self):
        file = self.folder / "topology.yaml"
        file.write_text(cluster.topology_text("/no/such.gguf", [{"name": "a", "address": "127.0.0.1:0", "launch": "local"}]))
        done = cluster.run("up", "-f", file)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("/no/such.gguf", done.stderr)


if __name__ == "__main__":
    unittest.main()
