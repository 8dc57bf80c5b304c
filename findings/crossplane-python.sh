#!/bin/sh
# crossplane-function-sdk-python 0.15.1 (PyPI): a composition function that makes children for a composite resource.
# Guess: child_name(), whose hash is there for uniqueness, names the children of two parents apart; a whole number comes back as one.
# Seen: the hash is that of the joined text, so "db" of "shop-a" and "a-db" of "shop" have one name, that of one object for two parents.
# replicas: 3 is 3.0 to struct_to_dict(): "web-3.0" is no name, range() raises, and of 64 bits 53 are kept.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
python3 -m venv "$dir/venv"
"$dir/venv/bin/pip" install -q --disable-pip-version-check crossplane-function-sdk-python==0.15.1
cat >"$dir/function.py" <<'EOF'
from crossplane.function import resource

for parts in (("shop-a", "db"), ("shop", "a-db"), ("shop", "b-db")):
    print(parts, resource.child_name(*parts))
composite = resource.dict_to_struct({"spec": {"replicas": 3, "account": 9007199254740993}})
spec = resource.struct_to_dict(composite)["spec"]
print(f"web-{spec['replicas']}", int(spec["account"]))
try:
    range(spec["replicas"])
except TypeError as error:
    print(error)
EOF
"$dir/venv/bin/python" "$dir/function.py" >"$dir/seen"
cat "$dir/seen"
diff "$dir/seen" - <<'EOF' || { echo "the behaviour changed" >&2; exit 1; }
('shop-a', 'db') shop-a-db-23adc
('shop', 'a-db') shop-a-db-23adc
('shop', 'b-db') shop-b-db-cda28
web-3.0 9007199254740992
'float' object cannot be interpreted as an integer
EOF
