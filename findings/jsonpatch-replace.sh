#!/bin/sh
# gopkg.in/evanphx/json-patch.v4 v4.13.0, by which the API server of Kubernetes 1.36 applies JSON patches, beside jsonpatch 1.48
# (PyPI).
# Guess: to replace a field that the object lacks is an error, as RFC 6902 demands and jsonpatch has it.
# Seen: the field is added. A patch that fits the objects of one cluster only, or misspells a label, "succeeds" on all; `remove`
# of the same field fails.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
python3 -m venv "$dir/venv"
"$dir/venv/bin/pip" install -q --disable-pip-version-check jsonpatch==1.48
cd "$dir"
cat >patch.py <<'EOF'
import json

import jsonpatch

for operation in ({"op": "replace", "path": "/labels/teir", "value": "web"}, {"op": "remove", "path": "/labels/teir"}):
    try:
        said = json.dumps(jsonpatch.apply_patch({"labels": {"tier": "db"}}, [operation]))
    except jsonpatch.JsonPatchConflict as error:
        said = f"JsonPatchConflict: {error}"
    print("jsonpatch:", operation["op"], said)
EOF
cat >main.go <<'EOF'
package main

import (
	"fmt"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
)

func main() {
	for _, operation := range []string{"replace", "remove"} {
		patch, err := jsonpatch.DecodePatch([]byte(`[{"op":"` + operation + `","path":"/labels/teir","value":"web"}]`))
		if err != nil {
			panic(err)
		}
		patched, err := patch.Apply([]byte(`{"labels":{"tier":"db"}}`))
		fmt.Println("json-patch.v4:", operation, string(patched), err)
	}
}
EOF
go mod init example.com/finding 2>log || cat log
go get gopkg.in/evanphx/json-patch.v4@v4.13.0 2>log || cat log
{ "$dir/venv/bin/python" patch.py; go run .; } >seen
cat seen
diff seen - <<'EOF' || { echo "the behaviour changed" >&2; exit 1; }
jsonpatch: replace JsonPatchConflict: can't replace a non-existent object 'teir'
jsonpatch: remove JsonPatchConflict: can't remove a non-existent object 'teir'
json-patch.v4: replace {"labels":{"teir":"web","tier":"db"}} <nil>
json-patch.v4: remove  error in remove for path: '/labels/teir': Unable to remove nonexistent key: teir: missing value
EOF
