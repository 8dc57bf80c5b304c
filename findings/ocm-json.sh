#!/bin/sh
# open-cluster-management.io/sdk-go v1.2.0: parseJSON() of the expressions by which a Placement selects clusters, on a claim whose value is
# JSON.
# Guess: a whole number of it is an int, as those of the ManagedCluster's own fields are: it can be counted on, and written as it stands.
# Seen: each number is a double. It equals an int, and so passes a first test, but n + 1 and n % 2 have no overload, an error for each
# cluster; string() of an account's number is "1.23456789e+08", which equals no text; and beyond 2^53 two numbers are one.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
cat >main.go <<'EOF'
package main

import (
	"fmt"
	"strings"

	"github.com/google/cel-go/cel"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "open-cluster-management.io/api/cluster/v1"
	"open-cluster-management.io/sdk-go/pkg/cel/common"
	"open-cluster-management.io/sdk-go/pkg/cel/library"
)

func main() {
	cluster := &clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: "member"}}
	cluster.Spec.LeaseDurationSeconds = 60
	cluster.Status.ClusterClaims = []clusterv1.ManagedClusterClaim{
		{Name: "site", Value: `{"nodes": 6, "account": 123456789, "serial": 9007199254740993}`},
	}
	object, err := common.ConvertObjectToUnstructured(cluster)
	if err != nil {
		panic(err)
	}
	options := append([]cel.EnvOption{library.ManagedClusterLib(nil), library.JsonLib()}, common.BaseEnvOpts...)
	environment, err := cel.NewEnv(options...)
	if err != nil {
		panic(err)
	}
	lease := "managedCluster.spec.leaseDurationSeconds"
	site := `managedCluster.status.clusterClaims.filter(c, c.name == "site")[0].value.parseJSON()`
	for _, expression := range []string{
		"LEASE + 1 == 61", "SITE.nodes == 6", "SITE.nodes + 1 == 7", "SITE.nodes % 2 == 0", "string(SITE.account)",
		"SITE.serial == 9007199254740992",
	} {
		compiled, issues := environment.Compile(strings.NewReplacer("LEASE", lease, "SITE", site).Replace(expression))
		if issues.Err() != nil {
			panic(issues.Err())
		}
		program, err := environment.Program(compiled)
		if err != nil {
			panic(err)
		}
		if result, _, err := program.Eval(map[string]any{"managedCluster": object.Object}); err != nil {
			fmt.Println(expression, "error:", err)
		} else {
			fmt.Println(expression, "->", result)
		}
	}
}
EOF
go mod init example.com/finding 2>log || cat log
go get open-cluster-management.io/sdk-go@v1.2.0 2>log || cat log
go mod tidy 2>log || cat log
go run . >seen
cat seen
diff seen - <<'EOF' || { echo "the behaviour changed" >&2; exit 1; }
LEASE + 1 == 61 -> true
SITE.nodes == 6 -> true
SITE.nodes + 1 == 7 error: no such overload
SITE.nodes % 2 == 0 error: no such overload: _%_
string(SITE.account) -> 1.23456789e+08
SITE.serial == 9007199254740992 -> true
EOF
