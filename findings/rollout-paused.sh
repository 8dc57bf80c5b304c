#!/bin/sh
# k8s.io/kubectl v0.36.3: what `kubectl rollout status` makes of a Deployment that is paused and was edited since.
# Guess: it says that the Deployment is paused, which spec and condition tell, and ends, as nothing can come.
# Seen: "Waiting for deployment ... 0 out of 3 new replicas have been updated", as of a rollout that begins; the word "paused" is
# nowhere. It waits without end unless --timeout is given, as a paused Deployment has no progress deadline.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
cat >main.go <<'EOF'
package main

import (
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/kubectl/pkg/polymorphichelpers"
)

func main() {
	viewer, err := polymorphichelpers.StatusViewerFor(appsv1.SchemeGroupVersion.WithKind("Deployment").GroupKind())
	if err != nil {
		panic(err)
	}
	object := &unstructured.Unstructured{}
	if err := object.UnmarshalJSON([]byte(`{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"web","generation":3},
		"spec":{"replicas":3,"paused":true},
		"status":{"observedGeneration":3,"replicas":3,"readyReplicas":3,"availableReplicas":3,"conditions":[
			{"type":"Available","status":"True"},{"type":"Progressing","status":"Unknown","reason":"DeploymentPaused"}]}}`)); err != nil {
		panic(err)
	}
	message, done, err := viewer.Status(object, 0)
	fmt.Printf("%q, ends: %v, %v\n", message, done, err)
}
EOF
go mod init example.com/finding 2>log || cat log
go get k8s.io/kubectl@v0.36.3 2>log || cat log
go mod tidy 2>log || cat log
go run . >seen
cat seen
diff seen - <<'EOF' || { echo "the behaviour changed" >&2; exit 1; }
"Waiting for deployment \"web\" rollout to finish: 0 out of 3 new replicas have been updated...\n", ends: false, <nil>
EOF
