"""One answer: the same bits whatever the stages, threads and chunks are, in one process and over a cluster."""
import unittest

import cluster


class OneAnswer(cluster.TestCase):
    TOKENS = ",".join(str(3 + i * 7 % 250) for i in range(70))

    def logits(self, model, *flags):
        out = self.folder / "out.npy"
        cluster.good(cluster.run("logits", "-m", model, "--tokens", self.TOKENS, *flags, "-o", out))
        return cluster.read_npy(out)

    def test_logits_do_not_depend_on_stages_threads_and_chunks(self):
        model = cluster.tiny_model(self.folder / "tiny.gguf")
        shape, first = self.logits(model, "-t", 1)
        self.assertEqual(shape[0], 70)
        for flags in (("--stages", 2), ("--stages", 3, "--chunk", 7), ("--stages", 5, "-t", 2, "--chunk", 32),
                      ("-t", 2, "--chunk", 1), ("--split", "0-0,1-4")):
            with self.subTest(flags=flags):
                self.assertEqual(self.logits(model, *flags), (shape, first))
        last = self.logits(model, "--last", 3)
        self.assertEqual(last, ((3, shape[1]), first[-3 * shape[1] * 4:]))

    def test_a_cluster_answers_as_one_process(self):
        model = cluster.tiny_model(self.folder / "tiny.gguf")
        ask = ("--tokens", self.TOKENS, "-n", 24, "--temp", 0, "--ignore-eos")
        alone = cluster.run_json("run", "-m", model, *ask)
        self.assertEqual(len(alone["tokens"]), 24)
        self.assertEqual(alone["finish_reason"], "length")
        for workers, layers in ((1, None), (2, None), (3, ["0-0", "1-3", "4-4"])):
            with self.subTest(workers=workers), \
                    cluster.cluster(self.folder, model, num_workers=workers, layers=layers) as c:
                answer = c.generate(*ask)
                self.assertEqual(answer["tokens"], alone["tokens"])
                self.assertEqual(answer["text"], alone["text"])
                ranges = [(s["layers"]["begin"], s["layers"]["end"]) for s in answer["stages"]]
                self.assertEqual(len(ranges), workers)
                self.assertEqual([b for b, _ in ranges], [0] + [e for _, e in ranges[:-1]])
                self.assertEqual(ranges[-1][1], 5)

    def test_a_cluster_scores_as_one_process(self):
        model = cluster.tiny_model(self.folder / "tiny.gguf")
        text = self.folder / "text"
        text.write_text("to be or not to be, that is the question. " * 20)
        shape, rows = self.logits(model)
        alone = cluster.run_json("perplexity", "-m", model, "--text", text, "-c", 64)
        self.assertGreater(alone["chunks"], 2)
        with cluster.cluster(self.folder, model, num_workers=2) as c:
            out = self.folder / "remote.npy"
            ask = ("logits", "--server", c.grpc, "--tokens", self.TOKENS)
            cluster.good(cluster.run(*ask, "-o", out))
            self.assertEqual(cluster.read_npy(out), (shape, rows))
            cluster.good(cluster.run(*ask, "--last", 3, "-o", out))
            self.assertEqual(cluster.read_npy(out), ((3, shape[1]), rows[-3 * shape[1] * 4:]))
            self.assertEqual(cluster.run_json("perplexity", "--server", c.grpc, "--text", text, "-c", 64), alone)
            too_long = cluster.run("perplexity", "--server", c.grpc, "--text", text, "-c", 600)
            self.assertEqual(too_long.returncode, 65)
            self.assertIn("context holds 512", too_long.stderr)

    def test_a_seed_draws_the_same_tokens_everywhere(self):
        model = cluster.tiny_model(self.folder / "tiny.gguf")
        # Random weights leave one token nearly certain; a high temperature makes draws of it.
        ask = ("-p", "abc", "--raw", "-n", 16, "--ignore-eos", "--temp", 20, "--top-k", 0, "--top-p", 1, "--min-p", 0, "--seed")
        one = cluster.run_json("run", "-m", model, *ask, 7)["tokens"]
        self.assertEqual(one, cluster.run_json("run", "-m", model, "--stages", 3, *ask, 7)["tokens"])
        self.assertNotEqual(one, cluster.run_json("run", "-m", model, *ask, 8)["tokens"])


if __name__ == "__main__":
    unittest.main()
