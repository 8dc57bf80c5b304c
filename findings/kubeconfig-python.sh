#!/bin/sh
# kubernetes 37.0.2 (PyPI) beside k8s.io/client-go v0.36.3: two files in KUBECONFIG.
# Guess: the current-context of the first file wins, as the Kubernetes documentation says of merged kubeconfigs.
# Seen: the Python client takes the one of the last file, so it talks to another cluster than kubectl does.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
for name in paris tokyo; do
  cat >"$dir/$name.yaml" <<EOF
apiVersion: v1
kind: Config
clusters: [{name: $name, cluster: {server: "https://$name.example"}}]
users: [{name: $name, user: {token: none}}]
contexts: [{name: $name, context: {cluster: $name, user: $name}}]
current-context: $name
EOF
done
export KUBECONFIG="$dir/paris.yaml:$dir/tokyo.yaml"

python3 -m venv "$dir/venv"
"$dir/venv/bin/pip" install -q --disable-pip-version-check kubernetes==37.0.2
cat >"$dir/load.py" <<'EOF'
from importlib.metadata import version
from kubernetes import client, config

said = client.Configuration()
config.load_kube_config(client_configuration=said)
print("kubernetes", version("kubernetes"), "->", said.host)
EOF

cd "$dir"
cat >main.go <<'EOF'
package main

import (
	"fmt"

	"k8s.io/client-go/tools/clientcmd"
)

func main() {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	said, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, nil).ClientConfig()
	if err != nil {
		panic(err)
	}
	fmt.Println("client-go v0.36.3 ->", said.Host)
}
EOF
go mod init example.com/finding 2>log || cat log
go get k8s.io/client-go@v0.36.3 2>log || cat log
go mod tidy 2>log || cat log

{ go run . && "$dir/venv/bin/python" load.py; } >seen
cat seen
diff seen - <<'EOF' || { echo "the behaviour changed" >&2; exit 1; }
client-go v0.36.3 -> https://paris.example
kubernetes 37.0.2 -> https://tokyo.example
EOF
