#!/bin/sh
# cel-python 0.5.0 beside cel-expr-python 0.1.3 (both PyPI; the second binds Google's C++ implementation, cel-go says the same).
# Guess: an expression of a Kubernetes policy gives one result in all of them.
# Seen: cel-python writes values as Python does: string(true) is "True", string(1.0) "1.0", so a label or message made of
# them differs, and `string(object.spec.paused) == "true"` never holds.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
python3 -m venv "$dir/venv"
"$dir/venv/bin/pip" install -q --disable-pip-version-check cel-python==0.5.0 cel-expr-python==0.1.3
cat >"$dir/run.py" <<'EOF'
import celpy
from cel_expr_python import cel

reference = cel.NewEnv()
for text in ("string(true)", "string(1.0)", "string(1e6)", "string(90)"):
    environment = celpy.Environment()
    said = environment.program(environment.compile(text)).evaluate({})
    print(text, "| cel-python", repr(said), "| cel-expr-python", repr(reference.compile(text).eval(data={}).value()))
EOF
"$dir/venv/bin/python" "$dir/run.py" >"$dir/seen"
cat "$dir/seen"
diff "$dir/seen" - <<'EOF' || { echo "the behaviour changed" >&2; exit 1; }
string(true) | cel-python StringType('True') | cel-expr-python 'true'
string(1.0) | cel-python StringType('1.0') | cel-expr-python '1'
string(1e6) | cel-python StringType('1000000.0') | cel-expr-python '1e+06'
string(90) | cel-python StringType('90') | cel-expr-python '90'
EOF
