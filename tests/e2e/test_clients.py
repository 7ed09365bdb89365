"""The clients: the C++ example, and the Python file, sync and async (skipped where grpcio-tools is not there)."""
import asyncio
import json
import os
import pathlib
import signal
import subprocess
import sys
import unittest

import cluster

CLIENTS = pathlib.Path(__file__).resolve().parents[2] / "clients"
try:
    import grpc
    import grpc_tools  # noqa: F401 (the client makes its stubs with it)
except ImportError:
    grpc = None


class CppExample(cluster.TestCase):
    @unittest.skipUnless("BATON_CLIENT_STREAM" in os.environ, "the example is not built")
    def test_says_what_run_says(self):
        made = cluster.Cluster(self.folder, cluster.tiny_model(self.folder / "tiny.gguf"))
        self.addCleanup(made.stop)
        said = subprocess.run([os.environ["BATON_CLIENT_STREAM"], made.grpc, "ab"], capture_output=True, timeout=60)
        self.assertEqual(said.returncode, 0, said.stderr)
        expected = made.generate("-p", "ab", "--raw", "-n", 64, "--temp", 0)["text"]
        self.assertEqual(said.stdout.decode(), expected + "\n")


@unittest.skipIf(grpc is None, "grpcio and grpcio-tools are not installed")
class Clients(cluster.TestCase):
    def setUp(self):
        super().setUp()
        sys.path.insert(0, str(CLIENTS))
        self.addCleanup(sys.path.remove, str(CLIENTS))
        template = "{% for m in messages %}{{ m.content }}{% endfor %}"
        made = cluster.Cluster(self.folder, cluster.tiny_model(self.folder / "tiny.gguf", chat_template=template))
        self.addCleanup(made.stop)
        self.cluster = made

    def test_sync_and_async_say_the_same(self):
        import baton_client
        options = {"max_tokens": 12, "temperature": 1, "seed": 3, "ignore_eos": True}
        with baton_client.Client(self.cluster.grpc) as client:
            chat = client.chat("hi", **options)
            text = chat.text()
            self.assertEqual(chat.last.timings.decode_tokens, 11)
            tokens = client.tokenize("hi")
            self.assertTrue(client.detokenize(tokens).endswith("hi"))
            whole = client.generate(tokens, **options).text()
            bound = client.generate("x", json_schema={"enum": ["yes", "no"]}, max_tokens=60).text()
            self.assertIn(json.loads(bound), ("yes", "no"))
            self.assertEqual(len(client.cluster().workers), 2)
            for piece in client.chat("hi", max_tokens=400, ignore_eos=True):
                if piece.text:
                    break  # cancels
            with self.assertRaises(grpc.RpcError) as caught:
                client.chat("hi", temperature=-1).text()
            self.assertEqual(caught.exception.code(), grpc.StatusCode.INVALID_ARGUMENT)
            with self.assertRaises(TypeError):
                client.chat("hi", warmth=1)

        async def again():
            async with baton_client.AsyncClient(self.cluster.grpc) as client:
                pair = await asyncio.gather(client.chat("hi", **options).text(), client.generate(tokens, **options).text())
                return pair, (await client.model()).num_layers

        (chatted, generated), layers = asyncio.run(again())
        self.assertEqual((chatted, generated, layers), (text, whole, 5))

    def test_goes_on_when_the_coordinator_comes_back(self):
        import baton_client
        model = cluster.tiny_model(self.folder / "other.gguf", context=2048)
        topology = self.folder / "up.yaml"
        topology.write_text(cluster.topology_text(model, [{"name": "a", "address": "127.0.0.1:0", "threads": 1, "launch": "local"}],
                                                  context=2048, more=f"journal: {self.folder}/journal\n"))
        up = self.start("up", "-f", topology).ready()
        options = {"max_tokens": 1500, "temperature": 0, "ignore_eos": True}
        with baton_client.Client(up.grpc) as client:
            want = client.generate([3, 4], **options).text()
            pid, got = client.cluster().pid, ""
            for count, piece in enumerate(client.generate([3, 4], **options)):
                got += piece.text
                if count == 10:
                    os.kill(pid, signal.SIGKILL)
            self.assertEqual(got, want)
            self.assertNotEqual(client.cluster().pid, pid)

        async def again():
            async with baton_client.AsyncClient(up.grpc) as client:
                pid, text, count = (await client.cluster()).pid, "", 0
                async for piece in client.generate([3, 4], **options):
                    text += piece.text
                    count += 1
                    if count == 10:
                        os.kill(pid, signal.SIGKILL)
                return text

        self.assertEqual(asyncio.run(again()), want)


if __name__ == "__main__":
    unittest.main()
