"""Models by name, from a hub and a registry of our own: ranges, redirects, cut connections, wrong bytes, offline."""
import hashlib
import http.server
import json
import threading
import time
import unittest
import urllib.error
import urllib.request

import cluster

PIECE = 16 << 10


class Hub(http.server.ThreadingHTTPServer):
    """Serves `files` (path to bytes) as a model hub does; `cut_after`: every answer of a file ends after so many bytes."""

    def __init__(self, files):
        super().__init__(("127.0.0.1", 0), Handler)
        self.files, self.cut_after, self.ranges, self.lie, self.pause_s = files, None, True, {}, 0
        self.asked, self.tokens = [], []
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def handle_error(self, *_):
        """Clients that go are none of ours."""

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_address[1]}"


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def answer(self, status, body=b"", headers=()):
        self.send_response(status)
        for name, value in headers:
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        hub, path = self.server, self.path.partition("?")[0]
        hub.asked.append((path, self.headers.get("Range")))
        hub.tokens.append((path, self.headers.get("Authorization")))
        digest = lambda data: hashlib.sha256(data).hexdigest()
        if path.startswith("/api/models/org/repo/tree/"):
            tree = [{"type": "file", "path": name, "size": 5, "lfs": {"oid": hub.lie.get(name, digest(data)), "size": len(data)}}
                    for name, data in hub.files.items()]
            return self.answer(200, json.dumps(tree).encode())
        if path == "/v2/library/tiny/manifests/latest":
            data = hub.files["model-Q4_K_M.gguf"]
            return self.answer(200, json.dumps({"layers": [
                {"mediaType": "application/vnd.ollama.image.license", "digest": "sha256:0", "size": 1},
                {"mediaType": "application/vnd.ollama.image.model", "digest": "sha256:" + digest(data), "size": len(data)},
            ]}).encode())
        if path.startswith("/org/repo/resolve/main/"):
            host = f"http://localhost:{hub.server_address[1]}"  # another name: the token stays behind
            return self.answer(302, headers=[("Location", host + "/blob/" + path.rpartition("/")[2])])
        if path.startswith("/v2/library/tiny/blobs/"):
            return self.send_file(hub.files["model-Q4_K_M.gguf"])
        if path.startswith("/blob/") and path[6:] in hub.files:
            return self.send_file(hub.files[path[6:]])
        self.answer(404)

    def send_file(self, data):
        hub, begin = self.server, 0
        end = len(data)
        if hub.ranges and (wanted := self.headers.get("Range")):
            first, _, last = wanted.removeprefix("bytes=").partition("-")
            begin = int(first)
            if begin >= len(data):
                return self.answer(416)
            end = min(end, int(last) + 1) if last else end
            self.send_response(206)
            self.send_header("Content-Range", f"bytes {begin}-{end - 1}/{len(data)}")
        else:
            self.send_response(200)
        self.send_header("Content-Length", str(end - begin))
        self.end_headers()
        rest = data[begin:end]
        if hub.cut_after is not None and len(rest) > hub.cut_after:
            self.wfile.write(rest[:hub.cut_after])
            self.close_connection = True
            return
        for at in range(0, len(rest), PIECE):
            self.wfile.write(rest[at:at + PIECE])
            time.sleep(hub.pause_s)


