"""Kubernetes quantities as integers: exact, rounded up, compared without floating point.

`3500m` of cpu, `12Gi` of memory and `80` pods become plain integers in one unit per resource
(thousandths for cpu, whole units for all others), so that columns of them add up and compare.
Rounding goes up, as the API server's own Quantity does when it is asked for whole units.
"""

from __future__ import annotations

import re
from decimal import Decimal
from fractions import Fraction

_BINARY = {f"{letter}i": 2 ** (10 * (n + 1)) for n, letter in enumerate("KMGTPE")}
_DECIMAL = {
    "n": Fraction(1, 10**9),
    "u": Fraction(1, 10**6),
    "m": Fraction(1, 10**3),
    "": Fraction(1),
    "k": Fraction(10**3),
    "M": Fraction(10**6),
    "G": Fraction(10**9),
    "T": Fraction(10**12),
    "P": Fraction(10**15),
    "E": Fraction(10**18),
}
_FORM = re.compile(
    r"(?P<sign>[+-]?)(?P<number>[0-9]+(?:\.[0-9]*)?|\.[0-9]+)"
    r"(?:(?P<suffix>[KMGTPE]i|[numkMGTPE])|[eE](?P<exponent>[+-]?[0-9]{1,3}))?\Z"
)


def exact(text: str | float) -> Fraction:
    """The exact number that a quantity names.

    Raises ValueError, naming the text, for anything that Kubernetes would refuse.
    """
    match = _FORM.match(text) if isinstance(text, str) else _FORM.match(str(Decimal(repr(text))))
    if match is None:
        raise ValueError(f"not a quantity: {text!r}; write a number with a suffix, as 500m or 2Gi")
    number = Fraction(match["number"].rstrip(".") if match["number"] != "." else "0")
    if match["exponent"]:
        number *= Fraction(10) ** int(match["exponent"])
    elif match["suffix"]:
        number *= _BINARY.get(match["suffix"]) or _DECIMAL[match["suffix"]]
    return -number if match["sign"] == "-" else number


def value(text: str | float) -> int:
    """Whole units, rounded up: bytes, pods. Raises ValueError naming the text."""
    if isinstance(text, str) and text.isdecimal() and text.isascii():
        return int(text)
    number = exact(text)
    return -(-number.numerator // number.denominator)


def milli(text: str | float) -> int:
    """Thousandths, rounded up: cpu. Raises ValueError naming the text."""
    if isinstance(text, str) and text[-1:] == "m" and text[:-1].isdecimal() and text.isascii():
        return int(text[:-1])
    number = exact(text) * 1000
    return -(-number.numerator // number.denominator)


def amount(resource: str, text: str | float) -> int:
    """The integer of a resource: thousandths for cpu, whole units for every other one."""
    return milli(text) if resource == "cpu" else value(text)


def render(resource: str, n: int) -> str:
    """The canonical text of an integer made by `amount`: `3500m`, `4`, `12Gi`, `1500`."""
    if resource == "cpu":
        return str(n // 1000) if n % 1000 == 0 else f"{n}m"
    if resource in ("memory", "ephemeral-storage") or resource.startswith("hugepages-"):
        for suffix in ("Ei", "Pi", "Ti", "Gi", "Mi", "Ki"):
            if n and n % _BINARY[suffix] == 0:
                return f"{n // _BINARY[suffix]}{suffix}"
    return str(n)
