#!/bin/sh
# k8s.io/client-go v0.36.3: the JSONPath of `kubectl -o jsonpath`, of printer columns and of `kubectl wait`, beside jsonpath-rfc9535 1.0.1
# (PyPI): the nodes whose spec.unschedulable is not true, a field that only nodes that were cordoned have.
# Guess: each node but the one that is cordoned: what is absent is not equal to true, as in RFC 9535.
# Seen: those that lack the field are left out, with != too: of a fleet where nothing was ever cordoned it gives no node. Neither "not" nor
# "and" is known, by which it could be said otherwise.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
python3 -m venv "$dir/venv"
"$dir/venv/bin/pip" install -q --disable-pip-version-check jsonpath-rfc9535==1.0.1
cd "$dir"
cat >nodes.json <<'EOF'
{"items": [
  {"name": "never-cordoned", "spec": {}},
  {"name": "cordoned", "spec": {"unschedulable": true}},
  {"name": "set-false", "spec": {"unschedulable": false}}
]}
EOF
cat >filters <<'EOF'
@.spec.unschedulable != true
@.spec.unschedulable == true
@.spec.unschedulable
!@.spec.unschedulable
@.spec.unschedulable != true && @.name != "set-false"
EOF
cat >find.py <<'EOF'
import json

import jsonpath_rfc9535

nodes = json.load(open("nodes.json"))
for line in open("filters"):
    print("RFC 9535:", line.strip(), "->", *jsonpath_rfc9535.find(f"$.items[?{line.strip()}].name", nodes).values())
EOF
cat >main.go <<'EOF'
package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"os"

	"k8s.io/client-go/util/jsonpath"
)

func main() {
	data, err := os.ReadFile("nodes.json")
	if err != nil {
		panic(err)
	}
	var nodes any
	if err := json.Unmarshal(data, &nodes); err != nil {
		panic(err)
	}
	file, err := os.Open("filters")
	if err != nil {
		panic(err)
	}
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		path := jsonpath.New("nodes").AllowMissingKeys(true)
		var found bytes.Buffer
		err := path.Parse("{.items[?(" + lines.Text() + ")].name}")
		if err == nil {
			err = path.Execute(&found, nodes)
		}
		fmt.Println("kubectl:", lines.Text(), "->", found.String(), err)
	}
}
EOF
go mod init example.com/finding 2>log || cat log
go get k8s.io/client-go@v0.36.3 2>log || cat log
go mod tidy 2>log || cat log
go run . >seen
venv/bin/python find.py >>seen
cat seen
diff seen - <<'EOF' || { echo "the behaviour changed" >&2; exit 1; }
kubectl: @.spec.unschedulable != true -> set-false <nil>
kubectl: @.spec.unschedulable == true -> cordoned <nil>
kubectl: @.spec.unschedulable -> cordoned set-false <nil>
kubectl: !@.spec.unschedulable ->  unrecognized character in action: U+0021 '!'
kubectl: @.spec.unschedulable != true && @.name != "set-false" ->  unrecognized character in action: U+0026 '&'
RFC 9535: @.spec.unschedulable != true -> never-cordoned set-false
RFC 9535: @.spec.unschedulable == true -> cordoned
RFC 9535: @.spec.unschedulable -> cordoned set-false
RFC 9535: !@.spec.unschedulable -> never-cordoned
RFC 9535: @.spec.unschedulable != true && @.name != "set-false" -> never-cordoned
EOF
