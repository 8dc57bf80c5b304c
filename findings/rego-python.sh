#!/bin/sh
# regopy 1.5.2 (PyPI; Microsoft's Rego for C++) beside github.com/open-policy-agent/opa v1.22.4: expressions of ordinary policies.
# Guess: one result in both, as regopy says that it is an interpreter of the same language.
# Seen: object.union, by which a policy lays a cluster's settings over defaults, replaces nested objects instead of merging them.
# semver.compare calls a version older if any of its three numbers is less: 2.0.0 is older than 1.9.9, and 1.10.0 and 1.2.0 are each
# older than the other. Elements of a set are joined unsorted, and max knows another order of types. Nothing is raised.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
python3 -m venv "$dir/venv"
"$dir/venv/bin/pip" install -q --disable-pip-version-check regopy==1.5.2
cd "$dir"
cat >expressions <<'EOF'
object.union({"resources": {"cpu": "1", "memory": "1Gi"}}, {"resources": {"cpu": "2"}})
semver.compare("1.36.3", "1.35.3")
semver.compare("2.0.0", "1.9.9")
semver.compare("1.10.0", "1.2.0")
semver.compare("1.2.0", "1.10.0")
semver.compare("1.36.3+k3s1", "1.36.3")
concat(",", {"tokyo", "paris"})
max([1, "latest"])
units.parse("1.5Gi")
EOF
cat >run.py <<'EOF'
import importlib.metadata
import json

from regopy import Interpreter

print("regopy", importlib.metadata.version("regopy"))
interpreter = Interpreter()
for line in open("expressions"):
    result = json.loads(str(interpreter.query("x = " + line)))
    print(line.strip(), "->", json.dumps(result["bindings"]["x"], sort_keys=True))
EOF
cat >main.go <<'EOF'
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"

	"github.com/open-policy-agent/opa/v1/rego"
)

func main() {
	file, err := os.Open("expressions")
	if err != nil {
		panic(err)
	}
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		results, err := rego.New(rego.Query("x = " + lines.Text())).Eval(context.Background())
		if err != nil {
			panic(err)
		}
		text, _ := json.Marshal(results[0].Bindings["x"])
		fmt.Println(lines.Text(), "->", string(text))
	}
}
EOF
go mod init example.com/finding 2>log || cat log
go get github.com/open-policy-agent/opa@v1.22.4 2>log || cat log
go mod tidy 2>log || cat log
venv/bin/python run.py >seen
echo OPA >>seen
go run . >>seen
cat seen
diff seen - <<'EOF' || { echo "the behaviour changed" >&2; exit 1; }
regopy 1.5.2
object.union({"resources": {"cpu": "1", "memory": "1Gi"}}, {"resources": {"cpu": "2"}}) -> {"resources": {"cpu": "2"}}
semver.compare("1.36.3", "1.35.3") -> 1
semver.compare("2.0.0", "1.9.9") -> -1
semver.compare("1.10.0", "1.2.0") -> -1
semver.compare("1.2.0", "1.10.0") -> -1
semver.compare("1.36.3+k3s1", "1.36.3") -> 1
concat(",", {"tokyo", "paris"}) -> "tokyo,paris"
max([1, "latest"]) -> 1
units.parse("1.5Gi") -> 1610612736
OPA
object.union({"resources": {"cpu": "1", "memory": "1Gi"}}, {"resources": {"cpu": "2"}}) -> {"resources":{"cpu":"2","memory":"1Gi"}}
semver.compare("1.36.3", "1.35.3") -> 1
semver.compare("2.0.0", "1.9.9") -> 1
semver.compare("1.10.0", "1.2.0") -> 1
semver.compare("1.2.0", "1.10.0") -> -1
semver.compare("1.36.3+k3s1", "1.36.3") -> 0
concat(",", {"tokyo", "paris"}) -> "paris,tokyo"
max([1, "latest"]) -> "latest"
units.parse("1.5Gi") -> 1610612736
EOF
