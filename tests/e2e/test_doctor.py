"""`baton doctor` finds what is wrong, and says what to do; `trace` says where time went."""
import json
import resource
import socket
import unittest

import cluster


class Doctor(cluster.TestCase):
    def setUp(self):
        super().setUp()
        self.model = cluster.tiny_model(self.folder / "tiny.gguf")

    def examine(self, workers=({"name": "a", "address": "127.0.0.1:0", "launch": "local"},), model=None, code=65, context=256, **more):
        file = self.folder / "topology.yaml"
        file.write_text(cluster.topology_text(model or self.model, workers, context=context, **more))
        done = cluster.run("doctor", "-f", file, "--json")
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return json.loads(done.stdout)

    def assert_finds(self, report, level, *words):
        for finding in report["findings"]:
            if finding["level"] == level and all(word in finding["where"] + finding["what"] for word in words):
                self.assertTrue(finding["todo"])
                return
        self.fail(f"no {level} with {words}: {json.dumps(report, indent=1)}")

    def port(self):
        taken = socket.create_server(("127.0.0.1", 0))
        self.addCleanup(taken.close)
        return f"127.0.0.1:{taken.getsockname()[1]}"

    def test_all_is_well(self):
        report = self.examine(code=0)
        self.assertTrue(report["healthy"])
        self.assertEqual([f for f in report["findings"] if f["level"] != "good"], [])

    def test_the_file(self):
        self.assert_finds(self.examine(more="contxt: 5\n"), "error", "contxt")
        self.assert_finds(self.examine(model="/no/such.gguf"), "error", "/no/such.gguf")
        pair = [{"name": n, "address": f"127.0.0.1:0", "layers": layers, "launch": "local"}
                for n, layers in (("a", "0-1"), ("b", "3-4"))]
        self.assert_finds(self.examine(pair), "error", "layer")
        small = {"name": "a", "address": "127.0.0.1:0", "memory": "64KiB", "launch": "local"}
        self.assert_finds(self.examine([small]), "error", "does not fit")
        self.assert_finds(self.examine(context=4096, code=0), "warning", "trained")
        self.assert_finds(self.examine([{"name": "a", "address": "127.0.0.1:0", "launch": "local", "models": "/no/folder"}]),
                          "error", "/no/folder")

    def test_addresses_and_security(self):
        taken = self.port()
        self.assert_finds(self.examine(http=taken, code=0), "warning", taken, "in use")
        twice = [{"name": n, "address": "127.0.0.1:23901", "launch": "local"} for n in "ab"]
        self.assert_finds(self.examine(twice), "error", "127.0.0.1:23901")
        beyond = [{"name": "a", "address": "192.0.2.1:7071", "launch": "local"}]
        self.assert_finds(self.examine(beyond), "error", "192.0.2.1", "TLS")
        tls = "tls: {ca: /no/ca.pem, cert: /no/cert.pem, key: /no/key.pem}\n"
        self.assert_finds(self.examine(more=tls), "error", "/no/key.pem")

    def test_certificates(self):
        certs = self.folder / "certs"
        cluster.good(cluster.run("certs", "init", "-d", certs))
        issue = lambda name, days: cluster.good(cluster.run("certs", "issue", name, "--role", "coordinator", "--host", "127.0.0.1",
                                                            "--days", days, "-d", certs))
        issue("head", 365), issue("short", 5), issue("other", 365)
        cluster.good(cluster.run("certs", "init", "-d", self.folder / "elsewhere"))

        def tls(**files):
            named = {name: certs / "head" / f"{name}.pem" for name in ("ca", "cert", "key")} | files
            return "tls: {" + ", ".join(f"{name}: {path}" for name, path in named.items()) + "}\n"
        report = self.examine(more=tls(), code=0)
        self.assertEqual([f for f in report["findings"] if f["level"] != "good"], [])
        self.assert_finds(self.examine(more=tls(key=certs / "other/key.pem")), "error", "other/key.pem", "not the key of")
        self.assert_finds(self.examine(more=tls(ca=self.folder / "elsewhere/ca.pem")), "error", "head/cert.pem", "signature")
        soon = tls(cert=certs / "short/cert.pem", key=certs / "short/key.pem")
        self.assert_finds(self.examine(more=soon, code=0), "warning", "in 14 days", "expired")
        (certs / "head/key.pem").chmod(0o644)
        self.assert_finds(self.examine(more=tls(), code=0), "warning", "head/key.pem", "others may read")

    def test_limits_of_this_machine(self):
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        file = self.folder / "topology.yaml"
        file.write_text(cluster.topology_text(self.model, [{"name": "a", "address": "127.0.0.1:0", "launch": "local"}],
                                              http="127.0.0.1:0"))
        import subprocess
        done = subprocess.run(["bash", "-c", f"ulimit -n 512 && exec {cluster.BATON} doctor -f {file} --json"], text=True,
                              capture_output=True, timeout=60)
        self.assert_finds(json.loads(done.stdout), "warning", "512")

    def test_workers_that_answer_and_those_that_do_not(self):
        nobody = [{"name": "a", "address": "127.0.0.1:1", "launch": "none"}]
        self.assert_finds(self.examine(nobody), "error", "127.0.0.1:1", "does not answer")
        empty, other = self.folder / "empty", self.folder / "other"
        empty.mkdir(), other.mkdir()
        cluster.tiny_model(other / "tiny.gguf", seed=2, layers=6)
        for folder, words in ((empty, ("tiny.gguf",)), (other, ("another file",))):
            worker = self.start("worker", "--listen", "127.0.0.1:0", "--name", "b", "--models", folder).ready()
            report = self.examine([{"name": "a", "address": worker.grpc, "launch": "none"}])
            self.assert_finds(report, "error", *words)
            self.assert_finds(report, "warning", "calls itself b")
        ours = self.start("worker", "--listen", "127.0.0.1:0", "--name", "a", "--models", self.folder).ready()
        report = self.examine([{"name": "a", "address": ours.grpc, "launch": "none"}], code=0)
        self.assertTrue(any("round trip" in f["what"] for f in report["findings"]))

    def test_ssh_that_does_not_let_in(self):
        there = [{"name": "a", "address": "127.0.0.1:23902", "launch": "ssh://nobody@127.0.0.1:1"}]
        self.assert_finds(self.examine(there), "error", "worker a")


class Trace(cluster.TestCase):
    def test_traces_a_request(self):
        made = cluster.Cluster(self.folder, cluster.tiny_model(self.folder / "tiny.gguf"), num_workers=3)
        self.addCleanup(made.stop)
        made.generate("--tokens", "3,4,5", "-n", 20, "--ignore-eos")
        trace = json.loads(cluster.good(cluster.run("trace", "--server", made.grpc)).stdout)
        events = trace["traceEvents"]
        processes = [e["args"]["name"] for e in events if e["name"] == "process_name"]
        self.assertEqual(processes, ["coordinator", "stage 0: w0", "stage 1: w1", "stage 2: w2"])
        computes = [e for e in events if e["name"] == "compute"]
        self.assertEqual({e["pid"] for e in computes}, {1, 2, 3})
        self.assertTrue(all(e["dur"] >= 0 for e in events if e["ph"] == "X"))
        self.assert_fails(cluster.run("trace", "nobody", "--server", made.grpc), 66, "nobody")


if __name__ == "__main__":
    unittest.main()
