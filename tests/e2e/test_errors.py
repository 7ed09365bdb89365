"""What can go wrong: each a clear error with its exit code within its deadline, no hang, no crash."""
import json
import os
import socket
import subprocess
import time
import unittest
import urllib.error
import urllib.request

import cluster


class UsageErrors(cluster.TestCase):
    def test_wrong_usage(self):
        for args in ((), ("frobnicate",), ("run", "--nope"), ("run", "-p", "hi"), ("tokenize",), ("completion", "tcsh"),
                     ("run", "-m", "x.gguf", "--server", "127.0.0.1:1", "-p", "hi"), ("worker", "--listen", "nowhere")):
            with self.subTest(args=args):
                self.assert_fails(cluster.run(*args), 64)

    def test_an_unknown_instruction_set(self):
        self.assert_fails(cluster.run("version", env={"BATON_ISA": "mmx"}), 64, "BATON_ISA", "mmx", "scalar")

    def test_a_file_that_is_not_there(self):
        self.assert_fails(cluster.run("run", "-m", "/no/such.gguf", "-p", "hi"), 66, "/no/such.gguf")
        self.assert_fails(cluster.run("serve", "-f", "/no/such.yaml"), 66, "/no/such.yaml")

    def test_an_output_that_cannot_be_written(self):
        model = cluster.tiny_model(self.folder / "tiny.gguf")
        self.assert_fails(cluster.run("logits", "-m", model, "--tokens", "1,2", "-o", "/no/such/out.npy"), 73, "/no/such/out.npy")

    def test_help_of_each_command_shows_an_example(self):
        listed = cluster.good(cluster.run("--help")).stdout
        self.assertIn("run", listed)
        for command in ("info", "tokenize", "logits", "run", "worker", "serve", "up", "status", "plan", "bench"):
            with self.subTest(command=command):
                self.assertIn(f"baton {command} ", cluster.good(cluster.run(command, "--help")).stdout)


class ModelErrors(cluster.TestCase):
    def test_a_text_file_is_no_model(self):
        path = self.folder / "model.gguf"
        path.write_text("once upon a time")
        self.assert_fails(cluster.run("run", "-m", path, "-p", "hi"), 65, "model.gguf")

    def test_an_unknown_architecture_is_named(self):
        path = cluster.tiny_model(self.folder / "tiny.gguf")
        data = path.read_bytes()
        path.write_bytes(data.replace(b"\x05\x00\x00\x00\x00\x00\x00\x00llama", b"\x05\x00\x00\x00\x00\x00\x00\x00lhama", 1))
        self.assert_fails(cluster.run("logits", "-m", path, "--tokens", "1", "-o", self.folder / "x.npy"), 65, "lhama")
        about = cluster.run_json("info", path)
        self.assertFalse(about["supported"])
        self.assertIn("lhama", about["reason"])

    def test_a_missing_part_is_named(self):
        model = cluster.tiny_model(self.folder / "tiny.gguf")
        cluster.good(cluster.run("split", model, "--parts", 3, "-o", self.folder / "parts"))
        parts = sorted((self.folder / "parts").glob("*.gguf"))
        self.assertEqual(len(parts), 3)
        parts[1].unlink()
        self.assert_fails(cluster.run("run", "-m", parts[0], "-p", "hi"), 65, parts[1].name)

    def test_an_empty_prompt_without_bos(self):
        model = cluster.tiny_model(self.folder / "tiny.gguf", bos="false")
        self.assert_fails(cluster.run("run", "-m", model, "--raw", "-p", "", "-n", 4), 65)

    def test_a_prompt_longer_than_the_context(self):
        model = cluster.tiny_model(self.folder / "tiny.gguf")
        ids = ",".join(["3"] * 100)
        self.assert_fails(cluster.run("run", "-m", model, "-c", 64, "--tokens", ids, "-n", 4), 65, "64")

    def test_an_answer_that_fills_the_context_ends_with_length(self):
        model = cluster.tiny_model(self.folder / "tiny.gguf")
        answer = cluster.run_json("run", "-m", model, "-c", 64, "--tokens", "3,4,5", "--ignore-eos", "--temp", 0)
        self.assertEqual(answer["finish_reason"], "length")
        self.assertEqual(len(answer["prompt_tokens"]) + len(answer["tokens"]), 64)


