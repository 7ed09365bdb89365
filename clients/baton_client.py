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
One that breaks off because the coordinator restarts is resumed where it was. An API key is taken from `api_key` or the
environment's BATON_API_KEY.
Options: temperature, top_k, top_p, min_p, repetition_penalty, presence_penalty, frequency_penalty, seed, top_logprobs,
max_tokens, stop (a text or a list), ignore_eos, priority, speculation, json_schema (a dict), and timeout in seconds.
An error of the coordinator is a grpc.RpcError with its code and its words.
"""
import asyncio
import contextlib
import functools
import importlib
import json
import os
import pathlib
import sys
import tempfile
import time

import grpc

PROTO = pathlib.Path(__file__).resolve().parent.parent / "proto"
SAMPLING = {"temperature", "top_k", "top_p", "min_p", "repetition_penalty", "presence_penalty", "frequency_penalty", "seed",
            "top_logprobs"}
OPTIONS = {"max_tokens", "ignore_eos", "priority", "speculation"}
RESUME_FOR_S, RESUME_EVERY_S = 60, 0.2  # since something came last


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


class _Attempts:
    """The calls that an answer takes: the first, and one more each time that it breaks off and may go on. Each is a `with`."""

    def __init__(self, call, resume):
        self._call, self._resume, self._broke = call, resume, None
        self.request_id, self.tokens, self.ended, self.heard = "", 0, False, time.monotonic()
        self.done, self.pause = False, 0

    def take(self, piece):
        self.request_id = self.request_id or piece.request_id
        self.tokens += len(piece.tokens)
        self.ended = self.ended or piece.finish_reason != 0
        self.heard = time.monotonic()
        return piece

    def __enter__(self):
        if self._broke:
            self._call = self._resume(self)
        return self._call

    def __exit__(self, _kind, error, _trace):
        """Whether that was not the end: the next attempt asks for what is missing."""
        self._call.cancel()
        self.done = self.ended or not isinstance(error, grpc.RpcError)
        if self.done:
            return isinstance(error, grpc.RpcError)  # after the last piece it does not matter
        if error.code() == grpc.StatusCode.NOT_FOUND and self._broke:
            raise self._broke  # "no such request" says less than why it broke off
        if error.code() != grpc.StatusCode.UNAVAILABLE or not self.request_id or time.monotonic() > self.heard + RESUME_FOR_S:
            return False
        self._broke, self.pause = error, RESUME_EVERY_S
        return True


class Answer:
    """Pieces of an answer (GenerateResponse), as they come. `last` is the latest; at the end it has the timings."""

    def __init__(self, call, resume):
        self._attempts, self.last = _Attempts(call, resume), None

    def __iter__(self):
        while not self._attempts.done:
            time.sleep(self._attempts.pause)
            with self._attempts as call:
                for self.last in call:
                    yield self._attempts.take(self.last)

    def text(self):
        return "".join(piece.text for piece in self)


class AsyncAnswer:
    def __init__(self, call, resume):
        self._attempts, self.last = _Attempts(call, resume), None

    async def __aiter__(self):
        while not self._attempts.done:
            await asyncio.sleep(self._attempts.pause)
            with self._attempts as call:
                async for self.last in call:
                    yield self._attempts.take(self.last)

    async def text(self):
        return "".join([piece.text async for piece in self])


def credentials(folder):
    """Of a folder with ca.pem, cert.pem and key.pem, for clusters with TLS."""
    ca, cert, key = (pathlib.Path(folder, name).read_bytes() for name in ("ca.pem", "cert.pem", "key.pem"))
    return grpc.ssl_channel_credentials(ca, key, cert)


class _Calls:
    """What both clients ask; messages and stub are made by them."""

    def __init__(self, channel, api_key):
        self._pb, services = _stubs()
        self._channel, self._stub = channel, services.InferenceStub(channel)
        api_key = os.environ.get("BATON_API_KEY") if api_key is None else api_key
        self._metadata = (("authorization", f"Bearer {api_key}"),) if api_key else None

    def _ask(self, method, request, timeout=None):
        return method(request, timeout=timeout, metadata=self._metadata)

    def _answer(self, kind, method, request, timeout):
        end = None if timeout is None else time.monotonic() + timeout

        def resume(progress):
            left = None if end is None else max(0, end - time.monotonic())
            return self._ask(self._stub.Resume,
                             self._pb.ResumeRequest(request_id=progress.request_id, from_token=progress.tokens), left)
        return kind(self._ask(method, request, timeout), resume)

    def model(self):
        return self._ask(self._stub.GetModel, self._pb.GetModelRequest())

    def cluster(self):
        return self._ask(self._stub.GetCluster, self._pb.GetClusterRequest())


class Client(_Calls):
    def __init__(self, server="127.0.0.1:7070", credentials=None, api_key=None):
        super().__init__(grpc.secure_channel(server, credentials) if credentials else grpc.insecure_channel(server), api_key)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._channel.close()

    def chat(self, messages, tools=None, timeout=None, **options):
        return self._answer(Answer, self._stub.Chat, _chat_request(self._pb, messages, tools, options), timeout)

    def generate(self, prompt, timeout=None, **options):
        return self._answer(Answer, self._stub.Generate, _generate_request(self._pb, prompt, options), timeout)

    def tokenize(self, text, parse_special=False, add_special=False):
        request = self._pb.TokenizeRequest(text=text.encode(), parse_special=parse_special, add_special=add_special)
        return list(self._ask(self._stub.Tokenize, request).ids)

    def detokenize(self, ids):
        return self._ask(self._stub.Detokenize, self._pb.DetokenizeRequest(ids=ids)).text.decode(errors="replace")


class AsyncClient(_Calls):
    """The same; model and cluster are awaited."""

    def __init__(self, server="127.0.0.1:7070", credentials=None, api_key=None):
        super().__init__(grpc.aio.secure_channel(server, credentials) if credentials else grpc.aio.insecure_channel(server), api_key)

    async def __aenter__(self):
        return self

    async def __aexit__(self, *_):
        await self._channel.close()

    def chat(self, messages, tools=None, timeout=None, **options):
        return self._answer(AsyncAnswer, self._stub.Chat, _chat_request(self._pb, messages, tools, options), timeout)

    def generate(self, prompt, timeout=None, **options):
        return self._answer(AsyncAnswer, self._stub.Generate, _generate_request(self._pb, prompt, options), timeout)


if __name__ == "__main__":
    with Client(sys.argv[1]) as _client:
        for _piece in _client.chat(" ".join(sys.argv[2:])):
            print(_piece.text, end="", flush=True)
        print()
