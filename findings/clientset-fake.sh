#!/bin/sh
# k8s.io/client-go v0.36.3: fake.NewClientset(), on which tests of controllers run.
# Guess: it answers ordinary requests as the API server does, so what passes on it passes there.
# Seen: a list with a field selector or a limit has all pods, and a watch with a label selector brings those of other labels. An update of
# an old version is taken, UpdateStatus writes the spec, a dry run creates. Delete removes what has a finalizer, and what has another UID
# than its precondition says. A test of paging, of conflicts, of finalizers or of a recreated object can't fail on it.
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
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
)

func pod(name, node, app string) *corev1.Pod {
	labels := map[string]string{"app": app}
	meta := metav1.ObjectMeta{Name: name, Namespace: "shop", Labels: labels, UID: "1", Finalizers: []string{"example.com/a"}}
	return &corev1.Pod{ObjectMeta: meta, Spec: corev1.PodSpec{NodeName: node}}
}

func main() {
	ctx := context.Background()
	pods := fake.NewClientset(pod("a", "first", "web"), pod("b", "second", "db")).CoreV1().Pods("shop")
	show := func(title string, options metav1.ListOptions, err error) {
		list, _ := pods.List(ctx, options)
		names := []string{}
		for _, each := range list.Items {
			names = append(names, each.Name)
		}
		fmt.Println(title, names, err)
	}
	show("label app=web:", metav1.ListOptions{LabelSelector: "app=web"}, nil)
	show("field spec.nodeName=first:", metav1.ListOptions{FieldSelector: "spec.nodeName=first"}, nil)
	show("limit 1:", metav1.ListOptions{Limit: 1}, nil)
	watched, err := pods.Watch(ctx, metav1.ListOptions{LabelSelector: "app=web"})
	if err != nil {
		panic(err)
	}
	_, err = pods.Create(ctx, pod("c", "first", "db"), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	show("after a dry run of c:", metav1.ListOptions{}, err)
	for event := range watched.ResultChan() {
		if got := event.Object.(*corev1.Pod); got.Name == "c" {
			fmt.Println("a watch of app=web:", event.Type, got.Name, "of app="+got.Labels["app"])
			break
		}
	}
	old := pod("a", "third", "web")
	old.ResourceVersion = "1"
	_, err = pods.Update(ctx, pod("a", "second", "web"), metav1.UpdateOptions{})
	if err != nil {
		panic(err)
	}
	updated, err := pods.Update(ctx, old, metav1.UpdateOptions{})
	fmt.Println("update of version 1:", updated.Spec.NodeName, err)
	old.Spec.NodeName = "fourth"
	updated, err = pods.UpdateStatus(ctx, old, metav1.UpdateOptions{})
	fmt.Println("spec after UpdateStatus:", updated.Spec.NodeName, err)
	err = pods.Delete(ctx, "b", metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions("2")})
	show("after a delete of b with UID 2:", metav1.ListOptions{}, err)
}
EOF
go mod init example.com/finding 2>log || cat log
go get k8s.io/client-go@v0.36.3 2>log || cat log
go mod tidy 2>log || cat log
go run . >seen
cat seen
diff seen - <<'EOF' || { echo "the behaviour changed" >&2; exit 1; }
label app=web: [a] <nil>
field spec.nodeName=first: [a b] <nil>
limit 1: [a b] <nil>
after a dry run of c: [a b c] <nil>
a watch of app=web: ADDED c of app=db
update of version 1: third <nil>
spec after UpdateStatus: fourth <nil>
after a delete of b with UID 2: [a c] <nil>
EOF