class TopologyErrors(cluster.TestCase):
    def serve_fails(self, text, code, *words):
        file = self.folder / "topology.yaml"
        file.write_text(text)
        self.assert_fails(cluster.run("serve", "-f", file), code, *words)

    def test_bad_yaml_names_file_line_and_key(self):
        self.serve_fails("model: x.gguf\nworkers:\n  - {name: a, adress: 127.0.0.1:1}\n", 65, "topology.yaml:3", "adress", "address")
        self.serve_fails("model: [\n", 65, "topology.yaml")
        self.serve_fails("context: 12\n", 65, "model")

    def test_layers_with_a_gap(self):
        model = cluster.tiny_model(self.folder / "tiny.gguf")
        workers = [{"name": "a", "address": "127.0.0.1:1", "layers": "0-1"}, {"name": "b", "address": "127.0.0.1:2", "layers": "3-4"}]
        file = self.folder / "topology.yaml"
        file.write_text(cluster.topology_text(model, workers))
        for command in ("plan", "serve"):  # before a worker is asked
            self.assert_fails(cluster.run(command, "-f", file), 65, "topology.yaml", "worker b", "layer 2 is given to no worker")

    def test_a_worker_that_is_not_there(self):
        model = cluster.tiny_model(self.folder / "tiny.gguf")
        with socket.create_server(("127.0.0.1", 0)) as held:
            port = held.getsockname()[1]
        workers = [{"name": "gone", "address": f"127.0.0.1:{port}"}]
        begin = time.monotonic()
        self.serve_fails(cluster.topology_text(model, workers, more="limits: {start: 2s}\n"), 69, "gone")
        self.assertLess(time.monotonic() - begin, 20)

    def test_what_does_not_fit_is_refused_with_a_table(self):
        model = cluster.tiny_model(self.folder / "tiny.gguf")
        file = self.folder / "topology.yaml"
        file.write_text(cluster.topology_text(model, [{"name": "small", "address": "127.0.0.1:1", "memory": "1kB"}]))
        done = cluster.run("plan", "-f", file)
        self.assertEqual(done.returncode, 65, done.stderr)
        self.assertIn("small", done.stdout)
        done = cluster.run("plan", "-f", file, "--json")
        self.assertEqual(done.returncode, 65)
        self.assertIn('"fits":false', done.stdout.replace(" ", ""))


