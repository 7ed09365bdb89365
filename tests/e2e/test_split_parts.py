"""Split sets: each worker's folder holds the parts of its own layers and no others."""
import shutil
import unittest

import cluster


class SplitParts(cluster.TestCase):
    ASK = ("--tokens", "3,4,5,6", "-n", 12, "--temp", 0, "--ignore-eos")

    def test_workers_need_their_own_parts_only(self):
        model = cluster.tiny_model(self.folder / "tiny.gguf", layers=6)
        parts_dir = self.folder / "parts"
        cluster.good(cluster.run("split", model, "--parts", 4, "-o", parts_dir))
        parts = sorted(parts_dir.glob("*.gguf"))
        self.assertEqual(len(parts), 4)

        layers = ["0-2", "3-5"]
        topology = self.folder / "plan.yaml"
        topology.write_text(cluster.topology_text(parts[0], [
            {"name": f"w{i}", "address": f"127.0.0.1:{i + 1}", "layers": text} for i, text in enumerate(layers)]))
        needed = [set(stage["parts"]) for stage in cluster.run_json("plan", "-f", topology)["stages"]]
        folders = []
        for i, names in enumerate(needed):
            self.assertLess(len(names), 4, "no worker needs all parts")
            folder = self.folder / f"worker{i}"
            folder.mkdir()
            for name in names:
                shutil.copy(parts_dir / name.rsplit("/", 1)[-1], folder)
            folders.append(folder)

        alone = cluster.run_json("run", "-m", model, *self.ASK)["tokens"]
        self.assertEqual(alone, cluster.run_json("run", "-m", parts[0], *self.ASK)["tokens"])
        with cluster.cluster(self.folder, parts[0], layers=layers, models=folders) as c:
            self.assertEqual(c.generate(*self.ASK)["tokens"], alone)

    def test_a_coordinator_without_a_file_takes_the_headers_from_workers(self):
        model = cluster.tiny_model(self.folder / "tiny.gguf", layers=6)
        alone = cluster.run_json("run", "-m", model, *self.ASK)["tokens"]
        layers = ["0-1", "2-5"]
        topology = self.folder / "plan.yaml"
        topology.write_text(cluster.topology_text(model, [
            {"name": f"w{i}", "address": f"127.0.0.1:{i + 1}", "layers": text} for i, text in enumerate(layers)]))
        parts_dir = self.folder / "parts"
        cluster.good(cluster.run("split", model, "-f", topology, "-o", parts_dir))
        topology.write_text(topology.read_text().replace(str(model), str(sorted(parts_dir.glob("*.gguf"))[0])))
        folders = []
        for i, stage in enumerate(cluster.run_json("plan", "-f", topology)["stages"]):
            folders.append(self.folder / f"host{i}")
            folders[-1].mkdir()
            for name in stage["parts"]:
                shutil.copy(parts_dir / name, folders[-1])
        first = sorted(parts_dir.glob("*.gguf"))[0].name
        shutil.rmtree(parts_dir)
        # No ranges are given: they follow from where the parts are.
        for _ in range(2):
            with cluster.cluster(self.folder, self.folder / "nowhere" / first, models=folders, num_workers=2) as c:
                self.assertEqual(c.generate(*self.ASK)["tokens"], alone)
                workers = c.status()["workers"]
                self.assertEqual([w["layers"] for w in workers], [{"begin": 0, "end": 2}, {"begin": 2, "end": 6}])
                self.assertEqual([w["weight_bytes_received"] for w in workers], [0, 0])

    def test_merging_gives_the_same_model(self):
        model = cluster.tiny_model(self.folder / "tiny.gguf")
        cluster.good(cluster.run("split", model, "--parts", 3, "-o", self.folder / "parts"))
        first = sorted((self.folder / "parts").glob("*.gguf"))[0]
        merged = self.folder / "merged.gguf"
        cluster.good(cluster.run("merge", first, "-o", merged))
        tensors = lambda path: {t["name"]: (t["shape"], t["type"]) for t in cluster.run_json("info", path)["tensors"]}
        self.assertEqual(tensors(model), tensors(merged))


if __name__ == "__main__":
    unittest.main()
