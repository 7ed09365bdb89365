"""Closed by default: certificates and their roles, API keys, and what a stranger learns."""
import contextlib
import http.client
import json
import pathlib
import socket
import ssl
import time
import unittest

import cluster

HOSTS = ("--host", "127.0.0.1", "--host", "localhost")


class Certificates(cluster.TestCase):
    """A cluster started by `up` over mutual TLS."""

    def setUp(self):
        super().setUp()
        self.certs = self.folder / "certs"
        cluster.good(cluster.run("certs", "init", "-d", self.certs))
        for name, role in (("head", "coordinator"), ("left", "worker"), ("ann", "generate"), ("root", "admin")):
            cluster.good(cluster.run("certs", "issue", name, "--role", role, *HOSTS, "-d", self.certs))

    def up(self, more=""):
        model = cluster.tiny_model(self.folder / "tiny.gguf")
        workers = [{"name": "left", "address": "127.0.0.1:0", "threads": 1, "launch": "local", "tls": self.certs / "left"},
                   {"name": "right", "address": "127.0.0.1:0", "threads": 1, "launch": "local"}]
        head = self.certs / "head"
        tls = f"tls: {{ca: {head}/ca.pem, cert: {head}/cert.pem, key: {head}/key.pem}}\n"
        (self.folder / "topology.yaml").write_text(cluster.topology_text(model, workers, more=tls + more))
        return self.start("up", "-f", self.folder / "topology.yaml").ready()

    def as_(self, name):
        return ("--tls", self.certs / name)

    def ask(self, up, *flags, **more):
        return cluster.run("run", "--server", up.grpc, "--tokens", "3,4", "-n", 3, "--temp", 0, "--ignore-eos", "--json",
                           *flags, **more)

    def test_roles(self):
        up = self.up()
        self.assertEqual(len(json.loads(cluster.good(self.ask(up, *self.as_("ann"))).stdout)["tokens"]), 3)
        files = self.certs / "ann"
        cluster.good(self.ask(up, "--ca", files / "ca.pem", "--cert", files / "cert.pem", "--key", files / "key.pem"))
        self.assert_fails(self.ask(up, *self.as_("left")), 77, "generate or admin")
        drain = ("drain", "right", "--server", up.grpc)
        self.assert_fails(cluster.run(*drain, *self.as_("ann")), 77, "admin")
        self.assert_fails(cluster.run("reload", "--server", up.grpc, *self.as_("ann")), 77, "admin")
        self.assertIn("no worker joined", cluster.good(cluster.run("reload", "--server", up.grpc, *self.as_("root"))).stdout)
        # The administrator gets past the door; two workers of a tiny model can spare one.
        self.assertIn("drained", cluster.good(cluster.run(*drain, *self.as_("root"))).stdout)
        worker = up.wait_line(r"^left \| ready grpc=(\S+)")[1]
        self.assertEqual(cluster.run("status", "--server", worker, *self.as_("left")).returncode, 65)  # no such service there

    def test_strangers_see_an_alert(self):
        up = self.up()
        worker = up.wait_line(r"^left \| ready grpc=(\S+)")[1]
        for address in (up.grpc, worker):
            host, port = address.rsplit(":", 1)
            context = ssl.create_default_context(cafile=self.certs / "ca.pem")
            context.set_alpn_protocols(["h2"])
            with socket.create_connection((host, int(port)), timeout=10) as plain, self.assertRaises(ssl.SSLError) as told:
                with context.wrap_socket(plain, server_hostname=host) as probe:  # in TLS 1.3 the alert follows
                    probe.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
                    if probe.recv(100) == b"":
                        raise ssl.SSLError("closed")
            self.assertRegex(str(told.exception), "certificate|closed", address)
            with socket.create_connection((host, int(port)), timeout=10) as plain:  # nor is there a way in without TLS
                plain.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0")
                plain.settimeout(3)
                try:
                    self.assertNotIn(b"\0\0\0\4", plain.recv(100)[:20].replace(b"\x15\3", b""))
                except (ConnectionResetError, socket.timeout):
                    pass
        self.assert_fails(self.ask(up, timeout=40), 69)
        cluster.good(self.ask(up, *self.as_("ann")))

    def test_keys_over_tls(self):
        keys = self.folder / "keys.txt"
        key = cluster.good(cluster.run("certs", "key", "bob", "-f", keys)).stdout.strip()
        up = self.up(more=f"api_keys: {keys}\n")
        trust = ("--ca", self.certs / "ca.pem")
        cluster.good(self.ask(up, *trust, env={"BATON_API_KEY": key}))
        self.assert_fails(self.ask(up, *trust), 77, "API key")
        cluster.good(self.ask(up, *self.as_("ann")))  # a certificate serves as before
        self.assert_fails(self.ask(up, *self.as_("left")), 77)


