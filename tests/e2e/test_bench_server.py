"""A load on a running cluster, and a plan that knows the workers' speeds afterwards."""
import unittest

import cluster


class BenchServer(cluster.TestCase):
    def test_measures_what_clients_see(self):
        model = cluster.tiny_model(self.folder / "tiny.gguf")
        with cluster.cluster(self.folder, model) as c:
            load = ("bench", "--server", c.grpc, "--requests", 12, "--output", "3", "--prompt")
            picture = self.folder / "times.svg"
            report = cluster.run_json(*load, "4-20", "--clients", 3, "--shared-prefix", 4, "--plot", picture)
            self.assertEqual((report["completed"], report["failed"], report["output_tokens"]), (12, 0, 36))
            for kind in ("ttft_ms", "tbt_ms", "latency_ms"):
                self.assertLessEqual(report[kind]["p50"], report[kind]["p99"])
            self.assertGreater(report["ttft_ms"]["p50"], 0)
            self.assertEqual([s["worker"] for s in report["stages"]], ["w0", "w1"])
            for stage in report["stages"]:
                self.assertGreater(stage["steps"], 0)
                self.assertAlmostEqual(stage["busy_share"] + stage["bubble_share"], 1)
            self.assertIn("</svg>", picture.read_text())
            self.assertEqual(cluster.run_json(*load, "exp:8", "--rate", 200)["completed"], 12)
            self.assert_fails(cluster.run(*load, "400-600", "--json"), 64, "the context holds 512")
        self.assert_fails(cluster.run("bench", "--server", "127.0.0.1:1", "--json"), 69, "nobody listens")
        self.assert_fails(cluster.run("bench", "--json"), 64)

    def test_a_plan_uses_the_speeds_that_a_start_has_measured(self):
        model = cluster.tiny_model(self.folder / "tiny.gguf", seed=77)
        file = self.folder / "topology.yaml"
        with cluster.cluster(self.folder, model):
            pass
        plan = cluster.run_json("plan", "-f", file)
        self.assertGreater(plan["predicted"]["tokens_per_s"], 0)
        self.assertGreater(plan["predicted"]["prompt_tokens_per_s"], 0)
        alone = cluster.run_json("plan", "-f", file, "--without", "w1", "--context", 64, "--sequences", 1)
        self.assertEqual([s["layers"] for s in alone["stages"]], [{"begin": 0, "end": 5}])
        self.assertLess(alone["stages"][0]["kv_bytes"], plan["stages"][0]["kv_bytes"])
        self.assert_fails(cluster.run("plan", "-f", file, "--without", "w7"), 64, "w7")


if __name__ == "__main__":
    unittest.main()
