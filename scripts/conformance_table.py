#!/usr/bin/env python3
"""Writes docs/conformance.md from the "nmse" lines that runtime_test prints.

usage: runtime_test --gtest_filter='*Conformance*:*RealModel*' | scripts/conformance_table.py > docs/conformance.md
"""
import math
import sys

HEAD = """# How close logits are to exact arithmetic

Normalized mean squared error of logits per file of the shared conformance data: baton's, llama.cpp's on the same file
and tokens, and the limit that the tests hold baton to. Exact arithmetic is that on the dequantized weights, in float32,
with a float32 KV cache. Files under `real/` are published models; their rows are centred first. `scripts/conformance_table.py` writes this page from the tests' output.
"""


def rows(lines):
    for line in lines:
        if line.startswith("nmse "):
            _, file, case, ours, theirs, limit = line.split()
            yield file, case, ours, theirs, limit


def is_quantized(file):
    return file.startswith("quants/") and file.split("-")[-1] not in ("F32", "F16", "BF16")


def geometric_mean(values):
    return math.exp(sum(map(math.log, values)) / len(values))


def main():
    table = list(rows(sys.stdin))
    print(HEAD)
    for kv, title in (("kv_f32", "KV cache F32"), ("kv_f16", "KV cache F16")):
        mine = [row for row in table if row[1].endswith(kv)]
        print(f"## {title}\n\n| file | case | baton | llama.cpp | limit |\n|---|---|---|---|---|")
        for file, case, ours, theirs, limit in mine:
            print(f"| {file} | {case.split('_')[0]} | {ours} | {theirs} | {limit} |")
        quantized = [(float(r[2]), float(r[3])) for r in mine if is_quantized(r[0])]
        ours, theirs = (geometric_mean([pair[i] for pair in quantized]) for i in (0, 1))
        print(f"\nGeometric mean over the {len(quantized)} quantized files: baton {ours:.4e}, llama.cpp {theirs:.4e}.\n")


if __name__ == "__main__":
    main()
