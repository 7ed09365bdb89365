"""OpenAI's own Python package against two workers: chat, completion, streaming, schemas, tools, logprobs, errors.

Skipped where the package is not there (pip install openai).
"""
import json
import unittest

import cluster

try:
    import openai
except ImportError:
    openai = None

TEMPLATE = ("{% for m in messages %}<{{ m.role }}>{{ m.content }}{% for c in m.tool_calls %}"
            "{{ c.function.name }}({{ c.function.arguments.x }}){% endfor %}{% endfor %}"
            "{% if tools %}{{ tools | tojson }}{% endif %}<assistant>")
SAY = [{"role": "user", "content": "hi"}]
SCHEMA = {"type": "object", "properties": {"ok": {"type": "boolean"}, "kind": {"enum": ["a", "b"]}},
          "required": ["ok", "kind"], "additionalProperties": False}
TOOLS = [{"type": "function", "function": {
    "name": name, "description": "d", "parameters": {"type": "object", "properties": {"x": {"type": "boolean"}},
                                                     "required": ["x"]}}} for name in ("f", "g")]
NO_BLANKS = {str(token): -100 for token in (12, 13, 16, 35)}  # a random model's answers are mostly those


@unittest.skipIf(openai is None, "the openai package is not installed")
class OpenAi(cluster.TestCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        folder = cluster.tempfile.TemporaryDirectory(prefix="baton-e2e-")
        cls.addClassCleanup(folder.cleanup)
        model = cluster.tiny_model(cluster.pathlib.Path(folder.name) / "tiny.gguf", chat_template=TEMPLATE, context=2048)
        cls.cluster = cluster.Cluster(folder.name, model, context=2048, http="127.0.0.1:0")
        cls.addClassCleanup(cls.cluster.stop)
        cls.client = openai.OpenAI(base_url=f"http://{cls.cluster.coordinator.http}/v1", api_key="none", max_retries=0,
                                   timeout=60)
        cls.model = cls.client.models.list().data[0].id

    def chat(self, **more):
        return self.client.chat.completions.create(
            **{"model": self.model, "messages": SAY, "max_tokens": 100, "seed": 1, "logit_bias": NO_BLANKS} | more)

    def test_streams_what_it_says_whole(self):
        whole = self.chat(max_tokens=20)
        chunks = list(self.chat(max_tokens=20, stream=True, stream_options={"include_usage": True}))
        text = "".join(c.choices[0].delta.content or "" for c in chunks if c.choices)
        self.assertEqual(text, whole.choices[0].message.content)
        self.assertEqual(chunks[-1].usage, whole.usage)
        self.assertEqual(len({c.id for c in chunks}), 1)

    def test_choices_and_logprobs(self):
        answer = self.chat(n=2, max_tokens=5, logprobs=True, top_logprobs=3, extra_body={"ignore_eos": True})
        self.assertEqual([c.index for c in answer.choices], [0, 1])
        for choice in answer.choices:
            self.assertEqual(len(choice.logprobs.content), 5)
            for token in choice.logprobs.content:
                self.assertEqual(len(token.top_logprobs), 3)
                self.assertLessEqual(token.logprob, token.top_logprobs[0].logprob)
        completion = self.client.completions.create(model=self.model, prompt="ab", max_tokens=4, logprobs=2, echo=True)
        self.assertTrue(completion.choices[0].text.startswith("ab"))

    def test_answers_in_json(self):
        bound = {"type": "json_schema", "json_schema": {"name": "s", "schema": SCHEMA, "strict": True}}
        for seed in range(4):
            value = json.loads(self.chat(response_format=bound, seed=seed).choices[0].message.content)
            self.assertIsInstance(value["ok"], bool)
            self.assertIn(value["kind"], ("a", "b"))
            self.assertEqual(set(value), {"ok", "kind"})
        chunks = self.chat(response_format=bound, stream=True)
        json.loads("".join(c.choices[0].delta.content or "" for c in chunks))
        self.assertTrue(self.chat(response_format={"type": "json_object"}).choices[0].message.content.lstrip().startswith("{"))

    def test_tools(self):
        whole = self.chat(tools=TOOLS, tool_choice="required").choices[0]
        self.assertEqual(whole.finish_reason, "tool_calls")
        self.assertIsNone(whole.message.content)
        call = whole.message.tool_calls[0]
        self.assertIn(call.function.name, ("f", "g"))
        self.assertIsInstance(json.loads(call.function.arguments)["x"], bool)

        pieces, finish = [], None
        for chunk in self.chat(tools=TOOLS, tool_choice={"type": "function", "function": {"name": "g"}}, stream=True):
            choice = chunk.choices[0]
            pieces += choice.delta.tool_calls or []
            finish = choice.finish_reason or finish
        self.assertEqual(finish, "tool_calls")
        self.assertEqual({piece.index for piece in pieces}, {0})
        self.assertEqual([bool(piece.id) for piece in pieces], [True] + [False] * (len(pieces) - 1))
        self.assertEqual([piece.function.name for piece in pieces], ["g"] + [None] * (len(pieces) - 1))
        self.assertGreater(len(pieces), 2, "arguments come as they are written")
        self.assertIsInstance(json.loads("".join(piece.function.arguments for piece in pieces))["x"], bool)

        # The call and its result go back in; the model is free to call again or not.
        history = SAY + [whole.message.model_dump(exclude_none=True),
                         {"role": "tool", "tool_call_id": call.id, "content": "done"}]
        self.assertTrue(self.chat(messages=history, tools=TOOLS, max_tokens=4).choices)
        self.assertIsNone(self.chat(tools=TOOLS, tool_choice="none", max_tokens=4).choices[0].message.tool_calls)

    def test_errors(self):
        cases = (
            ("temperature", {"temperature": "hot"}),
            ("max_tokens", {"max_tokens": -5}),
            ("tool_choice", {"tool_choice": "required"}),
            ("response_format.json_schema",
             {"response_format": {"type": "json_schema", "json_schema": {"name": "s", "schema": {"pattern": "a"}}}}),
            ("template_args", {"extra_body": {"chat_template_kwargs": {"eos_token": "x"}}}),
        )
        for parameter, more in cases:
            with self.assertRaises(openai.BadRequestError, msg=parameter) as caught:
                self.chat(**more)
            self.assertEqual(caught.exception.param, parameter)
        with self.assertRaises(openai.NotFoundError):
            self.chat(model="no-such-model")


if __name__ == "__main__":
    unittest.main()