class Keys(cluster.TestCase):
    def key(self, name, role):
        return cluster.good(cluster.run("certs", "key", name, "--role", role, "-f", self.folder / "keys.txt")).stdout.strip()

    def test_grpc_and_http(self):
        generate, admin, worker = self.key("ann", "generate"), self.key("root", "admin"), self.key("w", "worker")
        file = self.folder / "keys.txt"
        for key in (generate, admin, worker):
            self.assertNotIn(key.removeprefix("baton-"), file.read_text())
        self.assertEqual(file.stat().st_mode & 0o777, 0o600)
        model = cluster.tiny_model(self.folder / "tiny.gguf")
        more = f"  http: 127.0.0.1:0\napi_keys: {file}\n"
        with cluster.cluster(self.folder, model, more=more) as c:
            http_address = c.coordinator.http
            ask = ("run", "--server", c.grpc, "--tokens", "3,4", "-n", 2, "--ignore-eos")
            for key, code in ((generate, 0), (admin, 0), (worker, 77), ("baton-wrong", 77), ("", 77)):
                self.assertEqual(cluster.run(*ask, env={"BATON_API_KEY": key}).returncode, code, key)
            for server in c.servers:
                command_line = pathlib.Path(f"/proc/{server.process.pid}/cmdline").read_bytes()
                for key in (generate, admin, worker):
                    self.assertNotIn(key.encode(), command_line)
            self.assertNotRegex(cluster.good(cluster.run("run", "--help")).stdout, "--api-key(?!-file)")  # nor may a client's
            kept = self.folder / "key"
            kept.write_text(generate + "\n")
            cluster.good(cluster.run(*ask, "--api-key-file", kept))
            drain = ("drain", "w1", "--server", c.grpc)
            self.assert_fails(cluster.run(*drain, env={"BATON_API_KEY": generate}), 77, "role generate")

            def get(path, key=None, method="GET", body=None):
                connection = http.client.HTTPConnection(http_address, timeout=30)
                headers = {"Authorization": f"Bearer {key}"} if key else {}
                connection.request(method, path, body, headers)
                with contextlib.closing(connection):
                    answer = connection.getresponse()
                    return answer.status, answer.read()

            body = json.dumps({"prompt": [3, 4], "max_tokens": 2})
            for path, method, text in (("/v1/models", "GET", None), ("/metrics", "GET", None), ("/api/cluster", "GET", None),
                                       ("/v1/completions", "POST", body)):
                self.assertEqual(get(path, None, method, text)[0], 401, path)
                self.assertEqual(get(path, worker, method, text)[0], 403, path)
                self.assertEqual(get(path, generate, method, text)[0], 200, path)
            for path in ("/", "/health"):
                self.assertEqual(get(path)[0], 200, path)
            self.assertIn(b"authentication_error", get("/v1/models", "x")[1])

            # A key that is taken out of the file is no key any more.
            file.write_text("".join(line for line in file.read_text().splitlines(True) if not line.startswith("ann ")))
            end = time.monotonic() + 20
            while (status := get("/v1/models", generate)[0]) != 401 and time.monotonic() < end:
                time.sleep(0.1)
            self.assertEqual(status, 401)
            # One that became wrong changes nothing.
            file.write_text("root admin tooshort\n")
            self.assertEqual(get("/v1/models", admin)[0], 200)
            words = c.coordinator.words()
        for key in (generate, admin, worker):
            self.assertNotIn(key, words)

    def test_a_file_that_is_wrong(self):
        model = cluster.tiny_model(self.folder / "tiny.gguf")
        keys = self.folder / "keys.txt"
        topology = self.folder / "topology.yaml"
        topology.write_text(cluster.topology_text(model, [{"name": "a", "address": "127.0.0.1:1"}], more=f"api_keys: {keys}\n"))
        self.assert_fails(cluster.run("serve", "-f", topology), 66, "keys.txt")
        keys.write_text("# keys\n\nann generate 00\n")
        done = cluster.run("serve", "-f", topology)
        self.assert_fails(done, 65, "keys.txt:3")
        self.assertNotIn("00", done.stderr.split("keys.txt:3")[1])


if __name__ == "__main__":
    unittest.main()
