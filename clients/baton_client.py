"""A client of a baton coordinator over gRPC, sync and async, in one file. Needs: pip install grpcio grpcio-tools

    with Client("127.0.0.1:7070") as client:
        for piece in client.chat("Why is the sky blue?", max_tokens=200):
            print(piece.text, end="", flush=True)
        print(client.generate("Once upon a time", max_tokens=20).text())

    async with AsyncClient("127.0.0.1:7070") as client:
        async for piece in client.chat("Why is the sky blue?"):
            print(piece.text, end="", flush=True)

`chat` takes a text or OpenAI's list of messages, `generate` a text or a list of token ids. Both give an answer, which is
iterated piece by piece, or read whole with text(). Closing it early, or leaving the loop, cancels the work on the servers.
Options: temperature, top_k, top_p, min_p, repetition_penalty, presence_penalty, frequency_penalty, seed, top_logprobs,
max_tokens, stop (a text or a list), ignore_eos, priority, speculation, json_schema (a dict), and timeout in seconds.
An error of the coordinator is a grpc.RpcError with its code and its words.
"""
import contextlib
import functools
import importlib
import json
import pathlib
import sys
import tempfile

import grpc

PROTO = pathlib.Path(__file__).resolve().parent.parent / "proto"
SAMPLING = {"temperature", "top_k", "top_p", "min_p", "repetition_penalty", "presence_penalty", "frequency_penalty", "seed",
            "top_logprobs"}
OPTIONS = {"max_tokens", "ignore_eos", "priority", "speculation"}


@functools.cache
def _stubs():
    """Messages and stubs: those on the path (grpcio-tools made them before), else made from the .proto files now."""
    try:
        return (importlib.import_module("baton.v1.inference_pb2"), importlib.import_module("baton.v1.inference_pb2_grpc"))
    except ImportError:
        pass
    import grpc_tools
    from grpc_tools import protoc
    folder = tempfile.mkdtemp(prefix="baton-stubs-")
    with contextlib.ExitStack() as stack:
        stack.callback(__import__("shutil").rmtree, folder, ignore_errors=True)
        well_known = pathlib.Path(grpc_tools.__file__).parent / "_proto"
        files = [str(p) for p in sorted((PROTO / "baton/v1").glob("*.proto"))]
        if protoc.main(["protoc", f"-I{PROTO}", f"-I{well_known}", f"--python_out={folder}", f"--grpc_python_out={folder}",
                        *files]) != 0:
            raise RuntimeError(f"{PROTO}: the .proto files do not compile")
        sys.path.insert(0, folder)
        stack.callback(sys.path.remove, folder)
        return (importlib.import_module("baton.v1.inference_pb2"), importlib.import_module("baton.v1.inference_pb2_grpc"))


def _options(pb, *, stop=(), json_schema=None, **named):
    if unknown := named.keys() - SAMPLING - OPTIONS:
        raise TypeError(f"unknown options: {', '.join(sorted(unknown))}")
    options = pb.GenerationOptions(stop=[stop] if isinstance(stop, str) else stop,
                                   **{k: v for k, v in named.items() if k in OPTIONS})
    for name in named.keys() & SAMPLING:
        setattr(options.sampling, name, named[name])
    if json_schema is not None:
        options.grammar_json_schema = json.dumps(json_schema)
    return options


def _chat_request(pb, messages, tools, options):
    if isinstance(messages, str):
        messages = [{"role": "user", "content": messages}]
    return pb.ChatRequest(messages_json=json.dumps(messages), tools_json=json.dumps(tools) if tools else "",
                          options=_options(pb, **options))


def _generate_request(pb, prompt, options):
    request = pb.GenerateRequest(options=_options(pb, **options))
    if isinstance(prompt, str):
        request.text = prompt
    else:
        request.tokens.ids.extend(prompt)
    return request


class Answer:
    """Pieces of an answer (GenerateResponse), as they come. `last` is the latest; at the end it has the timings."""

    def __init__(self, call):
        self._call, self.last = call, None

    def __iter__(self):
        try:
            for self.last in self._call:
                yield self.last
        finally:
            self._call.cancel()

    def text(self):
        return "".join(piece.text for piece in self)


class AsyncAnswer:
    def __init__(self, call):
        self._call, self.last = call, None

    async def __aiter__(self):
        try:
            async for self.last in self._call:
                yield self.last
        finally:
            self._call.cancel()

    async def text(self):
        return "".join([piece.text async for piece in self])


def credentials(folder):
    """Of a folder with ca.pem, cert.pem and key.pem, for clusters with TLS."""
    ca, cert, key = (pathlib.Path(folder, name).read_bytes() for name in ("ca.pem", "cert.pem", "key.pem"))
    return grpc.ssl_channel_credentials(ca, key, cert)


class Client:
    def __init__(self, server="127.0.0.1:7070", credentials=None):
        self._pb, services = _stubs()
        self._channel = grpc.secure_channel(server, credentials) if credentials else grpc.insecure_channel(server)
        self._stub = services.InferenceStub(self._channel)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._channel.close()

    def chat(self, messages, tools=None, timeout=None, **options):
        return Answer(self._stub.Chat(_chat_request(self._pb, messages, tools, options), timeout=timeout))

    def generate(self, prompt, timeout=None, **options):
        return Answer(self._stub.Generate(_generate_request(self._pb, prompt, options), timeout=timeout))

    def tokenize(self, text, parse_special=False, add_special=False):
        request = self._pb.TokenizeRequest(text=text.encode(), parse_special=parse_special, add_special=add_special)
        return list(self._stub.Tokenize(request).ids)

    def detokenize(self, ids):
        return self._stub.Detokenize(self._pb.DetokenizeRequest(ids=ids)).text.decode(errors="replace")

    def model(self):
        return self._stub.GetModel(self._pb.GetModelRequest())

    def cluster(self):
        return self._stub.GetCluster(self._pb.GetClusterRequest())


class AsyncClient:
    def __init__(self, server="127.0.0.1:7070", credentials=None):
        self._pb, services = _stubs()
        self._channel = grpc.aio.secure_channel(server, credentials) if credentials else grpc.aio.insecure_channel(server)
        self._stub = services.InferenceStub(self._channel)

    async def __aenter__(self):
        return self

    async def __aexit__(self, *_):
        await self._channel.close()

    def chat(self, messages, tools=None, timeout=None, **options):
        return AsyncAnswer(self._stub.Chat(_chat_request(self._pb, messages, tools, options), timeout=timeout))

    def generate(self, prompt, timeout=None, **options):
        return AsyncAnswer(self._stub.Generate(_generate_request(self._pb, prompt, options), timeout=timeout))

    async def model(self):
        return await self._stub.GetModel(self._pb.GetModelRequest())

    async def cluster(self):
        return await self._stub.GetCluster(self._pb.GetClusterRequest())


if __name__ == "__main__":
    with Client(sys.argv[1]) as _client:
        for _piece in _client.chat(" ".join(sys.argv[2:])):
            print(_piece.text, end="", flush=True)
        print()
