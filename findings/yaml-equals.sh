#!/bin/sh
# PyYAML 6.0.4 (PyPI) beside sigs.k8s.io/yaml v1.6.0: the bare scalar "=", as in the operators of an alert matcher or
# the arguments of `test "$A" = b`.
# Guess: the string "=", as Kubernetes reads it.
# Seen: safe_load raises ConstructorError: PyYAML resolves "=" to YAML 1.1's tag "value" and has no constructor for it.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
python3 -m venv "$dir/venv"
"$dir/venv/bin/pip" install -q --disable-pip-version-check pyyaml==6.0.4
cd "$dir"
echo 'command: [test, a, =, b]' >pod.yaml
cat >read.py <<'EOF'
import yaml

try:
    print("PyYAML", yaml.__version__, yaml.safe_load(open("pod.yaml")))
except yaml.YAMLError as error:
    print("PyYAML", yaml.__version__, type(error).__name__, error.problem)
EOF
cat >main.go <<'EOF'
package main

import (
	"fmt"
	"os"

	"sigs.k8s.io/yaml"
)

func main() {
	text, _ := os.ReadFile("pod.yaml")
	json, err := yaml.YAMLToJSON(text)
	fmt.Println("sigs.k8s.io/yaml v1.6.0", string(json), err)
}
EOF
go mod init example.com/finding 2>log || cat log
go get sigs.k8s.io/yaml@v1.6.0 2>log || cat log
{ "$dir/venv/bin/python" read.py; go run .; } >seen
cat seen
diff seen - <<'EOF' || { echo "the behaviour changed" >&2; exit 1; }
PyYAML 6.0.4 ConstructorError could not determine a constructor for the tag 'tag:yaml.org,2002:value'
sigs.k8s.io/yaml v1.6.0 {"command":["test","a","=","b"]} <nil>
EOF
