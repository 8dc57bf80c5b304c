#!/bin/sh
# sigs.k8s.io/descheduler v0.36.0: which pods RemovePodsViolatingTopologySpreadConstraint evicts, by what it counts in each zone.
# Guess: it counts what the scheduler counts, each pod that the constraint's selector takes. Pods that it may not evict, such as those with an
# emptyDir, stay where they are and count there; and labelSelector, as its documentation says, has no part in balancing and only tells what
# may be evicted.
# Seen: pods that it may not evict, and pods that labelSelector does not take, count for nothing. Two even zones lose pods, and of six pods in
# one zone and two in the other, where the six have an emptyDir, the zone with two loses one. The scheduler counts all of them, so it
# brings the pod back to where it was, and the next run evicts it again.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
cat >main.go <<'EOF'
package main

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	apitypes "k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	"sigs.k8s.io/descheduler/pkg/framework/plugins/defaultevictor"
	spread "sigs.k8s.io/descheduler/pkg/framework/plugins/removepodsviolatingtopologyspreadconstraint"
	"sigs.k8s.io/descheduler/pkg/framework/testing"
	"sigs.k8s.io/descheduler/pkg/framework/types"
)

func node(zone string) *corev1.Node {
	size := corev1.ResourceList{"cpu": resource.MustParse("8"), "memory": resource.MustParse("32Gi"), "pods": resource.MustParse("110")}
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "node-" + zone, Labels: map[string]string{"zone": zone}},
		Status:     corev1.NodeStatus{Capacity: size, Allocatable: size},
	}
}

// pods returns pods of one ReplicaSet in a zone, to be spread over the zones with a skew of one, each of which is changed.
func pods(count int, zone string, change func(pod *corev1.Pod)) []runtime.Object {
	var made []runtime.Object
	for i := range count {
		pod := &corev1.Pod{}
		pod.Namespace, pod.Name = "shop", fmt.Sprintf("web-%s-%d", zone, i)
		pod.UID = apitypes.UID(pod.Name)
		pod.Labels = map[string]string{"app": "web", "track": "stable"}
		pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "web", UID: "web"}}
		pod.Spec.NodeName = "node-" + zone
		pod.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{
			MaxSkew: 1, TopologyKey: "zone", WhenUnsatisfiable: corev1.DoNotSchedule,
			LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}},
		}}
		change(pod)
		made = append(made, pod)
	}
	return made
}

func show(title string, args *spread.RemovePodsViolatingTopologySpreadConstraintArgs, groups ...[]runtime.Object) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	nodes := []*corev1.Node{node("a"), node("b")}
	objects := []runtime.Object{&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}}, nodes[0], nodes[1]}
	for _, group := range groups {
		objects = append(objects, group...)
	}
	handle, evictor, err := testing.InitFrameworkHandle(ctx, fake.NewClientset(objects...), nil, defaultevictor.DefaultEvictorArgs{}, nil)
	if err != nil {
		panic(err)
	}
	spread.SetDefaults_RemovePodsViolatingTopologySpreadConstraintArgs(args)
	plugin, err := spread.New(ctx, args, handle)
	if err != nil {
		panic(err)
	}
	if status := plugin.(types.BalancePlugin).Balance(ctx, nodes); status != nil {
		panic(status.Err)
	}
	fmt.Printf("%s: evicted %d in a, %d in b\n", title, evictor.NodeEvicted(nodes[0]), evictor.NodeEvicted(nodes[1]))
}

func main() {
	plain := func(pod *corev1.Pod) {}
	withCache := func(pod *corev1.Pod) {
		pod.Spec.Volumes = []corev1.Volume{{Name: "cache", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}}
	}
	canary := func(pod *corev1.Pod) { pod.Labels["track"] = "canary" }
	none := &spread.RemovePodsViolatingTopologySpreadConstraintArgs{}
	stable := &spread.RemovePodsViolatingTopologySpreadConstraintArgs{
		LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"track": "stable"}},
	}
	show("4 in a, 4 in b", none, pods(4, "a", plain), pods(4, "b", plain))
	show("6 in a, 2 in b", none, pods(6, "a", plain), pods(2, "b", plain))
	show("4 in a, 4 with an emptyDir in b", none, pods(4, "a", plain), pods(4, "b", withCache))
	show("6 with an emptyDir in a, 2 in b", none, pods(6, "a", withCache), pods(2, "b", plain))
	show("4 in a, 4 canaries in b, labelSelector track=stable", stable, pods(4, "a", plain), pods(4, "b", canary))
}
EOF
go mod init example.com/finding 2>log || cat log
go mod edit -replace k8s.io/kube-openapi=k8s.io/kube-openapi@v0.0.0-20260512234627-ef417d054102
go get sigs.k8s.io/descheduler@v0.36.0 2>log || cat log
go mod tidy 2>log || cat log
go run . >seen 2>log || cat log
cat seen
diff seen - <<'EOF' || { echo "the behaviour changed" >&2; exit 1; }
4 in a, 4 in b: evicted 0 in a, 0 in b
6 in a, 2 in b: evicted 2 in a, 0 in b
4 in a, 4 with an emptyDir in b: evicted 2 in a, 0 in b
6 with an emptyDir in a, 2 in b: evicted 0 in a, 1 in b
4 in a, 4 canaries in b, labelSelector track=stable: evicted 2 in a, 0 in b
EOF
