#!/bin/sh
# PyYAML 6.0.4 (PyPI) beside sigs.k8s.io/yaml v1.6.0, which kubectl and most controllers read YAML with.
# Guess: a string that PyYAML writes comes back as that string: both are YAML 1.1.
# Seen: "y", "n", "1e3" and "0o17" are written without quotes, since PyYAML's own rules for booleans, floats and octal
# numbers are narrower: Kubernetes reads true, false, 1000 and 15. A commit "4815162e3" turns into a number, and a
# property y of a CustomResourceDefinition into "true".
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
python3 -m venv "$dir/venv"
"$dir/venv/bin/pip" install -q --disable-pip-version-check pyyaml==6.0.4
cd "$dir"
cat >write.py <<'EOF'
import yaml

for text in ("y", "n", "1e3", "4815162e3", "0o17", "yes", "017"):
    document = {text: text}
    assert yaml.safe_load(yaml.safe_dump(document)) == document
    print(yaml.safe_dump(document), end="")
EOF
cat >main.go <<'EOF'
package main

import (
	"bufio"
	"fmt"
	"os"

	"sigs.k8s.io/yaml"
)

func main() {
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		json, err := yaml.YAMLToJSON(lines.Bytes())
		if err != nil {
			panic(err)
		}
		fmt.Println(lines.Text(), "->", string(json))
	}
}
EOF
go mod init example.com/finding 2>log || cat log
go get sigs.k8s.io/yaml@v1.6.0 2>log || cat log
"$dir/venv/bin/python" write.py | go run . >seen
cat seen
diff seen - <<'EOF' || { echo "the behaviour changed" >&2; exit 1; }
y: y -> {"true":true}
n: n -> {"false":false}
1e3: 1e3 -> {"1000":1000}
4815162e3: 4815162e3 -> {"4.815162e+09":4815162000}
0o17: 0o17 -> {"15":15}
'yes': 'yes' -> {"yes":"yes"}
'017': '017' -> {"017":"017"}
EOF
