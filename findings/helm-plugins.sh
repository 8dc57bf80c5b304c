#!/bin/sh
# Helm 4.3.1 (Go module helm.sh/helm/v4) with HELM_PLUGINS, the folder of plugins, as it says of itself.
# Guess: `helm plugin install` puts a plugin into that folder, where `helm plugin list` and Helm itself look for it.
# Seen: it puts it below HELM_DATA_HOME all the same, says "Installed plugin", and nobody finds it; without HELM_PLUGINS all do.
set -eu
dir=$(mktemp -d)
trap 'chmod -R u+w "$dir"; rm -rf "$dir"' EXIT
cd "$dir"
mkdir plugin folder data
GOBIN="$dir" go install helm.sh/helm/v4/cmd/helm@v4.3.1 2>log || cat log
cat >plugin/plugin.yaml <<'EOF'
apiVersion: v1
type: cli/v1
name: hello
version: 0.1.0
runtime: subprocess
config: {usage: hello, shortHelp: says hello}
runtimeConfig: {platformCommand: [{command: echo, args: [hello]}]}
EOF
export HELM_DATA_HOME="$dir/data" HELM_CACHE_HOME="$dir/cache" HELM_CONFIG_HOME="$dir/config"
{
  HELM_PLUGINS="$dir/folder" ./helm env HELM_PLUGINS | sed "s|$dir|.|"
  HELM_PLUGINS="$dir/folder" ./helm plugin install ./plugin 2>&1 | tail -n 1
  echo "there: $(ls folder)"
  echo "elsewhere: $(ls data/plugins)"
  echo "with the variable: $(HELM_PLUGINS="$dir/folder" ./helm plugin list | sed 1d | cut -f1)"
  echo "without: $(./helm plugin list | sed 1d | cut -f1 | tr -d ' ')"
} >seen
cat seen
diff seen - <<'EOF' || { echo "the behaviour changed" >&2; exit 1; }
./folder
Installed plugin: hello
there: 
elsewhere: plugin
with the variable: 
without: hello
EOF
