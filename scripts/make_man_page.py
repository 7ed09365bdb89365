#!/usr/bin/env python3
"""Prints baton(1) from what `baton --help` and each command's --help say: make_man_page.py BATON."""
import re
import subprocess
import sys

EXIT_CODES = (
    (0, "done"), (1, "failed"), (64, "wrong usage"), (65, "bad model, topology or input data"), (66, "no such file"),
    (69, "worker or coordinator not reachable, or lost"), (70, "a bug in baton"), (73, "cannot write the output"),
    (75, "overloaded, try again"), (77, "not allowed"), (124, "deadline passed"), (130, "interrupted"),
)
ENVIRONMENT = (
    ("BATON_ISA", "Forces an instruction set: scalar, avx2, avx_vnni, avx512, amx or neon."),
    ("BATON_SSH", "The program that reaches other hosts, instead of ssh."),
    ("HF_ENDPOINT, HF_TOKEN", "Where models named hf: are fetched, and with whose rights."),
    ("XDG_CACHE_HOME", "Models that were fetched lie in baton/models below it; ~/.cache where unset."),
    ("XDG_STATE_HOME", "Journals and what `up --detach` says lie in baton below it; ~/.local/state where unset."),
)


def said(*command):
    return subprocess.run(command, check=True, text=True, capture_output=True).stdout


def escaped(text):
    text = text.replace("\\", "\\e").replace("-", "\\-")
    return re.sub(r"^(['.])", r"\\&\1", text, flags=re.M)


def commands(help_text):
    """The words that begin a line of a list of subcommands: two spaces in, below a heading of its own."""
    names, listing = [], False
    for line in help_text.splitlines():
        if re.match(r"^[A-Z][\w ]*:?$", line):
            listing = not line.startswith(("Options", "Usage", "Start"))
        elif listing and (found := re.match(r"^  ([a-z]+) {2,}\S", line)):
            names.append(found[1])
    return names


def main():
    baton = sys.argv[1]
    help_text = said(baton, "--help")
    version = said(baton, "--version").split()[1]
    out = [f'.TH BATON 1 "" "baton {escaped(version)}" "User Commands"', ".SH NAME",
           "baton \\- runs one GGUF language model over several processes on several machines", ".SH SYNOPSIS",
           ".B baton", "COMMAND [flags]", ".SH DESCRIPTION", ".nf", escaped(help_text.rstrip()), ".fi", ".SH COMMANDS"]
    names = commands(help_text)
    if not names:
        sys.exit("make_man_page: found no commands in baton --help")
    for name in names:
        out += [f".SS baton {name}", ".nf", escaped(said(baton, name, "--help").rstrip()), ".fi"]
    out.append(".SH EXIT STATUS")
    for code, meaning in EXIT_CODES:
        out += [".TP", f".B {code}", escaped(meaning)]
    out.append(".SH ENVIRONMENT")
    for name, meaning in ENVIRONMENT:
        out += [".TP", f".B {name}", escaped(meaning)]
    print("\n".join(out))


main()
