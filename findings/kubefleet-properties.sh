#!/bin/sh
# github.com/kubefleet-dev/kubefleet v0.1.2: placements that ask clusters for a resource, as in allocatable-memory over 1Gi.
# Guess: each resource of Kubernetes may be asked for, allocatable-ephemeral-storage as well, since the validation of placements takes it.
# Seen: the scheduler takes no name of a resource that has a "-": ephemeral-storage and hugepages-2Mi are an error for each cluster, by
# which nothing is placed at all. As a preference it is one too, soft as preferences are.
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

	clusterv1beta1 "github.com/kubefleet-dev/kubefleet/apis/cluster/v1beta1"
	placementv1beta1 "github.com/kubefleet-dev/kubefleet/apis/placement/v1beta1"
	"github.com/kubefleet-dev/kubefleet/pkg/propertyprovider"
	"github.com/kubefleet-dev/kubefleet/pkg/scheduler/framework"
	"github.com/kubefleet-dev/kubefleet/pkg/scheduler/framework/plugins/clusteraffinity"
	"github.com/kubefleet-dev/kubefleet/pkg/utils/validator"
)

func main() {
	names := []corev1.ResourceName{corev1.ResourceMemory, corev1.ResourceEphemeralStorage, "hugepages-2Mi"}
	cluster := clusterv1beta1.MemberCluster{ObjectMeta: metav1.ObjectMeta{Name: "member"}}
	cluster.Status.ResourceUsage.Allocatable = corev1.ResourceList{}
	for _, name := range names {
		cluster.Status.ResourceUsage.Allocatable[name] = resource.MustParse("64Gi")
	}
	number := int32(1)
	for _, name := range names {
		property := propertyprovider.ResourcePropertyNamePrefix + "allocatable-" + string(name)
		placement := placementv1beta1.ClusterResourcePlacement{}
		affinity := &placementv1beta1.ClusterAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: &placementv1beta1.ClusterSelector{
				ClusterSelectorTerms: []placementv1beta1.ClusterSelectorTerm{{
					PropertySelector: &placementv1beta1.PropertySelector{MatchExpressions: []placementv1beta1.PropertySelectorRequirement{
						{Name: property, Operator: placementv1beta1.PropertySelectorGreaterThan, Values: []string{"1Gi"}},
					}},
				}},
			},
			PreferredDuringSchedulingIgnoredDuringExecution: []placementv1beta1.PreferredClusterSelector{{
				Weight: 20,
				Preference: placementv1beta1.ClusterSelectorTerm{
					PropertySorter: &placementv1beta1.PropertySorter{Name: property, SortOrder: placementv1beta1.Descending},
				},
			}},
		}
		placement.Spec.Policy = &placementv1beta1.PlacementPolicy{
			PlacementType: placementv1beta1.PickNPlacementType, NumberOfClusters: &number,
			Affinity: &placementv1beta1.Affinity{ClusterAffinity: affinity},
		}
		fmt.Println(property)
		fmt.Println("  validation:", validator.ValidateClusterResourcePlacement(&placement))
		policy := &placementv1beta1.ClusterSchedulingPolicySnapshot{}
		policy.Spec.Policy = placement.Spec.Policy
		plugin := clusteraffinity.New()
		state := framework.NewCycleState([]clusterv1beta1.MemberCluster{cluster}, nil)
		required := plugin.Filter(context.Background(), state, policy, &cluster)
		preferred := plugin.PreScore(context.Background(), state, policy)
		fmt.Println("  required: fits", required.IsSuccess(), "error", required.IsInteralError())
		fmt.Println("  preferred: error", preferred.IsInteralError())
	}
}
EOF
go mod init example.com/finding 2>log || cat log
go get github.com/kubefleet-dev/kubefleet@v0.1.2 2>log || cat log
go mod tidy 2>log || cat log
go run . >seen
cat seen
diff seen - <<'EOF' || { echo "the behaviour changed" >&2; exit 1; }
resources.kubernetes-fleet.io/allocatable-memory
  validation: <nil>
  required: fits true error false
  preferred: error false
resources.kubernetes-fleet.io/allocatable-ephemeral-storage
  validation: <nil>
  required: fits false error true
  preferred: error true
resources.kubernetes-fleet.io/allocatable-hugepages-2Mi
  validation: <nil>
  required: fits false error true
  preferred: error true
EOF
