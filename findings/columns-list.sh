#!/bin/sh
# k8s.io/apiextensions-apiserver v0.36.3: additionalPrinterColumns of a custom resource, as the API server fills them in, beside
# k8s.io/client-go v0.36.3, by which `kubectl -o jsonpath` prints the same path.
# Guess: one path, one text: the members of a list with spaces between them.
# Seen: the column has the first value and no sign that there are more, whether [*], a slice or a filter lets several through. Of an object
# that runs in three clusters `kubectl get` shows one. Only a path that ends at the list itself has all, as JSON.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
cat >main.go <<'EOF'
package main

import (
	"bytes"
	"context"
	"fmt"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/registry/customresource/tableconvertor"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/util/jsonpath"
)

const object = `{"apiVersion": "example.com/v1", "kind": "Application", "metadata": {"name": "web"}, "status": {
	"placement": ["paris", "tokyo", "oslo"],
	"clusters": [{"name": "paris", "replicas": 1, "state": "Failed"}, {"name": "tokyo", "replicas": 2, "state": "Ready"},
		{"name": "oslo", "replicas": 3, "state": "Failed"}]}}`

func main() {
	application := &unstructured.Unstructured{}
	if err := application.UnmarshalJSON([]byte(object)); err != nil {
		panic(err)
	}
	for _, column := range []apiextensionsv1.CustomResourceColumnDefinition{
		{Type: "string", JSONPath: ".status.clusters[*].name"},
		{Type: "integer", JSONPath: ".status.clusters[*].replicas"},
		{Type: "string", JSONPath: `.status.clusters[?(@.state=="Failed")].name`},
		{Type: "string", JSONPath: ".status.clusters[0:2].name"},
		{Type: "string", JSONPath: ".status.placement[*]"},
		{Type: "string", JSONPath: ".status.placement"},
	} {
		convertor, err := tableconvertor.New([]apiextensionsv1.CustomResourceColumnDefinition{column})
		if err != nil {
			panic(err)
		}
		table, err := convertor.ConvertToTable(context.Background(), application, nil)
		if err != nil {
			panic(err)
		}
		path, printed := jsonpath.New("path"), &bytes.Buffer{}
		if err := path.Parse("{" + column.JSONPath + "}"); err != nil {
			panic(err)
		}
		if err := path.Execute(printed, application.Object); err != nil {
			panic(err)
		}
		fmt.Printf("%s: column %v, jsonpath %s\n", column.JSONPath, table.Rows[0].Cells[1], printed)
	}
}
EOF
go mod init example.com/finding 2>log || cat log
go get k8s.io/apiextensions-apiserver@v0.36.3 2>log || cat log
go mod tidy 2>log || cat log
go run . >seen
cat seen
diff seen - <<'EOF' || { echo "the behaviour changed" >&2; exit 1; }
.status.clusters[*].name: column paris, jsonpath paris tokyo oslo
.status.clusters[*].replicas: column 1, jsonpath 1 2 3
.status.clusters[?(@.state=="Failed")].name: column paris, jsonpath paris oslo
.status.clusters[0:2].name: column paris, jsonpath paris tokyo
.status.placement[*]: column paris, jsonpath paris tokyo oslo
.status.placement: column ["paris","tokyo","oslo"], jsonpath ["paris","tokyo","oslo"]
EOF
