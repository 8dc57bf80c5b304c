#!/bin/sh
# gopkg.in/evanphx/json-patch.v4 v4.13.0, by which the API server of Kubernetes 1.36 applies merge patches.
# Guess: a list of a merge patch is taken as it stands, the nulls in it too: RFC 7386 knows no merging below lists.
# Seen: fields that are null vanish from objects within the list, an object of the target that is replaced by it or not.
# A null that is an element itself stays. json-merge-patch 0.3.0 (PyPI) keeps both, as the RFC has it.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
python3 -m venv "$dir/venv"
"$dir/venv/bin/pip" install -q --disable-pip-version-check json-merge-patch==0.3.0
cd "$dir"
cat >merge.py <<'EOF'
import json

import json_merge_patch

patch = json.loads('{"list":[{"gone":null,"stays":1},null]}')
print("json-merge-patch 0.3.0", json.dumps(json_merge_patch.merge({"list": []}, patch), separators=(",", ":")))
EOF
cat >main.go <<'EOF'
package main

import (
	"fmt"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
)

func main() {
	merged, err := jsonpatch.MergePatch([]byte(`{"list":[]}`), []byte(`{"list":[{"gone":null,"stays":1},null]}`))
	fmt.Println("json-patch.v4 v4.13.0", string(merged), err)
}
EOF
go mod init example.com/finding 2>log || cat log
go get gopkg.in/evanphx/json-patch.v4@v4.13.0 2>log || cat log
{ "$dir/venv/bin/python" merge.py; go run .; } >seen
cat seen
diff seen - <<'EOF' || { echo "the behaviour changed" >&2; exit 1; }
json-merge-patch 0.3.0 {"list":[{"gone":null,"stays":1},null]}
json-patch.v4 v4.13.0 {"list":[{"stays":1},null]} <nil>
EOF
