#!/bin/sh
# sigs.k8s.io/cluster-inventory-api v0.1.3: BuildConfigFromCP, by which controllers of many clusters get to each by its ClusterProfile.
# Guess: the plugin is called with the arguments and the environment of the cluster asked for, and tls-server-name is kept, as all three
# stand in the profile.
# Seen: what one profile adds stays in the provider that all share. The second cluster's plugin gets the arguments of both, and with
# AppendIfNotExists the first cluster's environment in place of its own; who asks twice gets them twice. tls-server-name is left out.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
cat >main.go <<'EOF'
package main

import (
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	clientcmdv1 "k8s.io/client-go/tools/clientcmd/api/v1"
	"sigs.k8s.io/cluster-inventory-api/apis/v1alpha1"
	"sigs.k8s.io/cluster-inventory-api/pkg/access"
)

func profile(name string) *v1alpha1.ClusterProfile {
	extension := func(key, text string) clientcmdv1.NamedExtension {
		return clientcmdv1.NamedExtension{Name: "clusterprofiles.multicluster.x-k8s.io/exec/" + key, Extension: runtime.RawExtension{Raw: []byte(text)}}
	}
	cluster := clientcmdv1.Cluster{Server: "https://" + name + ".example.com", TLSServerName: "api." + name}
	cluster.Extensions = []clientcmdv1.NamedExtension{
		extension("additional-args", `["--cluster=`+name+`"]`), extension("additional-envs", `{"REGION":"`+name+`"}`),
	}
	made := &v1alpha1.ClusterProfile{}
	made.Status.AccessProviders = []v1alpha1.AccessProvider{{Name: "login", Cluster: cluster}}
	return made
}

func main() {
	providers := access.New([]access.Provider{{
		Name:                        "login",
		ExecConfig:                  &clientcmdapi.ExecConfig{APIVersion: "client.authentication.k8s.io/v1", Command: "login"},
		ProfileSourcedCLIArgsPolicy: access.ProfileSourcedCLIArgsPolicyAppend,
		ProfileSourcedEnvVarsPolicy: access.ProfileSourcedEnvVarsPolicyAppendIfNotExists,
	}})
	for _, name := range []string{"eu", "us", "us"} {
		config, err := providers.BuildConfigFromCP(profile(name))
		if err != nil {
			panic(err)
		}
		fmt.Printf("%s %v %v TLS server name %q\n", config.Host, config.ExecProvider.Args, config.ExecProvider.Env, config.TLSClientConfig.ServerName)
	}
}
EOF
go mod init example.com/finding 2>log || cat log
go get sigs.k8s.io/cluster-inventory-api@v0.1.3 k8s.io/client-go@v0.36.3 2>log || cat log
go mod tidy 2>log || cat log
go run . >seen
cat seen
diff seen - <<'EOF' || { echo "the behaviour changed" >&2; exit 1; }
https://eu.example.com [--cluster=eu] [{REGION eu}] TLS server name ""
https://us.example.com [--cluster=eu --cluster=us] [{REGION eu}] TLS server name ""
https://us.example.com [--cluster=eu --cluster=us --cluster=us] [{REGION eu}] TLS server name ""
EOF
