#!/usr/bin/env python3
"""Keeps the picture of the folders true: who may include whom. Run by ctest; prints each include that breaks a rule.

A folder may include itself and the folders of its row. Between the folders of engine/ the second table holds. And nobody measures
or waits by the clock of the day, which jumps (engine/base/steady_time.h): it is read where a date is meant, and nowhere else.
"""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent

ALLOWED = {
    "kernels": (),
    "engine": ("kernels",),
    "proto": ("engine", "kernels"),
    "worker": ("proto", "engine", "kernels"),
    "coordinator": ("proto", "engine", "kernels"),
    "cli": ("coordinator", "worker", "proto", "engine", "kernels"),
}
ENGINE = {
    "base": (),
    "gguf": ("base",),
    "tensor": ("base",),
    "arch": ("gguf", "tensor", "base"),
    "backend": ("tensor", "base"),
    "sampling": ("tensor", "base"),
    "model": ("arch", "backend", "tensor", "gguf", "base"),
    "runtime": ("model", "arch", "backend", "tensor", "gguf", "sampling", "base"),
    "text": ("gguf", "base"),
    "quantize": ("gguf", "base"),
}
# What a folder may see of another: path prefixes. Without a row: all of it.
ONLY = {
    # The numeric core is the backend's affair; everybody may know the types and their layouts.
    ("engine", "kernels"): ("kernels/quant_types.h", "kernels/block_layouts.h", "kernels/exact_math.h",
                          "kernels/kv_type.h"),
    ("proto", "kernels"): ("kernels/quant_types.h",),
    ("worker", "kernels"): ("kernels/quant_types.h",),
    ("coordinator", "kernels"): ("kernels/quant_types.h",),
    ("cli", "kernels"): ("kernels/quant_types.h",),
    # The coordinator holds metadata, never weights or backends. stage.h and backend.h are there for their value types.
    ("coordinator", "engine"): (
        "engine/base/", "engine/gguf/", "engine/arch/", "engine/text/", "engine/sampling/",
        "engine/runtime/micro_batch.h", "engine/runtime/stage.h", "engine/runtime/stage_spec.h",
        "engine/backend/backend.h",
    ),
}
# Exceptions, each with its reason.
EXCEPTIONS = {
    "engine/backend": ("kernels/",),     # where the numeric core is called
    "cli/devices.cc": ("kernels/",),     # says which instruction sets there are
    "cli/bench": ("kernels/",),          # measures what the machine can do
    "cli/instruction_set": ("kernels/",),  # checks BATON_ISA before anything runs
    "engine/quantize": ("kernels/",),    # turns values into blocks
}
INCLUDE = re.compile(r'^\s*#\s*include\s*["<]([^">]+)[">]', re.M)
SYSTEM_BANNED = {
    "kernels": ("absl/", "grpc", "google/protobuf", "fmt/", "spdlog/"),
    "engine": ("grpc", "google/protobuf"),
}


# Where a .pb.h may appear: on the wire's own side, where services and their streams meet it, and in cli's client of them.
SEES_MESSAGES = re.compile(r"proto/.*|(worker|coordinator)/(.*_service|.*_server|.*_reactors?|grpc_.*)\.(h|cc)|cli/remote_.*")

# Who reads the date, and what for.
DATES = {
    "engine/base/steady_time.cc",      # where steady time begins
    "coordinator/coordinator.cc",      # a seed
    "coordinator/http_gateway.cc",     # when an answer was created
    "worker/worker.cc",                # for doctor, which compares the clocks of machines
    "cli/diagnosis.cc",                # so, and certificates that end
    "proto/clock_watch.cc",            # whose jumps it looks for
    "proto/grpc_server.cc",            # and here to the end: deadlines of calls, as gRPC has them
    "proto/grpc_worker_client.cc",
    "proto/part_client.cc",
    "worker/grpc_next_stage.cc",
}
DATE = re.compile(r"\babsl::Now\(|\bsystem_clock::now\(|\bWith(Timeout|Deadline)\(")


def fault(path, target):
    """Why `path` may not include `target`, or None."""
    if target.endswith((".pb.h", ".grpc.pb.h")):
        return None if SEES_MESSAGES.fullmatch(path) else "messages stay in proto/, services, their reactors, cli/remote_*"
    folder, other = path.split("/")[0], target.split("/")[0]
    banned = SYSTEM_BANNED.get(folder, ())
    if target.startswith(tuple(banned)):
        return f"{folder}/ knows nothing of {target}"
    if other not in ALLOWED:
        return None
    if any(path.startswith(p) and target.startswith(allowed) for p, allowed in EXCEPTIONS.items()):
        return None
    if folder == other == "engine":
        mine, theirs = path.split("/")[1], target.split("/")[1]
        return None if mine == theirs or theirs in ENGINE[mine] else f"engine/{mine} may not include engine/{theirs}"
    if folder == other:
        return None
    if other not in ALLOWED[folder]:
        return f"{folder}/ may not include {other}/"
    only = ONLY.get((folder, other))
    return None if only is None or target.startswith(only) else f"{folder}/ may include of {other}/ only {', '.join(only)}"


def main():
    faults, files = [], 0
    for folder in ALLOWED:
        for file in sorted((ROOT / folder).rglob("*")):
            if file.suffix not in (".h", ".cc", ".cu", ".cuh"):
                continue
            files += 1
            path = file.relative_to(ROOT).as_posix()
            text = file.read_text("utf-8")
            if path not in DATES and (found := DATE.search(text)):
                faults.append(f"{path}: {found.group()}: steady time (engine/base/steady_time.h) for all that is not a date")
            for target in INCLUDE.findall(text):
                if why := fault(path, target):
                    faults.append(f"{path}: {target}: {why}")
    print("\n".join(faults) or f"{files} files keep to the picture")
    return 1 if faults or not files else 0


if __name__ == "__main__":
    sys.exit(main())
