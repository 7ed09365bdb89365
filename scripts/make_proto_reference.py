#!/usr/bin/env python3
"""Prints docs/grpc.md from the comments in proto/baton/v1: services and messages as they stand there, and a grpcurl line
for each call. A test compares it with the file."""
import pathlib
import re

PROTO = pathlib.Path(__file__).resolve().parent.parent / "proto/baton/v1"
HEAD = """# gRPC reference

Made by `scripts/make_proto_reference.py` from `proto/baton/v1`; do not edit. Clients call `baton.v1.Inference` on the
coordinator; `baton.v1.Worker` is between baton's own processes, and good to look at one (a `LoadStage` by hand is answered
with what it lacks). Health checking (`grpc.health.v1.Health`) and reflection
are on, so grpcurl needs no files. With TLS give it `-cacert`, `-cert` and `-key` instead of `-plaintext`.
"""
# A body for each call; what is absent takes {}.
BODIES = {
    "Generate": '{"text": "Once upon a time", "options": {"max_tokens": 20}}',
    "Chat": '{"messages_json": "[{\\"role\\": \\"user\\", \\"content\\": \\"Hello\\"}]", "options": {"max_tokens": 20}}',
    "Resume": '{"request_id": "ID", "from_token": 3}',
    "Score": '{"tokens": [1, 2, 3]}',
    "Tokenize": '{"text": "SGVsbG8="}',
    "Detokenize": '{"ids": [1, 2, 3]}',
    "RenderChat": '{"messages_json": "[{\\"role\\": \\"user\\", \\"content\\": \\"Hello\\"}]"}',
    "DrainWorker": '{"name": "WORKER"}',
    "Attach": '{"hello": {"lease_ms": 1000}}',
    "Forward": '{"fingerprint": "MODEL", "first_layer": 8}',
    "KvFile": '{"action": "KV_FILE_ACTION_REMOVE", "key": "0123456789abcdef0123456789abcdef"}',
    "ReadPart": '{"file_name": "model.gguf", "offset": 0, "bytes": 32}',
    "Probe": '{"payload": "SGVsbG8="}',
}
ADDRESSES = {"Inference": "127.0.0.1:7070", "Worker": "127.0.0.1:7071"}


def blocks(text):
    """(kind, name, comment above, source) of each top-level service, message and enum."""
    comment, lines = [], iter(text.splitlines())
    for line in lines:
        if line.startswith("//"):
            comment.append(line[2:].strip())
            continue
        if found := re.match(r"(service|message|enum) (\w+) \{(\})?", line):
            source = [line]
            while not found[3] and source[-1] != "}":
                source.append(next(lines))
            yield found[1], found[2], " ".join(comment), "\n".join(source)
        comment = []


def main():
    print(HEAD)
    for name in ("inference", "worker", "tensor"):
        print(f"## {name}.proto\n")
        for kind, title, comment, source in blocks((PROTO / f"{name}.proto").read_text()):
            print(f"### {kind} {title}\n")
            if comment:
                print(comment + "\n")
            print(f"```proto\n{source}\n```\n")
            if kind != "service":
                continue
            print("```sh")
            for call in re.findall(r"rpc (\w+)\(", source):
                body = BODIES.get(call, "{}")
                print(f"grpcurl -plaintext -d '{body}' {ADDRESSES[title]} baton.v1.{title}/{call}")
            print("```\n")


main()
