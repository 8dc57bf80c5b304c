#!/bin/sh
# lightkube 1.0.1 (PyPI): parse_quantity on what the metrics API reports for cpu.
# Guess: Decimal("0.25"); the docstring takes "a K8s quantity" and links the definition, which has n, u and the exponent E.
# Seen: ValueError for the suffixes n and u, and for a decimal exponent with a capital E; the small e is read.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
python3 -m venv "$dir/venv"
"$dir/venv/bin/pip" install -q --disable-pip-version-check lightkube==1.0.1
cat >"$dir/parse.py" <<'EOF'
from importlib.metadata import version

from lightkube.utils.quantity import parse_quantity

print("lightkube", version("lightkube"))
for text in ("250m", "250000000n", "250000u", "1e3", "1E3"):
    try:
        print(text, "->", parse_quantity(text))
    except ValueError as error:
        print(text, "-> ValueError:", error)
EOF
"$dir/venv/bin/python" "$dir/parse.py" >"$dir/seen"
cat "$dir/seen"
diff "$dir/seen" - <<'EOF' || { echo "the behaviour changed" >&2; exit 1; }
lightkube 1.0.1
250m -> 0.250
250000000n -> ValueError: Invalid unit suffix: n
250000u -> ValueError: Invalid unit suffix: u
1e3 -> 1000.000
1E3 -> ValueError: Invalid unit suffix: E3
EOF
