"""Conversations by name: no turn is computed twice, also after a restart; where blocks are lost, the bits are the same."""
import os
import pathlib
import random
import unittest

import cluster

LAYERS = ["0-2", "3-5"]


class Sessions(cluster.TestCase):
    def setUp(self):
        super().setUp()
        self.model = cluster.tiny_model(self.folder / "tiny.gguf", layers=6)
        self.state = self.folder / "state"
        os.environ["XDG_STATE_HOME"] = str(self.state)
        self.addCleanup(os.environ.__setitem__, "XDG_STATE_HOME", cluster.STATE.name)
        draw = random.Random(5)
        self.turns = [[draw.randrange(3, 200) for _ in range(length)] for length in (70, 40, 50, 30)]

    def ids(self, tokens):
        return ("--tokens", ",".join(map(str, tokens)), "-n", 20, "--temp", 0, "--ignore-eos")

    def alone(self, said):
        return cluster.run_json("run", "-m", self.model, "--context", 512, *self.ids(said))["tokens"]

    def turn(self, c, name, said, tokens):
        """One turn, compared with a run alone of all that was said. Returns that, and how many tokens needed no work."""
        answer = c.generate(*self.ids(tokens), "--session", name)
        said = said + tokens
        self.assertEqual(answer["prompt_tokens"], said)
        self.assertEqual(answer["tokens"], self.alone(said))
        return said + answer["tokens"], answer["timings"]["cached_tokens"]

    def session(self, c, *args):
        return cluster.run_json("session", *args, "--server", c.grpc)["sessions"]

    def cluster(self, layers=LAYERS):
        return cluster.cluster(self.folder, self.model, layers=layers, more="measure: false\n")

    def test_keep_fork_save_and_restore(self):
        with self.cluster() as c:
            said, cached = self.turn(c, "one", [], self.turns[0])
            self.assertEqual(cached, 0)
            said, cached = self.turn(c, "one", said, self.turns[1])
            self.assertEqual(cached, 64, "full blocks of what was said")
            self.session(c, "fork", "one", "two")
            other, cached = self.turn(c, "two", said, self.turns[3])
            self.assertEqual(cached, 128)
            saved = self.session(c, "save", "one")[0]
            self.assertEqual((saved["tokens"], saved["saved_tokens"], saved["blocks_tokens"]), (150, 150, 128))
            ahead, _ = self.turn(c, "one", said, self.turns[2])
            self.assertEqual([(s["name"], s["tokens"]) for s in self.session(c, "list")],
                             [("one", len(ahead)), ("two", len(other))])
        self.assertEqual(len(list(self.files())), 2, "one of each worker")

        with self.cluster() as c:
            self.assertEqual([s["name"] for s in self.session(c, "list")], ["one"])
            restored = self.session(c, "restore", "one")[0]
            self.assertEqual((restored["blocks_tokens"], restored["note"]), (128, ""))
            _, cached = self.turn(c, "one", said, self.turns[2])
            self.assertEqual(cached, 128)
            self.session(c, "rm", "one")
            self.assertEqual(self.session(c, "list"), [])
        self.assertEqual(list(self.files()), [])

    def test_what_cannot_be_restored_is_computed_anew(self):
        with self.cluster() as c:
            said, _ = self.turn(c, "one", [], self.turns[0])
            self.session(c, "save", "one")
        with self.cluster(layers=["0-3", "4-5"]) as c:
            restored = self.session(c, "restore", "one")[0]
            self.assertEqual(restored["blocks_tokens"], 0)
            self.assertIn("there is no such file", restored["note"])
            _, cached = self.turn(c, "one", said, self.turns[1])
            self.assertEqual(cached, 0)
        damaged = sorted(self.files())[1]
        content = bytearray(damaged.read_bytes())
        content[len(content) // 2] ^= 1
        damaged.write_bytes(content)
        with self.cluster() as c:
            restored = self.session(c, "restore", "one")[0]
            self.assertEqual(restored["blocks_tokens"], 0)
            self.assertIn("do not have its hash", restored["note"])
            _, cached = self.turn(c, "one", said, self.turns[1])
            self.assertEqual(cached, 0)

    def test_a_chat_goes_on_with_its_messages(self):
        template = "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}"
        model = cluster.tiny_model(self.folder / "chat.gguf", chat_template=template)
        with cluster.cluster(self.folder, model, context=1024, more="measure: false\n") as c:
            ask = ("-n", 12, "--temp", 0, "--ignore-eos", "--session", "talk")
            first = c.generate("-p", "a fox", *ask)
            second = c.generate("-p", "a crow", *ask)
            said = bytes.fromhex(cluster.run_json("detokenize", "-m", model, ",".join(map(str, second["prompt_tokens"])))["hex"])
            self.assertEqual(len(first["tokens"]), 12)
            said = said.decode(errors="replace").replace("\u2581", " ")  # the tiny vocabulary's spaces
            self.assertIn("user: a fox\nassistant: ", said)
            self.assertTrue(said.endswith("\nuser: a crow\n"), said)

    def test_errors(self):
        with self.cluster() as c:
            at = ("--server", c.grpc)
            self.assert_fails(cluster.run("session", "save", "none", *at), 66, "there is none of that name")
            self.assert_fails(cluster.run("run", *self.ids([5]), "--session", "../x", *at), 65, "session", "expected")
            self.assert_fails(cluster.run("session", "forget", *at), 64, "expected list, fork, save, restore or rm")
            self.turn(c, "one", [], [5, 6])
            self.assert_fails(cluster.run("session", "restore", "one", *at), 65, "never saved")
            self.assert_fails(cluster.run("session", "fork", "one", "one", *at), 1, "there is one of that name")

    def files(self):
        return pathlib.Path(self.state / "baton/kv").glob("*")


if __name__ == "__main__":
    unittest.main()