class ServerErrors(cluster.TestCase):
    def test_nobody_listens(self):
        with socket.create_server(("127.0.0.1", 0)) as held:
            port = held.getsockname()[1]
        self.assert_fails(cluster.run("run", "--server", f"127.0.0.1:{port}", "-p", "hi"), 69, str(port))
        self.assert_fails(cluster.run("status", "--server", f"127.0.0.1:{port}", "--wait", "1s"), 69, str(port))

    def test_a_port_in_use(self):
        model = cluster.tiny_model(self.folder / "tiny.gguf")
        file = self.folder / "topology.yaml"
        file.write_text(cluster.topology_text(model, [{"name": "a", "address": "127.0.0.1:1"}]))
        with socket.create_server(("127.0.0.1", 0)) as held:
            port = held.getsockname()[1]
            for command in (("worker", "--models", self.folder, "--listen"), ("serve", "-f", file, "--listen"),
                            ("serve", "-f", file, "--http")):
                with self.subTest(command=command):
                    self.assert_fails(cluster.run(*command, f"127.0.0.1:{port}"), 1, str(port), "in use")

    def test_beyond_loopback_needs_a_word(self):
        self.assert_fails(cluster.run("worker", "--listen", "0.0.0.0:0", "--models", self.folder), 77)
        worker = self.start("worker", "--listen", "0.0.0.0:0", "--models", self.folder, "--insecure")
        worker.ready()
        self.assertIn("without TLS", worker.words())

    def test_the_wrong_folder_is_named(self):
        model = cluster.tiny_model(self.folder / "tiny.gguf")
        empty = self.folder / "empty"
        empty.mkdir()
        with self.assertRaises(AssertionError) as raised:
            with cluster.cluster(self.folder, model, num_workers=1, models=[empty], more="limits: {start: 3s}\n"):
                pass
        self.assertIn("tiny.gguf", str(raised.exception))

    def test_a_model_that_is_cut_while_it_is_served(self):
        model = cluster.tiny_model(self.folder / "tiny.gguf")
        whole = model.read_bytes()
        ask = ("--tokens", "3", "-n", 8, "--temp", 0)
        with cluster.cluster(self.folder, model, http="127.0.0.1:0", more="limits: {recovery: 2s}\n") as c:
            want = c.generate(*ask)["tokens"]
            os.truncate(model, 1000)
            request = urllib.request.Request(f"http://{c.coordinator.http}/v1/completions",
                                             json.dumps({"prompt": [3], "max_tokens": 8}).encode())
            with self.assertRaises(urllib.error.HTTPError) as refused:
                urllib.request.urlopen(request, timeout=cluster.DEADLINE_S)
            self.assertEqual(refused.exception.code, 503)
            self.assertIn("tiny.gguf", json.load(refused.exception)["error"]["message"])
            self.assertEqual(c.status()["state"], "failed")
            model.write_bytes(whole)
            end = time.monotonic() + 30
            while c.status()["state"] != "ready" and time.monotonic() < end:
                time.sleep(0.1)
            self.assertEqual(c.generate(*ask)["tokens"], want)

    def test_a_cluster_that_has_given_up_is_heard_at_once(self):
        model = cluster.tiny_model(self.folder / "tiny.gguf", context=32768)
        with cluster.cluster(self.folder, model, context=32768, more="limits: {recovery: 1s}\n") as c:
            asked = subprocess.Popen([cluster.BATON, "run", "--server", c.grpc, "--tokens", "3", "--ignore-eos", "-n", "32000",
                                      "--json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            self.addCleanup(asked.kill)
            end = time.monotonic() + 30
            while c.status()["sequences"]["running"] == 0 and time.monotonic() < end:
                time.sleep(0.05)
            begin = time.monotonic()
            for worker in c.workers:
                worker.kill()
            out, err = asked.communicate(timeout=cluster.DEADLINE_S)
            self.assertLess(time.monotonic() - begin, 30)  # and not after the minute that a coordinator has to come back
            self.assertEqual((asked.returncode, out), (69, ""), err)
            self.assertIn("worker w", err)

    def test_a_deadline(self):
        model = cluster.tiny_model(self.folder / "tiny.gguf", context=32768)
        with cluster.cluster(self.folder, model, context=32768) as c:
            done = cluster.run("run", "--server", c.grpc, "--tokens", "3", "--ignore-eos", "-n", 32000, "--timeout", "1s", "--json")
            self.assert_fails(done, 124)
            self.assertEqual(len(c.generate("--tokens", "3", "-n", 2, "--ignore-eos")["tokens"]), 2)  # it goes on

    def test_a_killed_worker_costs_a_pause_and_no_token(self):
        model = cluster.tiny_model(self.folder / "tiny.gguf")
        with cluster.cluster(self.folder, model) as c:
            want = c.generate("--tokens", "3", "-n", 8, "--temp", 0)["tokens"]
            c.workers[1].kill()
            begin = time.monotonic()
            self.assertEqual(c.generate("--tokens", "3", "-n", 8, "--temp", 0)["tokens"], want)  # the survivor took its layers
            self.assertLess(time.monotonic() - begin, 30)
            states = {w["name"]: w["state"] for w in c.status()["workers"]}
            self.assertEqual(states, {"w0": "ready", "w1": "lost"})


if __name__ == "__main__":
    unittest.main()
