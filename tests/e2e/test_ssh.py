"""`baton up` starts workers by ssh, against a real sshd: on loopback, and on two hosts of their own (network namespaces).

Skipped where there is no sshd, and the second part where this is not root.
"""
import contextlib
import os
import pathlib
import pwd
import shutil
import subprocess
import time
import unittest

import cluster

SSHD = shutil.which("sshd") or "/usr/sbin/sshd"
USER = pwd.getpwuid(os.getuid()).pw_name


def quiet(*command):
    subprocess.run(list(map(str, command)), check=True, capture_output=True, text=True, timeout=30)


@unittest.skipUnless(os.path.exists(SSHD) and shutil.which("ssh"), "no sshd here")
class Ssh(cluster.TestCase):
    def setUp(self):
        super().setUp()
        self.folder.chmod(0o755)
        self.model = cluster.tiny_model(self.folder / "tiny.gguf")
        for key in ("host_key", "key"):
            quiet("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", self.folder / key)
        (self.folder / "authorized").write_text((self.folder / "key.pub").read_text())
        self.wrapper = self.folder / "ssh"
        self.wrapper.write_text(f"#!/bin/sh\nexec {shutil.which('ssh')} -F none -i {self.folder}/key -o IdentitiesOnly=yes "
                                f"-o UserKnownHostsFile={self.folder}/known -o StrictHostKeyChecking=no \"$@\"\n")
        self.wrapper.chmod(0o755)
        if os.getuid() == 0:
            pathlib.Path("/run/sshd").mkdir(exist_ok=True)  # where sshd gives up its rights

    def sshd(self, address, port, *inside):
        """A server on an address, run by `inside` (ip netns exec NAME) where given."""
        config = self.folder / f"sshd-{address}"
        config.write_text(f"ListenAddress {address}:{port}\nHostKey {self.folder}/host_key\nPidFile none\nUsePAM no\n"
                          f"AuthorizedKeysFile {self.folder}/authorized\nStrictModes no\nPermitRootLogin yes\nLogLevel ERROR\n"
                          f"SetEnv XDG_CACHE_HOME={self.folder}/cache-{address}\n")
        server = subprocess.Popen([*inside, SSHD, "-D", "-e", "-f", str(config)], stdin=subprocess.DEVNULL, stderr=subprocess.PIPE)
        self.addCleanup(lambda: (server.kill(), server.wait(), server.stderr.close()))
        target = f"ssh://{USER}@{address}:{port}"
        end = time.monotonic() + 10
        while subprocess.run([self.wrapper, "-p", str(port), f"{USER}@{address}", "true"], capture_output=True).returncode != 0:
            self.assertIsNone(server.poll(), "sshd ended")
            self.assertLess(time.monotonic(), end, "sshd does not let us in")
            time.sleep(0.1)
        return target

    def up(self, workers, *flags, **more):
        file = self.folder / "topology.yaml"
        file.write_text(cluster.topology_text(self.model, workers, **more))
        return self.start("up", "-f", file, *flags, env={"BATON_SSH": str(self.wrapper), "XDG_STATE_HOME": str(self.folder)})

    def check_answers(self, up, names):
        answer = cluster.run_json("run", "--server", up.grpc, "--tokens", "3,4", "-n", 8, "--temp", 0, "--ignore-eos")
        alone = cluster.run_json("run", "-m", self.model, "--tokens", "3,4", "-n", 8, "--temp", 0, "--ignore-eos")
        self.assertEqual(answer["tokens"], alone["tokens"])
        self.assertEqual([stage["worker"] for stage in answer["stages"]], names)

    def test_starts_and_leaves_nothing_behind(self):
        there = self.sshd("127.0.0.1", 23910)
        workers = [{"name": "here", "address": "127.0.0.1:0", "threads": 1, "launch": "local"},
                   {"name": "there", "address": "127.0.0.1:0", "threads": 1, "launch": there + cluster.BATON}]
        up = self.up(workers).ready()
        self.check_answers(up, ["here", "there"])
        self.assertNotIn("\x1b", up.words())
        pids = [w["pid"] for w in cluster.run_json("status", "--server", up.grpc)["workers"]]
        self.assertEqual(up.stop(), 0)
        end = time.monotonic() + 10
        while os.path.exists(f"/proc/{pids[1]}") and time.monotonic() < end:
            time.sleep(0.1)
        self.assertFalse(os.path.exists(f"/proc/{pids[1]}"))

    def test_certificates_of_the_other_host(self):
        certs = self.folder / "certs"
        cluster.good(cluster.run("certs", "init", "-d", certs))
        for name, role in (("head", "coordinator"), ("there", "worker"), ("ann", "generate")):
            cluster.good(cluster.run("certs", "issue", name, "--role", role, "--host", "127.0.0.1", "-d", certs))
        there = self.sshd("127.0.0.1", 23911)
        workers = [{"name": "there", "address": "127.0.0.1:0", "threads": 1, "launch": there + cluster.BATON, "tls": certs / "there"}]
        tls = ", ".join(f"{key}: {certs}/head/{key}.pem" for key in ("ca", "cert", "key"))
        up = self.up(workers, more=f"tls: {{{tls}}}\n").ready()
        ask = ("run", "--server", up.grpc, "--tokens", "3,4", "-n", 4)
        cluster.good(cluster.run(*ask, "--tls", certs / "ann"))
        self.assertEqual(cluster.run(*ask, timeout=40).returncode, 69)
        worker = up.wait_line(r"^there \| ready grpc=(\S+)")[1]
        self.assertEqual(cluster.run("status", "--server", worker, timeout=40).returncode, 69)  # it asks for a certificate, too

    def test_a_host_that_does_not_let_in(self):
        file = self.folder / "topology.yaml"
        file.write_text(cluster.topology_text(self.model, [{"name": "a", "address": "127.0.0.1:0",
                                                            "launch": f"ssh://{USER}@127.0.0.1:1"}]))
        done = cluster.run("up", "-f", file, env={"BATON_SSH": str(self.wrapper)})
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("refused", done.stderr)

    @unittest.skipUnless(os.getuid() == 0 and shutil.which("ip"), "needs root and ip")
    def test_this_host_and_two_others_that_have_nothing(self):
        """As the tutorial's third step: one command brings the program, and the layers' weights come from this host."""
        with contextlib.ExitStack() as stack:
            for i in (1, 2):
                name, network = f"baton-t{os.getpid()}-{i}", f"10.213.{i}"
                try:
                    quiet("ip", "netns", "add", name)
                except subprocess.CalledProcessError as error:
                    self.skipTest(f"no network namespaces here: {error.stderr.strip()}")
                stack.callback(subprocess.run, ["ip", "netns", "del", name], capture_output=True)
                quiet("ip", "link", "add", f"bt{i}", "type", "veth", "peer", "name", "eth0", "netns", name)
                stack.callback(subprocess.run, ["ip", "link", "del", f"bt{i}"], capture_output=True)
                quiet("ip", "addr", "add", f"{network}.1/24", "dev", f"bt{i}")
                quiet("ip", "link", "set", f"bt{i}", "up")
                for command in (f"addr add {network}.2/24 dev eth0", "link set eth0 up", "link set lo up",
                                f"route add default via {network}.1"):
                    quiet("ip", "-n", name, *command.split())
            forward = pathlib.Path("/proc/sys/net/ipv4/ip_forward")
            if forward.read_text().strip() != "1":
                stack.callback(forward.write_text, forward.read_text())
                forward.write_text("1")
            workers = [{"name": "here", "address": "10.213.1.1:0", "threads": 1, "launch": "local", "layers": "0-0"}]
            for i in (1, 2):
                there = self.sshd(f"10.213.{i}.2", 22, "ip", "netns", "exec", f"baton-t{os.getpid()}-{i}")
                workers.append({"name": f"host{i}", "address": f"10.213.{i}.2:7071", "threads": 1, "launch": there,
                                "models": self.folder / "none", "layers": ("1-2", "3-4")[i - 1]})
            up = self.up(workers, "--copy", more="insecure: true\nfetch_parts: true\n").ready()
            self.check_answers(up, ["here", "host1", "host2"])
            received = [w["weight_bytes_received"] for w in cluster.run_json("status", "--server", up.grpc)["workers"]]
            self.assertEqual([bytes > 0 for bytes in received], [False, True, True])
            self.assertEqual(up.stop(), 0)


