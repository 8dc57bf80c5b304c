"""Kubernetes quantities as exact integers, rounded up as in the API server's own Quantity.

The unit is thousandths for cpu, whole units for every other resource.
"""

from __future__ import annotations

import re
from fractions import Fraction

from machinery.types.bounds import LONGEST_QUANTITY, MOST_AMOUNT, between, quoted

_BINARY: dict[str, int] = {f"{letter}i": 2 ** (10 * (n + 1)) for n, letter in enumerate("KMGTPE")}
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
_MOST_BITS = 256
_PLAIN = 18
"""The most digits that always fit an int64."""
_FORM = re.compile(
    r"(?P<sign>[+-]?)(?P<number>[0-9]+(?:\.[0-9]*)?|\.[0-9]+)"
    r"(?:(?P<suffix>[KMGTPE]i|[numkMGTPE])|[eE](?P<exponent>[+-]?[0-9]{1,3}))?\Z"
)


def exact(text: str | float) -> Fraction:
    """Return the exact number of a quantity.

    Raises ValueError, naming the text, if Kubernetes would refuse it, and for more than
    LONGEST_QUANTITY characters.
    """
    match = _FORM.match(_written(text))
    if match is None:
        raise _none(text)
    number = Fraction(match["number"].rstrip(".") if match["number"] != "." else "0")
    if match["exponent"]:
        number *= Fraction(10) ** int(match["exponent"])
    elif match["suffix"]:
        number *= _BINARY.get(match["suffix"]) or _DECIMAL[match["suffix"]]
    return -number if match["sign"] == "-" else number


def _written(text: str | float) -> str:
    if isinstance(text, bool) or not isinstance(text, str | int | float):
        raise _none(text)
    if isinstance(text, int) and text.bit_length() > _MOST_BITS:
        raise _none(text)
    written = text if isinstance(text, str) else repr(text)
    if len(written) > LONGEST_QUANTITY:
        raise _none(written)
    return written


def _none(text: object) -> ValueError:
    written = quoted(text)
    return ValueError(f"not a quantity: {written}; write a number with a suffix, as 500m or 2Gi")


def value(text: str | float) -> int:
    """Return whole units, rounded up: bytes, pods. Raises ValueError naming the text."""
    if isinstance(text, str) and len(text) <= _PLAIN and text.isascii():
        if text.isdecimal():
            return int(text)
        digits, suffix = text[:-2], text[-2:]
        if suffix in _BINARY and digits.isdecimal():
            return int(digits) * _BINARY[suffix]
    number = exact(text)
    return -(-number.numerator // number.denominator)


def milli(text: str | float) -> int:
    """Return thousandths, rounded up: cpu. Raises ValueError naming the text."""
    if isinstance(text, str) and len(text) <= _PLAIN and text.isascii():
        if text.isdecimal():
            return int(text) * 1000
        if text[-1:] == "m" and text[:-1].isdecimal():
            return int(text[:-1])
    number = exact(text) * 1000
    return -(-number.numerator // number.denominator)


def amount(resource: str, text: str | float) -> int:
    """Return thousandths for cpu, whole units for every other resource."""
    return milli(text) if resource == "cpu" else value(text)


def bounded(resource: str, text: str | float) -> int:
    """Return an `amount`, cut to 0..MOST_AMOUNT. Raises ValueError naming the text."""
    return between(0, amount(resource, text), MOST_AMOUNT)


def readable(resource: str, n: int) -> str:
    """Return an `amount` for tables, rounded down to one decimal, but not to 0: `23.5Gi`, `7.9`."""
    unit, suffix = (1000, "") if resource == "cpu" else (1, "")
    if resource == "memory":
        unit, suffix = next(
            ((_BINARY[s], s) for s in ("Ei", "Pi", "Ti", "Gi", "Mi", "Ki") if n >= _BINARY[s]),
            (unit, suffix),
        )
    whole, tenths = divmod(n * 10 // unit, 10)
    if not (whole or tenths):
        return render(resource, n)
    return f"{whole}.{tenths}{suffix}" if tenths else f"{whole}{suffix}"


def render(resource: str, n: int) -> str:
    """Return the canonical text of an `amount`: `3500m`, `4`, `12Gi`, `1500`."""
    if resource == "cpu":
        return str(n // 1000) if n % 1000 == 0 else f"{n}m"
    if resource in ("memory", "ephemeral-storage") or resource.startswith("hugepages-"):
        for suffix in ("Ei", "Pi", "Ti", "Gi", "Mi", "Ki"):
            if n and n % _BINARY[suffix] == 0:
                return f"{n // _BINARY[suffix]}{suffix}"
    return str(n)
