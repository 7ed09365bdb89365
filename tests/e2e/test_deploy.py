"""The files of scripts/deploy, each tried as far as it goes without a cluster. Parts whose programs are missing are skipped."""
import json
import os
import pathlib
import re
import shutil
import socket
import subprocess
import time
import unittest
import urllib.parse
import urllib.request

import cluster

try:
    import yaml
except ImportError:
    yaml = None

DEPLOY = pathlib.Path(__file__).resolve().parents[2] / "scripts/deploy"
DASHBOARD = json.loads((DEPLOY / "monitoring/grafana-dashboard.json").read_text())
EXPRESSIONS = [target["expr"] for panel in DASHBOARD["panels"] for target in panel["targets"]]
ALERTS = re.findall(r"expr: (.*)", (DEPLOY / "monitoring/baton-alerts.yml").read_text())


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


def get(url):
    with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(url, timeout=10) as answer:
        return answer.read().decode()


class Monitoring(cluster.TestCase):
    def setUp(self):
        super().setUp()
        model = cluster.tiny_model(self.folder / "tiny.gguf")
        self.cluster = cluster.Cluster(self.folder, model, http="127.0.0.1:0")
        self.addCleanup(self.cluster.stop)
        self.http = self.cluster.coordinator.http

    def use(self):
        self.cluster.generate("--tokens", "3,4", "-n", 8, "--ignore-eos")
        self.assertNotEqual(cluster.run("run", "--server", self.cluster.grpc, "--tokens", "999999").returncode, 0)  # refused

    def test_dashboard_and_alerts_name_metrics_that_there_are(self):
        self.use()
        metrics = get(f"http://{self.http}/metrics")
        for name in {name for expression in EXPRESSIONS + ALERTS for name in re.findall(r"\bbaton_\w+", expression)}:
            self.assertRegex(metrics, rf"(?m)^{name}\b", name)

    @unittest.skipUnless(shutil.which("prometheus") and shutil.which("promtool"), "prometheus is not installed")
    def test_prometheus_takes_them(self):
        folder = self.folder / "prometheus"
        shutil.copytree(DEPLOY / "monitoring", folder)
        config = folder / "prometheus.yml"
        subprocess.run(["promtool", "check", "config", config], check=True, capture_output=True, timeout=60)
        text = config.read_text()
        self.assertIn("127.0.0.1:8080", text)
        config.write_text(text.replace("127.0.0.1:8080", self.http).replace("5s", "500ms"))
        port = free_port()
        server = subprocess.Popen(["prometheus", f"--config.file={config}", f"--storage.tsdb.path={folder}/data",
                                   f"--web.listen-address=127.0.0.1:{port}"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.addCleanup(server.wait, 30)
        self.addCleanup(server.terminate)

        def ask(expression):
            query = urllib.parse.urlencode({"query": expression})
            answer = json.loads(get(f"http://127.0.0.1:{port}/api/v1/query?{query}"))
            self.assertEqual(answer["status"], "success", expression)
            return [float(one["value"][1]) for one in answer["data"]["result"]]

        end = time.monotonic() + 30
        missing = {expression: expression.replace("$instance", self.http) for expression in EXPRESSIONS}
        while missing and time.monotonic() < end:
            self.use()
            time.sleep(0.5)
            try:
                missing = {each: asked for each, asked in missing.items() if not ask(asked) or any(v != v for v in ask(asked))}
            except OSError:
                continue  # it starts
        self.assertEqual(list(missing), [], "nothing to see in 30 s")
        for alert in ALERTS:
            self.assertEqual(ask(alert), [], "an alert of a sound cluster")


class Units(cluster.TestCase):
    @unittest.skipUnless(shutil.which("systemd-analyze"), "no systemd here")
    def test_systemd_knows_all_that_the_units_say(self):
        for unit in (DEPLOY / "systemd").iterdir():
            text = unit.read_text()
            self.assertIn("/usr/bin/baton ", text)
            (self.folder / unit.name).write_text(text.replace("/usr/bin/baton ", f"{cluster.BATON} "))
        for name in ("baton.service", "baton-worker@left.service"):
            done = subprocess.run(["systemd-analyze", "--man=no", "verify", self.folder / name], text=True, capture_output=True,
                                  timeout=60)
            self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_their_commands_have_flags_that_there_are(self):
        said = "".join(path.read_text() for path in (DEPLOY / "systemd").iterdir())
        self.check_flags(re.findall(r"/usr/bin/baton (.*)", said))

    def check_flags(self, lines):
        self.assertTrue(lines)
        for line in lines:
            command, *words = line.split()
            known = cluster.good(cluster.run(command, "--help")).stdout
            for flag in (word for word in words if re.fullmatch(r"--?[a-z-]+", word)):
                self.assertRegex(known, rf"(?<![\w-]){flag}(?![\w-])", line)

    @unittest.skipIf(yaml is None, "no python3-yaml")
    def test_kubernetes_objects_fit_together(self):
        objects = {(each["kind"], each["metadata"]["name"]): each
                   for each in yaml.safe_load_all((DEPLOY / "kubernetes/baton.yaml").read_text())}
        workers, head = objects["StatefulSet", "baton-worker"]["spec"], objects["Deployment", "baton"]["spec"]
        containers = [each["template"]["spec"]["containers"][0] for each in (workers, head)]
        commands = [container["command"] for container in containers]
        commands += [containers[1][probe]["exec"]["command"] for probe in ("startupProbe", "readinessProbe")]
        self.assertEqual({command[0] for command in commands}, {"/usr/bin/baton"})
        self.check_flags([" ".join(command[1:]) for command in commands])
        for spec in (workers, head):
            self.assertEqual(spec["selector"]["matchLabels"], spec["template"]["metadata"]["labels"])
            claimed = {volume["name"] for volume in spec["template"]["spec"]["volumes"]}
            self.assertLessEqual({mount["name"] for mount in spec["template"]["spec"]["containers"][0]["volumeMounts"]}, claimed)
        service = objects["Service", workers["serviceName"]]["spec"]
        port = containers[0]["ports"][0]["containerPort"]
        self.assertEqual((service["selector"], service["ports"][0]["port"]), (workers["selector"]["matchLabels"], port))

        # The topology is one for these workers, and `baton plan` takes it.
        topology = objects["ConfigMap", "baton"]["data"]["topology.yaml"]
        wanted = [f"baton-worker-{i}.baton-worker:{port}" for i in range(workers["replicas"])]
        self.assertEqual([worker["address"] for worker in yaml.safe_load(topology)["workers"]], wanted)
        file = self.folder / "topology.yaml"
        file.write_text(topology.replace("/models/model.gguf", str(cluster.tiny_model(self.folder / "tiny.gguf"))))
        self.assertTrue(cluster.run_json("plan", "-f", file, "--context", 256)["fits"])


class Slurm(cluster.TestCase):
    FAKES = {  # one node, this one
        "scontrol": "echo localhost",
        "hostname": "echo localhost",
        "srun": 'shift; exec "$@"',
        "baton": f'exec {cluster.BATON} "$@"',
    }

    def test_a_job_of_one_node_answers(self):
        for name, line in self.FAKES.items():
            (self.folder / name).write_text(f"#!/bin/sh\n{line}\n")
            (self.folder / name).chmod(0o755)
        script = (DEPLOY / "slurm/baton.sbatch").read_text()
        grpc, port, http = free_port(), free_port(), free_port()
        (self.folder / "job").write_text(script.replace(":7070", f":{grpc}"))
        env = os.environ | {"PATH": f"{self.folder}:{os.environ['PATH']}", "SLURM_JOB_ID": "7", "SLURM_JOB_NODELIST": "node[1-1]",
                            "SLURM_SUBMIT_DIR": str(self.folder), "BATON_PORT": str(port), "BATON_HTTP": str(http)}
        job = subprocess.Popen(["bash", self.folder / "job", cluster.tiny_model(self.folder / "tiny.gguf")], env=env, text=True,
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self.addCleanup(job.stdout.close)
        self.addCleanup(job.kill)
        server = f"127.0.0.1:{grpc}"
        cluster.good(cluster.run("status", "--wait", "30s", "--server", server))
        self.assertEqual(len(cluster.run_json("run", "--server", server, "--tokens", "3", "-n", 4, "--ignore-eos")["tokens"]), 4)
        job.terminate()  # as Slurm does before a job's time is over
        self.assertEqual(job.wait(30), 0)
        self.assertFalse((self.folder / "baton-7.yaml").exists())
        self.assertNotEqual(cluster.run("status", "--server", server).returncode, 0)


if __name__ == "__main__":
    unittest.main()
