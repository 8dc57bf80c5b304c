#!/bin/sh
# jsonnet 0.22.0, gojsonnet 0.22.0 and rjsonnet 0.5.6 (PyPI): Jsonnet in C++, Go and Rust, and its std.parseYaml on manifests.
# Guess: one value in all three, that of a manifest as kubectl reads it: 0644 is 420, yes is true; one document is one value.
# Seen: Go's values are kubectl's. In C++ 0644, yes and ~ are texts, and an alias that is merged is the text "*labels"; Rust keeps yes as a
# text, and the merge key as a field. One document is a list of one in C++ and Go as soon as it begins with ---, and an object in Rust.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
python3 -m venv "$dir/venv"
"$dir/venv/bin/pip" install -q --disable-pip-version-check jsonnet==0.22.0 gojsonnet==0.22.0 rjsonnet==0.5.6
cat >"$dir/read.py" <<'EOF'
import importlib.metadata
import json

import _gojsonnet
import _jsonnet
import rjsonnet

manifest = """
defaultMode: 0644
readOnly: yes
nodeName: ~
labels: &labels {app: web}
selector: {<<: *labels, tier: front}
"""
libraries = {"jsonnet": _jsonnet, "gojsonnet": _gojsonnet, "rjsonnet": rjsonnet}
for name, library in libraries.items():
    print(name, importlib.metadata.version(name))
    for key in "defaultMode", "readOnly", "nodeName", "selector":
        print(" ", key, library.evaluate_snippet("x", f"std.parseYaml({json.dumps(manifest)}).{key}").replace("\n", ""))
    document = "---\\nreplicas: 3\\n"
    print("  one document:", library.evaluate_snippet("x", f'std.type(std.parseYaml("{document}"))').strip())
EOF
"$dir/venv/bin/python" "$dir/read.py" >"$dir/seen"
cd "$dir"
cat seen
diff seen - <<'EOF' || { echo "the behaviour changed" >&2; exit 1; }
jsonnet 0.22.0
  defaultMode "0644"
  readOnly "yes"
  nodeName "~"
  selector {   "<<": "*labels",   "tier": "front"}
  one document: "array"
gojsonnet 0.22.0
  defaultMode 420
  readOnly true
  nodeName null
  selector {   "app": "web",   "tier": "front"}
  one document: "array"
rjsonnet 0.5.6
  defaultMode 420
  readOnly "yes"
  nodeName null
  selector {    "<<": {        "app": "web"    },    "tier": "front"}
  one document: "object"
EOF
