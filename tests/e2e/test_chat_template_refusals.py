"""What a model's chat template refuses, or a model without a usable one, is the caller's error: 400 with the
template's own words, nothing generated, and the next request works."""
import json
import unittest
import urllib.error
import urllib.request

import cluster

STRICT = ("{% if messages[0].role == 'system' %}{{ raise_exception('System role not supported') }}{% endif %}"
          "{% for m in messages %}{% if (m.role == 'user') != (loop.index0 % 2 == 0) %}"
          "{{ raise_exception('Conversation roles must alternate user/assistant') }}{% endif %}{{ m.content }}{% endfor %}")
USER = {"role": "user", "content": "{{ 7*7 }}"}
SYSTEM = {"role": "system", "content": "be brief"}


def post(http, path, body):
    """Status and JSON of the answer."""
    request = urllib.request.Request(f"http://{http}{path}", json.dumps(body).encode(), {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


def chat(http, *messages):
    return post(http, "/v1/chat/completions", {"messages": messages, "max_tokens": 4, "temperature": 0})


class ChatTemplateRefusals(cluster.TestCase):
    def served(self, **options):
        """The HTTP address of a cluster with such a tiny model."""
        model = cluster.tiny_model(self.folder / "tiny.gguf", **options)
        return self.enterContext(cluster.cluster(self.folder, model, num_workers=1, http="127.0.0.1:0")).coordinator.http

    def test_the_templates_own_message(self):
        http = self.served(chat_template=STRICT)
        before = chat(http, USER)
        self.assertEqual(before[0], 200)
        for messages, says in (((SYSTEM, USER), "System role not supported"),
                               ((USER, USER), "Conversation roles must alternate user/assistant")):
            status, body = chat(http, *messages)
            self.assertEqual((status, body["error"]["type"]), (400, "invalid_request_error"))
            self.assertIn(says, body["error"]["message"])
        after = chat(http, USER)
        self.assertEqual(after[1]["choices"], before[1]["choices"])  # alone and in a row alike

    def test_no_template(self):
        http = self.served()
        status, body = chat(http, USER)
        self.assertEqual(status, 400)
        self.assertIn("no chat template", body["error"]["message"])
        status, body = post(http, "/v1/completions", {"prompt": "a", "max_tokens": 1})
        self.assertEqual((status, body["usage"]["completion_tokens"]), (200, 1))

    def test_nothing_to_say(self):
        http = self.served(chat_template=STRICT, bos="false")
        for path, body in (("/v1/chat/completions", {"messages": []}), ("/v1/chat/completions", {}),
                           ("/v1/completions", {"prompt": ""}), ("/v1/completions", {"prompt": []}), ("/v1/completions", {})):
            self.assertEqual(post(http, path, body)[0], 400, (path, body))
        status, body = post(http, "/v1/completions", {"prompt": "a", "max_tokens": 0})
        self.assertEqual((status, body["choices"][0]["finish_reason"], body["usage"]["completion_tokens"]), (200, "length", 0))
        for limit in (-1, -2, "four"):
            self.assertEqual(post(http, "/v1/completions", {"prompt": "a", "max_tokens": limit})[0], 400, limit)


if __name__ == "__main__":
    unittest.main()
