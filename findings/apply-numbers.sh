#!/bin/sh
# k8s.io/apimachinery v0.36.3: CreateThreeWayJSONMergePatch, by which `kubectl apply` makes its patch for custom kinds, from what was applied
# before, what is applied now, and what the cluster has.
# Guess: the patch has what differs, as it stands in the file: numbers of a custom object are 64 bits wide, in kubectl and the API server.
# Seen: numbers go through floats, which hold 53 bits of one: an account of 7301234567890123402 is written as 7301234567890124000 to an
# object that had another, and a change in the last digits gives an empty patch, so kubectl says "unchanged". Only who creates the object
# gets the number of the file. As a text it stays.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
cat >main.go <<'EOF'
package main

import (
	"fmt"

	"k8s.io/apimachinery/pkg/util/jsonmergepatch"
)

func show(before, after string) {
	object := func(account string) []byte {
		return fmt.Appendf(nil, `{"apiVersion": "example.com/v1", "kind": "Tenant", "metadata": {"name": "shop"}, "spec": {"account": %s}}`, account)
	}
	patch, err := jsonmergepatch.CreateThreeWayJSONMergePatch(object(before), object(after), object(before))
	fmt.Println("account", before, "->", after, "patch:", string(patch), err)
}

func main() {
	show("1001", "1002")
	show("1001", "7301234567890123402")
	show("7301234567890123401", "7301234567890123402")
	show(`"7301234567890123401"`, `"7301234567890123402"`)
}
EOF
go mod init example.com/finding 2>log || cat log
go get k8s.io/apimachinery@v0.36.3 2>log || cat log
go mod tidy 2>log || cat log
go run . >seen
cat seen
diff seen - <<'EOF' || { echo "the behaviour changed" >&2; exit 1; }
account 1001 -> 1002 patch: {"spec":{"account":1002}} <nil>
account 1001 -> 7301234567890123402 patch: {"spec":{"account":7301234567890124000}} <nil>
account 7301234567890123401 -> 7301234567890123402 patch: {} <nil>
account "7301234567890123401" -> "7301234567890123402" patch: {"spec":{"account":"7301234567890123402"}} <nil>
EOF
