#!/usr/bin/env python3
"""Streams an answer from a running coordinator over gRPC. Needs: pip install grpcio grpcio-tools

usage: scripts/generate.py [--server 127.0.0.1:7070] [--max-tokens 200] [--temperature 0.8] PROMPT
"""
import argparse
import json
import pathlib
import sys
import tempfile

try:
    import grpc
    import grpc_tools
    from grpc_tools import protoc
except ImportError as e:
    sys.exit(f"generate.py: error: {e}\nhint: pip install grpcio grpcio-tools")

PROTO = pathlib.Path(__file__).resolve().parent.parent / "proto"


def make_stubs():
    """The messages and the client, generated from the .proto files into a folder that goes with the process."""
    folder = tempfile.TemporaryDirectory(prefix="baton-stubs-")
    includes = [f"-I{PROTO}", f"-I{pathlib.Path(grpc_tools.__file__).parent / '_proto'}"]
    files = [str(p) for p in sorted((PROTO / "baton/v1").glob("*.proto"))]
    outputs = [f"--python_out={folder.name}", f"--grpc_python_out={folder.name}"]
    if protoc.main(["protoc", *includes, *outputs, *files]) != 0:
        sys.exit("generate.py: error: the .proto files do not compile")
    sys.path.insert(0, folder.name)
    from baton.v1 import inference_pb2, inference_pb2_grpc
    return folder, inference_pb2, inference_pb2_grpc


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("prompt")
    parser.add_argument("--server", default="127.0.0.1:7070")
    parser.add_argument("--max-tokens", type=int, default=200)
    parser.add_argument("--temperature", type=float)
    parser.add_argument("--timeout", type=float, default=300, help="seconds")
    flags = parser.parse_args()

    _folder, pb, pb_grpc = make_stubs()
    options = pb.GenerationOptions(max_tokens=flags.max_tokens)
    if flags.temperature is not None:
        options.sampling.temperature = flags.temperature
    request = pb.ChatRequest(messages_json=json.dumps([{"role": "user", "content": flags.prompt}]), options=options)
    with grpc.insecure_channel(flags.server) as channel:
        try:
            for piece in pb_grpc.InferenceStub(channel).Chat(request, timeout=flags.timeout):
                print(piece.text, end="", flush=True)
                last = piece
        except grpc.RpcError as e:
            sys.exit(f"generate.py: error: {flags.server}: {e.code().name}: {e.details()}")
        except KeyboardInterrupt:
            sys.exit(130)
    t = last.timings
    rate = t.decode_tokens / t.decode_ms * 1000 if t.decode_ms else 0
    stages = ", ".join(f"{s.worker} {s.layer_begin}-{s.layer_end - 1}" for s in last.stages)
    print(f"\n[{t.decode_tokens} tokens, {rate:.1f} tokens/s; {stages}]", file=sys.stderr)


if __name__ == "__main__":
    main()
