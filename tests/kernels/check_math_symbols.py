#!/usr/bin/env python3
"""usage: check_math_symbols.py LIBRARY...

Fails where a library calls a function of libm whose bits differ from one machine to another: hidden states, logits and
draws may use exact operations only (kernels/ARITHMETIC.md).
"""
import re
import subprocess
import sys

# Rounded correctly everywhere, or no arithmetic at all.
EXACT = {"fma", "sqrt", "floor", "ceil", "trunc", "round", "rint", "nearbyint", "fabs", "copysign", "fmin", "fmax",
         "lrint", "lround", "llrint", "llround"}
INEXACT = re.compile(r"_*(exp|exp2|exp10|expm1|log|log2|log10|log1p|pow|sin|cos|tan|sincos|asin|acos|atan|atan2|sinh|cosh"
                     r"|tanh|asinh|acosh|atanh|erf|erfc|cbrt|hypot|tgamma|lgamma|fmod|remainder)[fl]?(_finite)?(@.*)?$")


def main() -> int:
    failed = False
    for library in sys.argv[1:]:
        symbols = subprocess.run(["nm", "--undefined-only", library], check=True, capture_output=True, text=True).stdout
        for line in symbols.splitlines():
            name = line.split()[-1] if line.strip().startswith("U ") else ""
            if name not in EXACT and INEXACT.match(name):
                print(f"{library}: calls {name}, which is not exact (use kernels/exact_math.h)")
                failed = True
    return 1 if failed or len(sys.argv) < 2 else 0


if __name__ == "__main__":
    sys.exit(main())
