#!/bin/sh
# k8s.io/dynamic-resource-allocation v0.36.3: the allocator of kube-scheduler, on a node with two devices of one driver, of which one has
# no attribute "model", as those of an older kind in a mixed fleet.
# Guess: a selector by model passes over the device that has none, and takes the other.
# Seen: the order of devices in the ResourceSlice decides. With the other first it is allocated. With the one that has none first, the
# selector ends in an error, for which a scheduler shall give up instead of trying other nodes: the pod waits beside a free device. With
# `.?model.orValue("")` the answer is the expected one in each order.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
cat >main.go <<'EOF'
package main

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/dynamic-resource-allocation/cel"
	"k8s.io/dynamic-resource-allocation/structured"
)

type classes struct{}

func (classes) List() ([]*resourceapi.DeviceClass, error) { return nil, nil }
func (classes) Get(name string) (*resourceapi.DeviceClass, error) {
	return &resourceapi.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: name}}, nil
}

func allocate(expression string, devices ...resourceapi.Device) {
	node, driver := "node", "gpu.example.com"
	slice := &resourceapi.ResourceSlice{Spec: resourceapi.ResourceSliceSpec{
		Driver: driver, NodeName: &node, Devices: devices, Pool: resourceapi.ResourcePool{Name: node, ResourceSliceCount: 1},
	}}
	exactly := &resourceapi.ExactDeviceRequest{DeviceClassName: "gpu", Count: 1, AllocationMode: resourceapi.DeviceAllocationModeExactCount}
	exactly.Selectors = []resourceapi.DeviceSelector{{CEL: &resourceapi.CELDeviceSelector{Expression: expression}}}
	claim := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Name: "gpu", Namespace: "ml"}}
	claim.Spec.Devices.Requests = []resourceapi.DeviceRequest{{Name: "gpu", Exactly: exactly}}
	state := structured.AllocatedState{AllocatedDevices: sets.New[structured.DeviceID]()}
	slices := []*resourceapi.ResourceSlice{slice}
	ctx, cache := context.Background(), cel.NewCache(10, cel.Features{})
	allocator, err := structured.NewAllocator(ctx, structured.Features{}, state, classes{}, slices, cache)
	if err != nil {
		panic(err)
	}
	here := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node}}
	results, err := allocator.Allocate(ctx, here, []*resourceapi.ResourceClaim{claim})
	for inner := err; inner != nil; inner = errors.Unwrap(inner) {
		err = inner
	}
	taken := []string{}
	for _, result := range results {
		for _, each := range result.Devices.Results {
			taken = append(taken, each.Device)
		}
	}
	fmt.Println("  ", devices[0].Name, "first:", taken, err)
}

func main() {
	model := "b200"
	attributes := map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{"model": {StringValue: &model}}
	newer, older := resourceapi.Device{Name: "newer", Attributes: attributes}, resourceapi.Device{Name: "older"}
	for _, expression := range []string{
		`device.attributes["gpu.example.com"].model == "b200"`,
		`device.attributes["gpu.example.com"].?model.orValue("") == "b200"`,
	} {
		fmt.Println(expression)
		allocate(expression, newer, older)
		allocate(expression, older, newer)
	}
}
EOF
go mod init example.com/finding 2>log || cat log
go get k8s.io/dynamic-resource-allocation@v0.36.3 2>log || cat log
go mod tidy 2>log || cat log
go run . >seen
cat seen
diff seen - <<'EOF' || { echo "the behaviour changed" >&2; exit 1; }
device.attributes["gpu.example.com"].model == "b200"
   newer first: [newer] <nil>
   older first: [] no such key: model
device.attributes["gpu.example.com"].?model.orValue("") == "b200"
   newer first: [newer] <nil>
   older first: [newer] <nil>
EOF
