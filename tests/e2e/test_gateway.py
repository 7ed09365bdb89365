"""The HTTP side as programs and browsers meet it: headers, methods, ids, overload, and its end."""
import http.client
import json
import signal
import threading
import time
import unittest

import cluster

TEMPLATE = "{% for m in messages %}{{ m.content }}{% endfor %}"


class Gateway(cluster.TestCase):
    def setUp(self):
        super().setUp()
        model = cluster.tiny_model(self.folder / "tiny.gguf", chat_template=TEMPLATE, context=4096)
        self.cluster = cluster.Cluster(self.folder, model, context=4096, sequences=1, http="127.0.0.1:0", more="limits: {queue: 1}\n")
        self.addCleanup(self.cluster.stop)

    def connect(self):
        connection = http.client.HTTPConnection(*self.cluster.coordinator.http.rsplit(":", 1), timeout=60)
        self.addCleanup(connection.close)
        return connection

    def ask(self, method, path, body=None, connection=None, **headers):
        """Status, headers and body."""
        connection = connection or self.connect()
        connection.request(method, path, json.dumps(body) if body is not None else None,
                           {name.replace("_", "-"): value for name, value in headers.items()})
        answer = connection.getresponse()
        text = answer.read()
        return answer.status, answer.headers, json.loads(text) if text.startswith(b"{") else text

    def begin(self, tokens):
        """A stream whose first event has come."""
        connection = self.connect()
        connection.request("POST", "/v1/completions", json.dumps(
            {"prompt": [3, 4], "max_tokens": tokens, "ignore_eos": True, "stream": True, "logprobs": 1}))
        answer = connection.getresponse()
        self.assertEqual((answer.status, answer.headers["Content-Type"]), (200, "text/event-stream"))
        self.assertTrue(answer.readline().startswith(b"data: {"))
        return connection, answer

    def test_browsers_of_other_pages_may_ask(self):
        status, headers, _ = self.ask("OPTIONS", "/v1/chat/completions", Origin="http://elsewhere",
                                      Access_Control_Request_Headers="authorization,content-type,x-stainless-os")
        self.assertEqual((status, headers["Access-Control-Allow-Origin"]), (204, "*"))
        self.assertEqual(headers["Access-Control-Allow-Headers"], "Authorization, *")
        self.assertIn("POST", headers["Access-Control-Allow-Methods"])
        for path in ("/v1/models", "/v1/none"):
            _, headers, _ = self.ask("GET", path, Origin="http://elsewhere")
            self.assertEqual(headers["Access-Control-Allow-Origin"], "*")
            self.assertIn("X-Request-Id", headers["Access-Control-Expose-Headers"])

    def test_one_connection_carries_many_requests_with_ids(self):
        connection = self.connect()
        connection.connect()
        socket = connection.sock
        ids = set()
        for _ in range(3):
            status, headers, _ = self.ask("GET", "/health", connection=connection)
            self.assertEqual(status, 200)
            ids.add(headers["X-Request-Id"])
        self.assertIs(connection.sock, socket)
        self.assertEqual(len(ids), 3)
        _, headers, answer = self.ask("POST", "/v1/completions", {"prompt": "ab", "max_tokens": 2}, X_Request_Id="my-own.id_7")
        self.assertEqual((headers["X-Request-Id"], answer["id"]), ("my-own.id_7", "cmpl-my-own.id_7"))
        status, _, trace = self.ask("GET", "/api/trace?request=my-own.id_7")
        self.assertEqual((status, "traceEvents" in trace), (200, True))
        _, headers, _ = self.ask("GET", "/health", X_Request_Id="a b{c}")
        self.assertNotEqual(headers["X-Request-Id"], "a b{c}")

    def test_what_is_not_there(self):
        status, _, body = self.ask("POST", "/v1/embeddings", {"input": "hi", "model": "tiny"})
        self.assertEqual((status, body["error"]["param"]), (400, "model"))
        self.assertIn("pooling", body["error"]["message"])
        for method, path, wanted in (("GET", "/v1/none", 404), ("DELETE", "/v1/models", 405), ("GET", "/v1/completions", 405),
                                     ("GET", "/api/trace?request=nobody", 404)):
            status, _, body = self.ask(method, path)
            self.assertEqual((status, set(body["error"])), (wanted, {"message", "type", "param", "code"}), path)
        _, headers, _ = self.ask("GET", "/v1/completions")
        self.assertEqual(headers["Allow"], "POST")
        status, headers, body = self.ask("HEAD", "/health")
        self.assertEqual((status, body), (200, b""))
        self.assertGreater(int(headers["Content-Length"]), 0)

    def test_tokens_and_back(self):
        _, _, tokens = self.ask("POST", "/tokenize", {"content": "hi"})
        _, _, text = self.ask("POST", "/detokenize", tokens)
        self.assertTrue(text["content"].endswith("hi"))
        for path, body in (("/tokenize", {"content": 3}), ("/detokenize", {"tokens": [-1]}), ("/detokenize", {"tokens": [10**9]})):
            status, _, answer = self.ask("POST", path, body)
            self.assertEqual(status, 400, answer)

    def test_a_full_queue_says_when_to_come_again(self):
        connection, running = self.begin(4000)
        waiting = threading.Thread(target=self.ask, args=("POST", "/v1/completions", {"prompt": [3], "max_tokens": 1}))
        waiting.start()
        end = time.monotonic() + 20
        while self.cluster.status()["sequences"]["waiting"] == 0 and time.monotonic() < end:
            time.sleep(0.01)
        status, headers, body = self.ask("POST", "/v1/completions", {"prompt": [3], "max_tokens": 1})
        self.assertEqual((status, headers["Retry-After"], body["error"]["type"]), (429, "1", "rate_limit_error"))
        self.assert_fails(cluster.run("run", "--server", self.cluster.grpc, "--tokens", "3", "-n", 1), 75, "queue", "try again later")
        running.close(), connection.close()  # gives its place up
        waiting.join(60)
        self.assertFalse(waiting.is_alive())

    def test_health_says_why_not(self):
        for worker in self.cluster.workers:
            worker.kill()
        end = time.monotonic() + 30
        while (found := self.ask("GET", "/health"))[0] == 200:
            self.assertLess(time.monotonic(), end)
            time.sleep(0.05)
        self.assertEqual(found[0], 503)
        self.assertIn(found[2]["status"], ("recovering", "failed"))

    def test_running_answers_end_before_it_does(self):
        _, answer = self.begin(200)
        self.cluster.coordinator.process.send_signal(signal.SIGTERM)
        rest = answer.read()
        self.assertIn(b'"finish_reason":"length"', rest)
        self.assertTrue(rest.endswith(b"data: [DONE]\n\n"))
        self.assertEqual(self.cluster.coordinator.wait(), 0)


if __name__ == "__main__":
    unittest.main()
