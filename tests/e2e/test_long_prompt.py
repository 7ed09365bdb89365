"""A prompt of 32,768 tokens through two workers: no message is over the limit, whatever the prompt's length."""
import unittest

import cluster


class LongPrompt(cluster.TestCase):
    def test_32k_tokens_through_two_workers(self):
        model = cluster.tiny_model(self.folder / "tiny.gguf", layers=2, context=33000)
        ids = ",".join(str(3 + i % 7) for i in range(32768))
        with cluster.cluster(self.folder, model, context=33000, sequences=1) as c:
            answer = c.generate("--tokens", ids, "-n", 4, "--temp", 0, "--ignore-eos", timeout=300)
            self.assertEqual(len(answer["prompt_tokens"]), 32768)
            self.assertEqual(len(answer["tokens"]), 4)


if __name__ == "__main__":
    unittest.main()
