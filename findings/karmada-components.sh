#!/bin/sh
# github.com/karmada-io/karmada v1.18.1: its built-in interpreters of other projects' kinds, by whose count of pods and requests it chooses
# clusters and charges quotas (feature MultiplePodTemplatesScheduling).
# Guess: as many pods as each operator makes, with their requests: 8 of a Volcano task of 8 replicas, 2 x 4 of a Ray group of 2 with
# numOfHosts 4, 3 of one whose minReplicas is 3, and Spark executors of half a core, as their coreRequest says.
# Seen: 1, since minAvailable alone is read, which is optional; 2, since hosts are not; none; and executors of 4 cores, the threads of a
# JVM, which no node may have free. Nothing is raised: a Job is sent to a cluster with room for one of its pods.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
cat >objects.yaml <<'EOF'
apiVersion: batch.volcano.sh/v1alpha1
kind: Job
spec:
  minAvailable: 8
  tasks:
  - {name: worker, replicas: 8, template: {spec: {containers: [{name: main, resources: {requests: {cpu: "1"}}}]}}}
---
apiVersion: ray.io/v1
kind: RayCluster
spec:
  headGroupSpec: {template: {spec: {containers: [{name: main, resources: {requests: {cpu: "1"}}}]}}}
  workerGroupSpecs:
  - {groupName: slices, replicas: 2, numOfHosts: 4, template: {spec: {containers: [{name: main, resources: {requests: {cpu: "1"}}}]}}}
  - {groupName: scaled, minReplicas: 3, maxReplicas: 9, template: {spec: {containers: [{name: main, resources: {requests: {cpu: "1"}}}]}}}
---
apiVersion: sparkoperator.k8s.io/v1beta2
kind: SparkApplication
spec:
  type: Scala
  driver: {memory: 512m}
  executor: {instances: 2, cores: 4, coreRequest: 500m, memory: 512m}
EOF
cat >main.go <<'EOF'
package main

import (
	"bytes"
	"fmt"
	"os"

	"github.com/karmada-io/karmada/pkg/resourceinterpreter/default/thirdparty"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

func main() {
	file, err := os.ReadFile("objects.yaml")
	if err != nil {
		panic(err)
	}
	interpreter := thirdparty.NewConfigurableInterpreter()
	for _, document := range bytes.Split(file, []byte("---\n")) {
		object := &unstructured.Unstructured{}
		if err := yaml.UnmarshalStrict(document, &object.Object); err != nil {
			panic(err)
		}
		components, enabled, err := interpreter.GetComponents(object)
		fmt.Println(object.GetKind(), "known:", enabled, "error:", err)
		for _, each := range components {
			fmt.Println(" ", each.Name, "pods:", each.Replicas, "cpu:", each.ReplicaRequirements.ResourceRequest.Cpu())
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
Job known: true error: <nil>
  worker pods: 1 cpu: 1
RayCluster known: true error: <nil>
  ray-head pods: 1 cpu: 1
  slices pods: 2 cpu: 1
  scaled pods: 0 cpu: 1
SparkApplication known: true error: <nil>
  driver pods: 1 cpu: 1
  executor pods: 2 cpu: 4
EOF
