#!/bin/sh
# github.com/karmada-io/karmada v1.18.1: an OverridePolicy whose imageOverrider gives all images another registry or another tag.
# Guess: the named part is replaced, the other parts stay: an image that is pinned by its digest stays so, in each container of the pod.
# Seen: an image with a tag and a digest loses its digest, without a word: from the other registry comes whatever the tag says there. Images of
# init containers and sidecars stay at the old registry. A new tag removes a digest that stands alone as well; a suffix of the tag does not.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
cat >main.go <<'EOF'
package main

import (
	"fmt"
	"strings"

	clusterv1alpha1 "github.com/karmada-io/karmada/pkg/apis/cluster/v1alpha1"
	policyv1alpha1 "github.com/karmada-io/karmada/pkg/apis/policy/v1alpha1"
	"github.com/karmada-io/karmada/pkg/util/overridemanager"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/record"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/yaml"
)

const digest = "@sha256:8b56d0a1c1d4b0ab77d1ff9ae5a5c0d1f25a5e5f7a6e6b2e4c2f3a1b0c9d8e7f"
const deployment = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: shop}
spec:
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      initContainers:
      - {name: proxy, restartPolicy: Always, image: "old.example.com/proxy:1.4"}
      containers:
      - {name: tag, image: "old.example.com/web:1.4"}
      - {name: digest, image: "old.example.com/web` + digest + `"}
      - {name: both, image: "old.example.com/web:1.4` + digest + `"}
`

func main() {
	scheme := runtime.NewScheme()
	for _, install := range []func(*runtime.Scheme) error{clusterv1alpha1.Install, policyv1alpha1.Install} {
		if err := install(scheme); err != nil {
			panic(err)
		}
	}
	for _, overrider := range []policyv1alpha1.ImageOverrider{
		{Component: "Registry", Operator: "replace", Value: "new.example.com"},
		{Component: "Tag", Operator: "replace", Value: "1.5"},
		{Component: "Tag", Operator: "add", Value: "-eu"},
	} {
		cluster := &clusterv1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "one"}}
		policy := &policyv1alpha1.OverridePolicy{ObjectMeta: metav1.ObjectMeta{Name: "images", Namespace: "shop"}}
		overriders := policyv1alpha1.Overriders{ImageOverrider: []policyv1alpha1.ImageOverrider{overrider}}
		policy.Spec.OverrideRules = []policyv1alpha1.RuleWithCluster{{Overriders: overriders}}
		client := fake.NewClientBuilder().WithScheme(scheme).WithObjects(cluster, policy).Build()
		object := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(deployment), &object.Object); err != nil {
			panic(err)
		}
		manager := overridemanager.New(client, record.NewFakeRecorder(10))
		if _, _, err := manager.ApplyOverridePolicies(object, cluster.Name); err != nil {
			panic(err)
		}
		fmt.Println(overrider.Component, overrider.Operator, overrider.Value)
		for _, list := range []string{"initContainers", "containers"} {
			containers, _, _ := unstructured.NestedSlice(object.Object, "spec", "template", "spec", list)
			for _, each := range containers {
				container := each.(map[string]any)
				fmt.Printf("  %s: %s\n", container["name"], strings.ReplaceAll(container["image"].(string), digest, "@DIGEST"))
			}
		}
	}
}
EOF
go mod init example.com/finding 2>log || cat log
go get github.com/karmada-io/karmada@v1.18.1 2>log || cat log
go mod tidy 2>log || cat log
go run . >seen
cat seen
diff seen - <<'EOF' || { echo "the behaviour changed" >&2; exit 1; }
Registry replace new.example.com
  proxy: old.example.com/proxy:1.4
  tag: new.example.com/web:1.4
  digest: new.example.com/web@DIGEST
  both: new.example.com/web:1.4
Tag replace 1.5
  proxy: old.example.com/proxy:1.4
  tag: old.example.com/web:1.5
  digest: old.example.com/web:1.5
  both: old.example.com/web:1.5
Tag add -eu
  proxy: old.example.com/proxy:1.4
  tag: old.example.com/web:1.4-eu
  digest: old.example.com/web@DIGEST
  both: old.example.com/web:1.4-eu
EOF
