#!/bin/sh
# github.com/Masterminds/sprig/v3 v3.3.0, the functions of Helm's templates: merge and mergeOverwrite, on settings of one cluster and common ones.
# Guess: merge keeps what the first dictionary sets, as its documentation says that this one has precedence, flags and numbers too; the result
# is that of mergeOverwrite with the two the other way round.
# Seen: false, 0, "" and an empty list of the first give way to what the second sets: `enabled: false` and `replicas: 0` of a cluster are lost,
# deeper down as well. By mergeOverwrite they stay.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
cat >main.go <<'EOF'
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"text/template"

	"github.com/Masterminds/sprig/v3"
)

const cluster = `{"enabled": false, "replicas": 0, "image": {"tag": "", "args": []}, "cpu": null, "zone": "a"}`
const common = `{"enabled": true, "replicas": 3, "image": {"tag": "v1", "args": ["-v"]}, "cpu": "1", "zone": "b"}`

func main() {
	for _, text := range []string{"merge .cluster .common", "mergeOverwrite .common .cluster"} {
		values := map[string]any{}
		input := fmt.Sprintf(`{"cluster": %s, "common": %s}`, cluster, common)
		if err := json.NewDecoder(strings.NewReader(input)).Decode(&values); err != nil {
			panic(err)
		}
		fmt.Print(text, ": ")
		parsed := template.Must(template.New("").Funcs(sprig.TxtFuncMap()).Parse("{{ " + text + " | toJson }}\n"))
		if err := parsed.Execute(os.Stdout, values); err != nil {
			panic(err)
		}
	}
}
EOF
go mod init example.com/finding 2>log || cat log
go get github.com/Masterminds/sprig/v3@v3.3.0 2>log || cat log
go mod tidy 2>log || cat log
go run . >seen
cat seen
diff seen - <<'EOF' || { echo "the behaviour changed" >&2; exit 1; }
merge .cluster .common: {"cpu":"1","enabled":true,"image":{"args":["-v"],"tag":"v1"},"replicas":3,"zone":"a"}
mergeOverwrite .common .cluster: {"cpu":null,"enabled":false,"image":{"args":[],"tag":""},"replicas":0,"zone":"a"}
EOF
