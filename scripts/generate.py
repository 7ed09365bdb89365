#!/usr/bin/env python3
"""Streams an answer from a running coordinator over gRPC. Needs: pip install grpcio grpcio-tools

usage: scripts/generate.py [--server 127.0.0.1:7070] [--max-tokens 200] [--temperature 0.8] PROMPT
"""
import argparse
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "clients"))
try:
    import grpc
    from baton_client import Client
except ImportError as e:
    sys.exit(f"generate.py: error: {e}\nhint: pip install grpcio grpcio-tools")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("prompt")
    parser.add_argument("--server", default="127.0.0.1:7070")
    parser.add_argument("--max-tokens", type=int, default=200)
    parser.add_argument("--temperature", type=float)
    parser.add_argument("--timeout", type=float, default=300, help="seconds")
    flags = parser.parse_args()

    options = {"max_tokens": flags.max_tokens, "timeout": flags.timeout}
    if flags.temperature is not None:
        options["temperature"] = flags.temperature
    with Client(flags.server) as client:
        answer = client.chat(flags.prompt, **options)
        try:
            for piece in answer:
                print(piece.text, end="", flush=True)
        except grpc.RpcError as e:
            sys.exit(f"generate.py: error: {flags.server}: {e.code().name}: {e.details()}")
        except KeyboardInterrupt:
            sys.exit(130)
    t = answer.last.timings
    rate = t.decode_tokens / t.decode_ms * 1000 if t.decode_ms else 0
    stages = ", ".join(f"{s.worker} {s.layer_begin}-{s.layer_end - 1}" for s in answer.last.stages)
    print(f"\n[{t.decode_tokens} tokens, {rate:.1f} tokens/s; {stages}]", file=sys.stderr)


if __name__ == "__main__":
    main()
