#!/bin/sh
# github.com/kubestellar/kubestellar v0.30.0: CleanObjectSpecifics, which takes out of a Job or a Service what one cluster has set in it before
# the object goes to the others.
# Guess: what a controller or the API server fills in goes, the addresses, node ports and generated selectors; what the user chose stays.
# Seen: a Job loses `suspend: true`, so each cluster starts what waits for its release, and it loses the selector that `manualSelector: true`
# stands for. A Service loses its session affinity, both traffic policies and its two address families, without a word: in the clusters it
# spreads the requests of a client, and hides its address.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
cat >objects.yaml <<'EOF'
apiVersion: batch/v1
kind: Job
metadata: {name: waits}
spec:
  suspend: true
  template:
    spec: {restartPolicy: Never, containers: [{name: migrate, image: migrate:1}]}
---
apiVersion: batch/v1
kind: Job
metadata: {name: selects}
spec:
  manualSelector: true
  selector: {matchLabels: {app: migrate}}
  template:
    metadata: {labels: {app: migrate}}
    spec: {restartPolicy: Never, containers: [{name: migrate, image: migrate:1}]}
---
apiVersion: v1
kind: Service
metadata: {name: web}
spec:
  type: LoadBalancer
  selector: {app: web}
  ports: [{port: 80}]
  sessionAffinity: ClientIP
  sessionAffinityConfig: {clientIP: {timeoutSeconds: 600}}
  externalTrafficPolicy: Local
  internalTrafficPolicy: Local
  ipFamilyPolicy: RequireDualStack
  ipFamilies: [IPv6, IPv4]
EOF
cat >main.go <<'EOF'
package main

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"slices"

	"github.com/kubestellar/kubestellar/pkg/transport/generic/filtering"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

func main() {
	file, err := os.ReadFile("objects.yaml")
	if err != nil {
		panic(err)
	}
	for _, document := range bytes.Split(file, []byte("---\n")) {
		object := &unstructured.Unstructured{}
		if err := yaml.Unmarshal(document, &object.Object); err != nil {
			panic(err)
		}
		before := object.DeepCopy().Object["spec"].(map[string]any)
		filtering.NewObjectFilteringMap().CleanObjectSpecifics(object)
		after := object.Object["spec"].(map[string]any)
		for _, field := range slices.Sorted(maps.Keys(before)) {
			if _, kept := after[field]; !kept {
				fmt.Println(object.GetKind(), object.GetName(), "loses", field, before[field])
			}
		}
		fmt.Println(object.GetKind(), object.GetName(), "keeps", slices.Sorted(maps.Keys(after)))
	}
}
EOF
go mod init example.com/finding 2>log || cat log
go get github.com/kubestellar/kubestellar@v0.30.0 2>log || cat log
go mod tidy 2>log || cat log
go run . >seen
cat seen
diff seen - <<'EOF' || { echo "the behaviour changed" >&2; exit 1; }
Job waits loses suspend true
Job waits keeps [template]
Job selects loses selector map[matchLabels:map[app:migrate]]
Job selects keeps [manualSelector template]
Service web loses externalTrafficPolicy Local
Service web loses internalTrafficPolicy Local
Service web loses ipFamilies [IPv6 IPv4]
Service web loses ipFamilyPolicy RequireDualStack
Service web loses sessionAffinity ClientIP
Service web keeps [ports selector sessionAffinityConfig type]
EOF
