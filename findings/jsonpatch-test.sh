#!/bin/sh
# gopkg.in/evanphx/json-patch.v4 v4.13.0, by which the API server of Kubernetes 1.36 applies JSON patches: the guard `test`.
# Guess: as RFC 6902 says: numbers are equal if their values are, and a location that does not exist fails.
# Seen: 1 and 1.0 differ, so a client whose numbers are floats never gets its patch in; and a test for null passes where
# there is no such field. Both are the other way round in jsonpatch 1.48 (PyPI).
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
python3 -m venv "$dir/venv"
"$dir/venv/bin/pip" install -q --disable-pip-version-check jsonpatch==1.48
cd "$dir"
cat >apply.py <<'EOF'
import jsonpatch

for test in ('{"op":"test","path":"/replicas","value":1.0}', '{"op":"test","path":"/paused","value":null}'):
    try:
        jsonpatch.JsonPatch.from_string(f"[{test}]").apply({"replicas": 1})
        print("jsonpatch 1.48", test, "passes")
    except jsonpatch.JsonPatchException:
        print("jsonpatch 1.48", test, "fails")
EOF
cat >main.go <<'EOF'
package main

import (
	"fmt"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
)

func main() {
	for _, test := range []string{`{"op":"test","path":"/replicas","value":1.0}`, `{"op":"test","path":"/paused","value":null}`} {
		patch, err := jsonpatch.DecodePatch([]byte("[" + test + "]"))
		if err != nil {
			panic(err)
		}
		_, err = patch.Apply([]byte(`{"replicas":1}`))
		fmt.Println("json-patch.v4 v4.13.0", test, map[bool]string{true: "passes", false: "fails"}[err == nil])
	}
}
EOF
go mod init example.com/finding 2>log || cat log
go get gopkg.in/evanphx/json-patch.v4@v4.13.0 2>log || cat log
{ "$dir/venv/bin/python" apply.py; go run .; } >seen
cat seen
diff seen - <<'EOF' || { echo "the behaviour changed" >&2; exit 1; }
jsonpatch 1.48 {"op":"test","path":"/replicas","value":1.0} passes
jsonpatch 1.48 {"op":"test","path":"/paused","value":null} fails
json-patch.v4 v4.13.0 {"op":"test","path":"/replicas","value":1.0} fails
json-patch.v4 v4.13.0 {"op":"test","path":"/paused","value":null} passes
EOF
