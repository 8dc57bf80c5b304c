#!/bin/sh
# k8s.io/apimachinery v0.36.3 (UnsafeGuessKindToResource, by which fake clients name what they serve) and kr8s 0.20.15 (PyPI;
# new_class): the plural of a kind.
# Guess: that of English, as in the names of the resources themselves: gateways, relays, indexes, ingresses, policies.
# Seen: Go has gatewaies, relaies and indexs. kr8s adds an s to all: ingresss, networkpolicys. What asks for these
# finds nothing on a real server; new_class takes the plural as well.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
python3 -m venv "$dir/venv"
"$dir/venv/bin/pip" install -q --disable-pip-version-check kr8s==0.20.15
cd "$dir"
cat >plurals.py <<'EOF'
from kr8s.objects import new_class

kinds = ("Gateway", "Relay", "Index", "Ingress", "NetworkPolicy")
print("kr8s 0.20.15:", *(new_class(kind, "example.com/v1").plural for kind in kinds))
EOF
cat >main.go <<'EOF'
package main

import (
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func main() {
	fmt.Print("apimachinery v0.36.3:")
	for _, kind := range []string{"Gateway", "Relay", "Index", "Ingress", "NetworkPolicy"} {
		plural, _ := meta.UnsafeGuessKindToResource(schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: kind})
		fmt.Print(" ", plural.Resource)
	}
	fmt.Println()
}
EOF
go mod init example.com/finding 2>log || cat log
go get k8s.io/apimachinery@v0.36.3 2>log || cat log
go mod tidy 2>log || cat log
{ "$dir/venv/bin/python" plurals.py; go run .; } >seen
cat seen
diff seen - <<'EOF' || { echo "the behaviour changed" >&2; exit 1; }
kr8s 0.20.15: gateways relays indexs ingresss networkpolicys
apimachinery v0.36.3: gatewaies relaies indexs ingresses networkpolicies
EOF
