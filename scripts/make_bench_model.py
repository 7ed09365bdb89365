#!/usr/bin/env python3
"""Writes a benchmark model: 1.1 B parameters of llama shape, F16, random weights from a fixed seed. Needs numpy.

usage: scripts/make_bench_model.py OUT.gguf

Speed does not depend on what weights say, so that a model without a download serves; `baton quantize` makes other types.
"""
import struct
import sys

import numpy

HIDDEN, LAYERS, HEADS, KV_HEADS, FFN, VOCAB, CONTEXT = 2048, 16, 32, 8, 8192, 32000, 4096
ALIGNMENT = 32
UINT32, INT32, FLOAT32, STRING, ARRAY = 4, 5, 6, 8, 9  # metadata types
F32, F16 = 0, 1                                        # tensor types


def string(text):
    data = text.encode()
    return struct.pack("<Q", len(data)) + data


def vocabulary():
    """SentencePiece style: three special pieces, 256 bytes, then words. Pieces and their kinds."""
    pieces = ["<unk>", "<s>", "</s>"] + [f"<0x{byte:02X}>" for byte in range(256)]
    kinds = [2, 3, 3] + [6] * 256
    words = [f"\u2581w{i}" for i in range(len(pieces), VOCAB)]
    return pieces + words, kinds + [1] * len(words)


def metadata():
    pieces, kinds = vocabulary()
    number = {"context_length": CONTEXT, "embedding_length": HIDDEN, "block_count": LAYERS, "feed_forward_length": FFN,
              "attention.head_count": HEADS, "attention.head_count_kv": KV_HEADS, "vocab_size": VOCAB,
              "rope.dimension_count": HIDDEN // HEADS}
    yield "general.architecture", STRING, string("llama")
    yield "general.name", STRING, string("benchmark 1.1B")
    for key, value in number.items():
        yield f"llama.{key}", UINT32, struct.pack("<I", value)
    yield "llama.attention.layer_norm_rms_epsilon", FLOAT32, struct.pack("<f", 1e-5)
    yield "tokenizer.ggml.model", STRING, string("llama")
    yield "tokenizer.ggml.tokens", ARRAY, struct.pack("<IQ", STRING, VOCAB) + b"".join(map(string, pieces))
    yield "tokenizer.ggml.scores", ARRAY, struct.pack(f"<IQ{VOCAB}f", FLOAT32, VOCAB, *(-float(i) for i in range(VOCAB)))
    yield "tokenizer.ggml.token_type", ARRAY, struct.pack(f"<IQ{VOCAB}i", INT32, VOCAB, *kinds)
    for name, token in (("unknown", 0), ("bos", 1), ("eos", 2)):
        yield f"tokenizer.ggml.{name}_token_id", UINT32, struct.pack("<I", token)


def tensors():
    """Name and shape, the row length first, of each tensor. One dimension: a norm."""
    kv = HIDDEN // HEADS * KV_HEADS
    yield "token_embd.weight", (HIDDEN, VOCAB)
    for layer in range(LAYERS):
        shapes = {"attn_norm": (HIDDEN,), "attn_q": (HIDDEN, HIDDEN), "attn_k": (HIDDEN, kv), "attn_v": (HIDDEN, kv),
                  "attn_output": (HIDDEN, HIDDEN), "ffn_norm": (HIDDEN,), "ffn_gate": (HIDDEN, FFN),
                  "ffn_up": (HIDDEN, FFN), "ffn_down": (FFN, HIDDEN)}
        for name, shape in shapes.items():
            yield f"blk.{layer}.{name}.weight", shape
    yield "output_norm.weight", (HIDDEN,)
    yield "output.weight", (HIDDEN, VOCAB)


def values(shape, random):
    if len(shape) == 1:
        return numpy.ones(shape, "<f4")
    normal = random.standard_normal(shape[::-1], dtype=numpy.float32)
    return (normal * shape[0] ** -0.5).astype("<f2")


def aligned(size):
    return -(-size // ALIGNMENT) * ALIGNMENT


def header():
    pairs, infos = list(metadata()), list(tensors())
    out = [struct.pack("<4sIQQ", b"GGUF", 3, len(infos), len(pairs))]
    out += [string(key) + struct.pack("<I", kind) + data for key, kind, data in pairs]
    offset = 0
    for name, shape in infos:
        kind, size = (F32, 4) if len(shape) == 1 else (F16, 2)
        out.append(string(name) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape, kind, offset))
        offset += aligned(size * int(numpy.prod(shape)))
    data = b"".join(out)
    return data.ljust(aligned(len(data)), b"\0")


def write(path):
    random = numpy.random.default_rng(1)
    with open(path, "wb") as file:
        file.write(header())
        for _, shape in tensors():
            data = values(shape, random).tobytes()
            file.write(data.ljust(aligned(len(data)), b"\0"))


if __name__ == "__main__":
    if len(sys.argv) != 2 or sys.argv[1].startswith("-"):
        sys.exit(__doc__)
    write(sys.argv[1])
