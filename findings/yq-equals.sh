#!/bin/sh
# github.com/mikefarah/yq/v4 v4.54.3, beside jq 1.13.0 (PyPI), by which scripts choose among manifests.
# Guess: == is equality, of values of one type, as in jq.
# Seen: the right side is a pattern: host == "*.example.com" selects each host of that domain, and a del() with it takes all of them. A text
# equals the number or flag that it reads like, so "8080" and 8080 are one to unique as well.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
python3 -m venv "$dir/venv"
"$dir/venv/bin/pip" install -q --disable-pip-version-check jq==1.13.0
cd "$dir"
cat >object.json <<'EOF'
{"rules": [{"host": "shop.example.com"}, {"host": "*.example.com"}],
 "ports": [8080, "8080"], "on": true, "text": "true"}
EOF
cat >expressions <<'EOF'
[.rules[] | select(.host == "*.example.com") | .host]
del(.rules[] | select(.host == "*.example.com")) | .rules
.ports[0] == .ports[1]
.ports | unique
.on == .text
EOF
cat >ask.py <<'EOF'
import json

import jq

with open("object.json") as file, open("expressions") as expressions:
    text = file.read()
    for expression in expressions:
        print(json.dumps(jq.compile(expression).input_text(text).first()))
EOF
cat >main.go <<'EOF'
package main

import (
	"bufio"
	"fmt"
	"os"

	"github.com/mikefarah/yq/v4/pkg/yqlib"
)

func main() {
	text, err := os.ReadFile("object.json")
	if err != nil {
		panic(err)
	}
	lines := bufio.NewScanner(os.Stdin)
	yqlib.ConfiguredJSONPreferences.Indent, yqlib.ConfiguredJSONPreferences.ColorsEnabled = 0, false
	for lines.Scan() {
		encoder, decoder := yqlib.NewJSONEncoder(yqlib.ConfiguredJSONPreferences), yqlib.NewJSONDecoder()
		out, err := yqlib.NewStringEvaluator().Evaluate(lines.Text(), string(text), encoder, decoder)
		if err != nil {
			panic(err)
		}
		fmt.Print(out)
	}
}
EOF
go mod init example.com/finding 2>log || cat log
go get github.com/mikefarah/yq/v4@v4.54.3 2>log || cat log
go mod tidy 2>log || cat log
go run . <expressions >yq
"$dir/venv/bin/python" ask.py >jq
paste -d '\n' expressions yq jq | awk 'NR % 3 == 1 { print; next } { print "  " (NR % 3 == 2 ? "yq" : "jq") ": " $0 }' >seen
cat seen
diff seen - <<'EOF' || { echo "the behaviour changed" >&2; exit 1; }
[.rules[] | select(.host == "*.example.com") | .host]
  yq: ["shop.example.com","*.example.com"]
  jq: ["*.example.com"]
del(.rules[] | select(.host == "*.example.com")) | .rules
  yq: []
  jq: [{"host": "shop.example.com"}]
.ports[0] == .ports[1]
  yq: true
  jq: false
.ports | unique
  yq: [8080]
  jq: [8080, "8080"]
.on == .text
  yq: true
  jq: false
EOF