class Detached(cluster.TestCase):
    def test_up_in_the_background_its_words_and_its_end(self):
        model = cluster.tiny_model(self.folder / "tiny.gguf")
        file = self.folder / "topology.yaml"
        file.write_text(cluster.topology_text(model, [{"name": "one", "address": "127.0.0.1:0", "threads": 1, "launch": "local"}]))
        env = {"XDG_STATE_HOME": str(self.folder / "state")}
        self.assert_fails(cluster.run("down", "-f", file, env=env), 66, "nothing runs")
        started = cluster.good(cluster.run("up", "-f", file, "--detach", env=env))
        self.addCleanup(cluster.run, "down", "-f", file, env=env)
        grpc = next(line for line in started.stderr.splitlines() if line.startswith("ready grpc=")).split("=")[1]
        cluster.run_json("run", "--server", grpc, "--tokens", "3", "-n", 2)
        self.assert_fails(cluster.run("up", "-f", file, "--detach", env=env), 65, "up already")
        words = cluster.good(cluster.run("logs", "one", "-f", file, env=env)).stdout
        self.assertIn("one | ready grpc=", words)
        self.assertNotIn("coordinator |", words)
        self.assertTrue(cluster.run_json("down", "-f", file, env=env)["stopped"])
        self.assertEqual(cluster.run("status", "--server", grpc).returncode, 69)


if __name__ == "__main__":
    unittest.main()
