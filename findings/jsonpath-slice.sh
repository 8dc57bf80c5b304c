#!/bin/sh
# k8s.io/client-go v0.36.3: the JSONPath of `kubectl -o jsonpath`, beside jsonpath-rfc9535 1.0.1 (PyPI).
# Guess: {.items[0:5]} are the first five at most, as in RFC 9535 and in the slices of Python that the syntax is from.
# Seen: an error where there are fewer, also with AllowMissingKeys, which kubectl sets.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
python3 -m venv "$dir/venv"
"$dir/venv/bin/pip" install -q --disable-pip-version-check jsonpath-rfc9535==1.0.1
cd "$dir"
echo '{"items":[{"name":"a","replicas":3,"load":3.5},{"name":"b","replicas":1,"load":0.5}]}' >list.json
cat >find.py <<'EOF'
import json

from jsonpath_rfc9535 import find

document = json.load(open("list.json"))
for path in ("$.items[0:2].name", "$.items[0:5].name"):
    print("jsonpath-rfc9535 1.0.1", path, "->", *(node.value for node in find(path, document)))
EOF
cat >main.go <<'EOF'
package main

import (
	"bytes"
	"fmt"
	"os"

	"k8s.io/apimachinery/pkg/util/json"
	"k8s.io/client-go/util/jsonpath"
)

func main() {
	text, _ := os.ReadFile("list.json")
	document := map[string]any{}
	if err := json.Unmarshal(text, &document); err != nil {
		panic(err)
	}
	for _, path := range []string{"{.items[0:2].name}", "{.items[0:5].name}"} {
		said := bytes.Buffer{}
		parsed := jsonpath.New("finding").AllowMissingKeys(true)
		if err := parsed.Parse(path); err != nil {
			panic(err)
		}
		err := parsed.Execute(&said, document)
		fmt.Println("client-go v0.36.3", path, "->", said.String(), err)
	}
}
EOF
go mod init example.com/finding 2>log || cat log
go get k8s.io/client-go@v0.36.3 2>log || cat log
go mod tidy 2>log || cat log
{ "$dir/venv/bin/python" find.py; go run .; } >seen
cat seen
diff seen - <<'EOF' || { echo "the behaviour changed" >&2; exit 1; }
jsonpath-rfc9535 1.0.1 $.items[0:2].name -> a b
jsonpath-rfc9535 1.0.1 $.items[0:5].name -> a b
client-go v0.36.3 {.items[0:2].name} -> a b <nil>
client-go v0.36.3 {.items[0:5].name} ->  array index out of bounds: index 4, length 2
EOF
