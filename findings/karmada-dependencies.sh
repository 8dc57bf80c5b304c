#!/bin/sh
# github.com/karmada-io/karmada v1.18.1: what follows an object of a policy with propagateDeps: the ConfigMaps, Secrets and claims that its
# pods name, as its built-in interpreters find them.
# Guess: what an Argo Workflow and a RayCluster name follows them, as for a Deployment, a RayJob and a RayService with the same pod.
# Seen: of a Workflow the Secret of a volume stays behind, as its script reads `secret.name` where Kubernetes has `secret.secretName`, and
# what its templates name as well; a claim that the Workflow makes itself is said to be needed. Of a RayCluster nothing follows, since
# there is no script for it. The pods wait for a Secret on the cluster, and nothing is said.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
cat >objects.yaml <<'EOF'
apiVersion: apps/v1
kind: Deployment
spec:
  template:
    spec:
      volumes: [{name: key, secret: {secretName: mounted}}, {name: settings, configMap: {name: settings}}]
      containers: [{name: main, envFrom: [{secretRef: {name: environment}}]}]
---
apiVersion: argoproj.io/v1alpha1
kind: Workflow
spec:
  volumes: [{name: key, secret: {secretName: mounted}}, {name: settings, configMap: {name: settings}}]
  volumeClaimTemplates: [{metadata: {name: scratch}, spec: {accessModes: [ReadWriteOnce]}}]
  templates: [{name: main, container: {name: main, envFrom: [{secretRef: {name: environment}}]}}]
---
apiVersion: ray.io/v1
kind: RayJob
spec:
  rayClusterSpec:
    headGroupSpec:
      template:
        spec:
          volumes: [{name: key, secret: {secretName: mounted}}, {name: settings, configMap: {name: settings}}]
          containers: [{name: main, envFrom: [{secretRef: {name: environment}}]}]
---
apiVersion: ray.io/v1
kind: RayCluster
spec:
  headGroupSpec:
    template:
      spec:
        volumes: [{name: key, secret: {secretName: mounted}}, {name: settings, configMap: {name: settings}}]
        containers: [{name: main, envFrom: [{secretRef: {name: environment}}]}]
EOF
cat >main.go <<'EOF'
package main

import (
	"bytes"
	"fmt"
	"os"
	"slices"

	"github.com/karmada-io/karmada/pkg/apis/config/v1alpha1"
	"github.com/karmada-io/karmada/pkg/resourceinterpreter/default/native"
	"github.com/karmada-io/karmada/pkg/resourceinterpreter/default/thirdparty"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

func main() {
	file, err := os.ReadFile("objects.yaml")
	if err != nil {
		panic(err)
	}
	builtin, others := native.NewDefaultInterpreter(), thirdparty.NewConfigurableInterpreter()
	for _, document := range bytes.Split(file, []byte("---\n")) {
		object := &unstructured.Unstructured{}
		if err := yaml.UnmarshalStrict(document, &object.Object); err != nil {
			panic(err)
		}
		object.SetNamespace("ml")
		kind, found := object.GroupVersionKind(), []string{}
		known := true
		var needed []v1alpha1.DependentObjectReference
		if others.HookEnabled(kind, v1alpha1.InterpreterOperationInterpretDependency) {
			needed, _, err = others.GetDependencies(object)
		} else if known = builtin.HookEnabled(kind, v1alpha1.InterpreterOperationInterpretDependency); known {
			needed, err = builtin.GetDependencies(object)
		}
		if err != nil {
			panic(err)
		}
		for _, each := range needed {
			found = append(found, each.Kind+" "+each.Name)
		}
		slices.Sort(found)
		fmt.Printf("%s: asked %v: %q\n", kind.Kind, known, found)
	}
}
EOF
go mod init example.com/finding 2>log || cat log
go get github.com/karmada-io/karmada@v1.18.1 2>log || cat log
go mod tidy 2>log || cat log
go run . >seen
cat seen
diff seen - <<'EOF' || { echo "the behaviour changed" >&2; exit 1; }
Deployment: asked true: ["ConfigMap settings" "Secret environment" "Secret mounted"]
Workflow: asked true: ["ConfigMap settings" "PersistentVolumeClaim scratch"]
RayJob: asked true: ["ConfigMap settings" "Secret environment" "Secret mounted"]
RayCluster: asked false: []
EOF
