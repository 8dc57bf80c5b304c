#!/bin/sh
# sigs.k8s.io/kustomize/api v0.21.1, the kustomize of kubectl 0.36.3: `labels` with includeSelectors.
# Guess: the label comes into the selectors that select what got the label, and objects work as before.
# Seen: it comes into the selectors of others too: the pods of another namespace that a NetworkPolicy lets in, and those of another
# application that a pod must run beside, must now bear it as well. A Service without a selector, whose endpoints somebody else
# writes, gets one. A selector of match expressions, as of the PodDisruptionBudget, gets none.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
cat >kustomization.yaml <<'EOF'
resources: [all.yaml]
labels: [{pairs: {team: shop}, includeSelectors: true}]
EOF
cat >all.yaml <<'EOF'
{apiVersion: v1, kind: Service, metadata: {name: outside}, spec: {ports: [{port: 5432}]}}
---
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: web}
spec:
  podSelector: {matchLabels: {app: web}}
  ingress: [{from: [{namespaceSelector: {matchLabels: {name: monitoring}}, podSelector: {matchLabels: {app: prometheus}}}]}]
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: web}
spec: {minAvailable: 1, selector: {matchExpressions: [{key: app, operator: In, values: [web]}]}}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      affinity:
        podAffinity:
          requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: zone, labelSelector: {matchLabels: {app: cache}}}]
EOF
cat >main.go <<'EOF'
package main

import (
	"fmt"

	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
)

func main() {
	built, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), ".")
	if err != nil {
		panic(err)
	}
	for _, object := range built.Resources() {
		text, err := object.MarshalJSON()
		if err != nil {
			panic(err)
		}
		fmt.Println(string(text))
	}
}
EOF
go mod init example.com/finding 2>log || cat log
go get sigs.k8s.io/kustomize/api@v0.21.1 2>log || cat log
go mod tidy 2>log || cat log
go run . >seen
cat seen
diff seen - <<'EOF' || { echo "the behaviour changed" >&2; exit 1; }
{"apiVersion":"v1","kind":"Service","metadata":{"labels":{"team":"shop"},"name":"outside"},"spec":{"ports":[{"port":5432}],"selector":{"team":"shop"}}}
{"apiVersion":"networking.k8s.io/v1","kind":"NetworkPolicy","metadata":{"labels":{"team":"shop"},"name":"web"},"spec":{"ingress":[{"from":[{"namespaceSelector":{"matchLabels":{"name":"monitoring"}},"podSelector":{"matchLabels":{"app":"prometheus","team":"shop"}}}]}],"podSelector":{"matchLabels":{"app":"web","team":"shop"}}}}
{"apiVersion":"policy/v1","kind":"PodDisruptionBudget","metadata":{"labels":{"team":"shop"},"name":"web"},"spec":{"minAvailable":1,"selector":{"matchExpressions":[{"key":"app","operator":"In","values":["web"]}]}}}
{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"labels":{"team":"shop"},"name":"web"},"spec":{"selector":{"matchLabels":{"app":"web","team":"shop"}},"template":{"metadata":{"labels":{"app":"web","team":"shop"}},"spec":{"affinity":{"podAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":[{"labelSelector":{"matchLabels":{"app":"cache","team":"shop"}},"topologyKey":"zone"}]}}}}}}
EOF
