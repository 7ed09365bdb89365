#!/usr/bin/env python3
"""Writes engine/text/jinja/unicode_tables.h: what Python's str methods say about characters beyond ASCII.

usage: scripts/make_unicode_tables.py > engine/text/jinja/unicode_tables.h
"""

import unicodedata

CODE_POINTS = [c for c in range(0x80, 0x110000) if not 0xD800 <= c < 0xE000]


def case_ranges(convert):
    """[first, last, step, delta] of all characters that convert to one other character."""
    ranges = []
    for c in CODE_POINTS:
        converted = convert(chr(c))
        if len(converted) != 1 or converted == chr(c):
            continue
        delta = ord(converted) - c
        if ranges and ranges[-1][3] == delta:
            first, last, step, _ = ranges[-1]
            if (last == first and c - last <= 2) or (last > first and c - last == step):
                ranges[-1][1:3] = [c, c - last]
                continue
        ranges.append([c, c, 1, delta])
    return ranges


def class_ranges(is_member):
    ranges = []
    for c in CODE_POINTS:
        if not is_member(chr(c)):
            continue
        if ranges and ranges[-1][1] == c - 1:
            ranges[-1][1] = c
        else:
            ranges.append([c, c])
    return ranges


def print_table(declaration, rows):
    print(f"inline constexpr {declaration}[] = {{")
    line = "   "
    for row in rows:
        item = " {" + ", ".join(row) + "},"
        if len(line) + len(item) > 100:
            print(line)
            line = "   "
        line += item
    print(line)
    print("};\n")


def print_ranges(declaration, ranges):
    print_table(declaration, [[f"0x{r[0]:X}", f"0x{r[1]:X}", *map(str, r[2:])] for r in ranges])


def main():
    print(f"// Unicode {unicodedata.unidata_version}, written by scripts/make_unicode_tables.py: don't edit.")
    print("// clang-format off\n#pragma once\n")
    print("namespace baton::engine::jinja {\n")
    print("struct CaseRange { char32_t first, last; int step, delta; };")
    print("struct ClassRange { char32_t first, last; };")
    print("struct LongCase { char32_t from; const char* to; };\n")
    print_ranges("CaseRange kToUpper", case_ranges(str.upper))
    print_ranges("CaseRange kToLower", case_ranges(str.lower))
    long_case = [c for c in CODE_POINTS if len(chr(c).upper()) > 1]
    escape = lambda s: '"' + "".join(f"\\x{b:02x}" if b >= 0x80 else f'""{chr(b)}""' for b in s.encode()) + '"'
    print_table("LongCase kToLongUpper", [[f"0x{c:X}", escape(chr(c).upper())] for c in long_case])
    print_ranges("ClassRange kAlpha", class_ranges(str.isalpha))
    print_ranges("ClassRange kDigit", class_ranges(str.isdigit))
    print_ranges("ClassRange kLower", class_ranges(str.islower))
    print_ranges("ClassRange kUpper", class_ranges(str.isupper))
    print_ranges("ClassRange kNotPrintable", class_ranges(lambda s: not s.isprintable()))
    print("}  // namespace baton::engine::jinja")


if __name__ == "__main__":
    main()