class Fetch(cluster.TestCase):
    def setUp(self):
        super().setUp()
        model = cluster.tiny_model(self.folder / "tiny.gguf").read_bytes()
        self.hub = Hub({"model-Q4_K_M.gguf": model, "model-Q8_0.gguf": model, "mmproj-Q8_0.gguf": b"no model"})
        self.addCleanup(self.hub.server_close)
        self.addCleanup(self.hub.shutdown)
        self.env = {"HF_ENDPOINT": self.hub.url, "OLLAMA_REGISTRY": self.hub.url, "HF_TOKEN": "secret", "HF_HUB_OFFLINE": "",
                    "XDG_CACHE_HOME": str(self.folder / "cache"), "no_proxy": "*"}

    def info(self, name, **env):
        return cluster.run("info", name, "--json", env=self.env | env)

    def files_asked(self):
        return [path for path, _ in self.hub.asked if "/resolve/" in path or "/blobs/" in path]

    def test_the_usual_type_and_its_name_in_the_cache(self):
        found = json.loads(cluster.good(self.info("hf:org/repo")).stdout)
        self.assertTrue(found["supported"], found["reason"])
        self.assertEqual(self.files_asked(), ["/org/repo/resolve/main/model-Q4_K_M.gguf"])
        cluster.good(self.info("hf:org/repo:q4_k_m", HF_HUB_OFFLINE="1"))
        cluster.good(self.info("hf:org/repo/model-Q4_K_M.gguf", HF_HUB_OFFLINE="1"))
        self.assertEqual(len(self.files_asked()), 1)
        self.assert_fails(self.info("hf:org/repo:Q8_0", HF_HUB_OFFLINE="1"), 66, "HF_HUB_OFFLINE")
        cluster.good(self.info("hf:org/repo:Q8_0"))

    def test_the_token_is_for_the_hub_alone(self):
        cluster.good(self.info("hf:org/repo:Q8_0"))
        for path, token in self.hub.tokens:
            self.assertEqual(token, None if path.startswith("/blob/") else "Bearer secret", path)

    def test_cut_connections_go_on_where_they_broke(self):
        self.hub.cut_after = len(self.hub.files["model-Q8_0.gguf"]) // 3
        cluster.good(self.info("hf:org/repo:Q8_0"))
        self.assertGreaterEqual(sum(wanted is not None for _, wanted in self.hub.asked), 2)

    def test_a_server_without_ranges_begins_again(self):
        part = self.folder / "cache/baton/models/hf/org/repo/model-Q8_0.gguf.part"
        part.parent.mkdir(parents=True)
        part.write_bytes(b"something else")
        self.hub.ranges = False
        cluster.good(self.info("hf:org/repo:Q8_0"))

    def test_wrong_bytes_do_not_get_a_name(self):
        self.hub.lie["model-Q8_0.gguf"] = "0" * 64
        self.assert_fails(self.info("hf:org/repo:Q8_0"), 65, "SHA-256")
        self.assertEqual(list((self.folder / "cache").rglob("*.gguf*")), [])

    def test_a_hash_that_leads_out_of_the_cache_is_none(self):
        self.hub.lie["model-Q8_0.gguf"] = "/../../../out/of" + "0" * 48
        self.assertNotEqual(self.info("hf:org/repo:Q8_0").returncode, 0)
        plan = self.folder / "topology.yaml"
        plan.write_text(cluster.topology_text("hf:org/repo:Q8_0", [{"name": "a", "address": "127.0.0.1:1"}]))
        self.assertNotEqual(cluster.run("plan", "-f", plan, env=self.env).returncode, 0)
        self.assertEqual(list(self.folder.rglob("*Q8_0*")), [])

    def test_split_sets_come_whole(self):
        parts = self.folder / "parts"
        cluster.good(cluster.run("split", self.folder / "tiny.gguf", "--parts", 3, "-o", parts))
        self.hub.files = {path.name: path.read_bytes() for path in parts.glob("*.gguf")}
        self.assertEqual(len(self.hub.files), 3)
        found = json.loads(cluster.good(self.info("hf:org/repo:tiny")).stdout)
        self.assertEqual(len(found["parts"]), 3)

    def split_set(self, layers):
        """A published set of four parts, and workers for these layers."""
        self.model = cluster.tiny_model(self.folder / "six.gguf", layers=6)
        cluster.good(cluster.run("split", self.model, "--parts", 4, "-o", self.folder / "parts"))
        self.hub.files = {path.name: path.read_bytes() for path in (self.folder / "parts").glob("*.gguf")}
        self.assertEqual(len(self.hub.files), 4)
        return [{"name": f"w{i}", "address": "127.0.0.1:0", "layers": text, "threads": 1} for i, text in enumerate(layers)]

    def topology(self, entries):
        file = self.folder / "topology.yaml"
        file.write_text(cluster.topology_text("hf:org/repo:six", entries))
        return file

    def start_worker(self, entry):
        """On a host that has no part; returns its models folder."""
        folder = self.folder / f"host-{entry['name']}"
        entry["address"] = self.start("worker", "--listen", "127.0.0.1:0", "--name", entry["name"], "--models", folder,
                                      "--threads", 1, env=self.env).ready().grpc
        return folder

    def parts_asked(self):
        """What was asked for to its end, each as often as it was."""
        return sorted(path[6:] for path, wanted in self.hub.asked
                      if path.startswith("/blob/") and (wanted is None or wanted.endswith("-")))

    def assert_answers(self, grpc):
        ask = ("--tokens", "3,4,5,6", "-n", 8, "--temp", 0, "--ignore-eos")
        said = cluster.run_json("run", "--server", grpc, *ask)
        self.assertEqual(said["tokens"], cluster.run_json("run", "-m", self.model, *ask)["tokens"])

    def test_each_host_fetches_the_parts_of_its_layers(self):
        entries = self.split_set(["0-2", "3-5"])
        stages = cluster.run_json("plan", "-f", self.topology(entries), env=self.env)["stages"]
        self.assertEqual(self.parts_asked(), [], "a plan needs headers only")
        folders = [self.start_worker(entry) for entry in entries]
        self.hub.cut_after = min(map(len, self.hub.files.values())) // 2
        serve = self.start("serve", "-f", self.topology(entries), env=self.env).ready()
        self.assert_answers(serve.grpc)
        workers = cluster.run_json("status", "--server", serve.grpc)["workers"]
        for folder, stage, worker in zip(folders, stages, workers):
            held = {path.name: path.read_bytes() for path in folder.iterdir()}
            self.assertLess(len(held), 4)
            self.assertLessEqual(set(held), set(stage["parts"]))
            for name, data in held.items():
                self.assertEqual(data, self.hub.files[name])
            self.assertEqual(worker["weight_bytes_received"], sum(map(len, held.values())))

        # What is there is not fetched again.
        serve.stop()
        before = len(self.parts_asked())
        self.start("serve", "-f", self.folder / "topology.yaml", env=self.env).ready()
        self.assertEqual(len(self.parts_asked()), before)

    def test_a_slow_source_is_waited_for_and_seen(self):
        entries = self.split_set(["0-5"])
        self.start_worker(entries[0])
        http_address, grpc = cluster.free_address(), cluster.free_address()
        file = self.folder / "topology.yaml"
        text = cluster.topology_text("hf:org/repo:six", entries, http=http_address, more="limits: {start: 2s, load: 2s}\n")
        file.write_text(text.replace("grpc: 127.0.0.1:0", f"grpc: {grpc}"))
        cluster.good(cluster.run("plan", "-f", file, env=self.env))  # the headers
        self.hub.pause_s = 5 * PIECE / sum(map(len, self.hub.files.values()))
        serve = self.start("serve", "-f", file, env=self.env)

        def health():
            try:
                return json.load(urllib.request.urlopen(f"http://{http_address}/health", timeout=10))["status"]
            except urllib.error.HTTPError as error:
                self.assertEqual(error.code, 503)
                return json.load(error)["status"]

        serve.wait_line(r"loading: w0 \d+%")
        self.assertEqual(health(), "loading")
        worker, = cluster.run_json("status", "--server", grpc)["workers"]
        self.assertEqual(worker["state"], "loading")
        self.assertTrue(0 < worker["load_progress"] < 1, worker)
        self.assert_fails(cluster.run("run", "--server", grpc, "--tokens", "3", "-n", 1), 69, "loading")
        self.assert_answers(serve.ready().grpc)
        self.assertEqual(health(), "ok")

    def test_a_part_of_wrong_bytes_is_not_loaded(self):
        entries = self.split_set(["0-5"])
        folder = self.start_worker(entries[0])
        self.hub.lie = {name: "0" * 64 for name in self.hub.files}
        serve = self.start("serve", "-f", self.topology(entries), env=self.env)
        self.assertEqual(serve.wait(), 65)
        self.assertIn("SHA-256", serve.words())
        self.assertEqual(list(folder.glob("*.gguf*")), [])

    def test_workers_of_one_host_share_what_they_fetch(self):
        entries = self.split_set(["0-1", "2-3", "4-5"])
        for entry in entries[:2]:
            entry["launch"] = "local"
        elsewhere = self.start_worker(entries[2])
        up = self.start("up", "-f", self.topology(entries), env=self.env).ready()
        self.assert_answers(up.grpc)
        here = list((self.folder / "cache/baton/models/hf/org/repo").glob("*.gguf"))
        self.assertEqual(len(self.parts_asked()), len(here) + len(list(elsewhere.iterdir())))

    def test_a_registry(self):
        self.hub.cut_after = 50_000
        found = json.loads(cluster.good(self.info("ollama:tiny")).stdout)
        self.assertTrue(found["supported"], found["reason"])
        cluster.good(self.info("ollama:tiny:latest", HF_HUB_OFFLINE="1"))

    def test_what_is_not_there(self):
        self.assert_fails(self.info("hf:org/repo:Q2_K"), 66, "hf:org/repo:Q2_K")
        self.assert_fails(self.info("hf:org/other"), 66, "404")
        self.assert_fails(self.info("ollama:other"), 66, "404")
        self.assert_fails(self.info("hf:repo"), 64, "ORG/REPO")
        self.assert_fails(self.info("hf:org/../repo"), 64, "ORG/REPO")


if __name__ == "__main__":
    unittest.main()
