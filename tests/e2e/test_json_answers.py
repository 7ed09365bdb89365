"""Answers bound to a JSON schema: valid, and the same ones however the work is done."""
import concurrent.futures
import json
import os
import unittest

import cluster

SCHEMA = {
    "type": "object",
    "properties": {
        "ok": {"type": "boolean"},
        "kind": {"enum": ["stone", "paper", "scissors"]},
        "names": {"type": "array", "items": {"type": "string", "maxLength": 6}, "minItems": 2, "maxItems": 3},
        "more": {"anyOf": [{"type": "null"}, {"$ref": "#/$defs/pair"}]},
    },
    "required": ["ok", "kind", "names", "more"],
    "$defs": {"pair": {"type": "object", "properties": {"a": {"type": "boolean"}}, "required": ["a"]}},
}


def fits(text):
    value = json.loads(text)
    return (isinstance(value["ok"], bool) and value["kind"] in SCHEMA["properties"]["kind"]["enum"]
            and 2 <= len(value["names"]) <= 3 and all(len(n) <= 6 for n in value["names"])
            and (value["more"] is None or isinstance(value["more"]["a"], bool)))


class JsonAnswers(cluster.TestCase):
    def setUp(self):
        super().setUp()
        self.model = cluster.tiny_model(self.folder / "tiny.gguf")

    def ask(self, *where, seed=1):
        # The model is random: without a bias against white space most of its answer would be that.
        blanks = [word for id in (12, 13, 16, 35) for word in ("--logit-bias", f"{id}=-100")]
        return cluster.run_json("run", *where, "--tokens", "3,4,5,6", "-n", 200, "--temp", 1, "--seed", seed, *blanks,
                                "--json-schema", json.dumps(SCHEMA))

    def test_the_same_answer_from_any_number_of_stages(self):
        for seed in (1, 2):
            alone = self.ask("-m", self.model, seed=seed)
            self.assertEqual(alone["finish_reason"], "stop", alone["text"])
            self.assertTrue(fits(alone["text"]), alone["text"])
            for stages in (2, 5):
                self.assertEqual(self.ask("-m", self.model, "--stages", stages, seed=seed)["tokens"], alone["tokens"])

    def test_side_by_side_and_over_the_death_of_a_worker(self):
        file = self.folder / "topology.yaml"
        workers = [{"name": name, "address": "127.0.0.1:0", "threads": 1, "launch": "local"} for name in ("left", "right")]
        file.write_text(cluster.topology_text(self.model, workers))
        up = self.start("up", "-f", file).ready()
        seeds = (1, 2, 3, 4)
        alone = [self.ask("-m", self.model, seed=seed)["tokens"] for seed in seeds]
        ask = lambda seed: self.ask("--server", up.grpc, seed=seed)["tokens"]
        with concurrent.futures.ThreadPoolExecutor(len(seeds)) as pool:
            self.assertEqual(list(pool.map(ask, seeds)), alone)
            pids = [worker["pid"] for worker in cluster.run_json("status", "--server", up.grpc)["workers"]]
            again = pool.map(ask, seeds)
            os.kill(pids[1], 9)
            self.assertEqual(list(again), alone)

    def test_a_schema_that_is_not_understood(self):
        done = cluster.run("run", "-m", self.model, "-p", "x", "--raw", "--json-schema", '{"type": "string", "pattern": "a"}')
        self.assert_fails(done, 65, "grammar_json_schema", "pattern")
        done = cluster.run("run", "-m", self.model, "-p", "x", "--raw", "--json-schema", "@/no/such/file")
        self.assert_fails(done, 66, "--json-schema")


if __name__ == "__main__":
    unittest.main()
