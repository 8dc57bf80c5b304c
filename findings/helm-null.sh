#!/bin/sh
# Helm 4.3.2 (Go module helm.sh/helm/v4): null in the values.yaml of a chart that wraps another, as each cluster's chart does.
# Guess: it takes the default of the wrapped chart out, as Helm documents for null, and as the same lines of a file of --values do.
# Seen: the default stays: the limit of cpu that was to go is still set. In a file of --values null works; the chart must be
# installed with its own values.yaml named there.
set -eu
dir=$(mktemp -d)
trap 'chmod -R u+w "$dir"; rm -rf "$dir"' EXIT
cd "$dir"
GOBIN="$dir" go install helm.sh/helm/v4/cmd/helm@v4.3.2 2>log || cat log
export HELM_DATA_HOME="$dir/data" HELM_CACHE_HOME="$dir/cache" HELM_CONFIG_HOME="$dir/config"
mkdir -p outer/charts/web/templates
echo '{apiVersion: v2, name: outer, version: 0.1.0}' >outer/Chart.yaml
echo '{web: {limits: {cpu: null, memory: 1Gi}}}' >outer/values.yaml
echo '{apiVersion: v2, name: web, version: 0.1.0}' >outer/charts/web/Chart.yaml
echo '{limits: {cpu: 200m, memory: 200Mi}}' >outer/charts/web/values.yaml
echo 'limits: {{ toJson .Values.limits }}' >outer/charts/web/templates/limits.yaml
{
  echo "values.yaml of the chart:" $(./helm template shop outer | grep limits:)
  echo "--values of the same file:" $(./helm template shop outer --values outer/values.yaml | grep limits:)
} >seen
cat seen
diff seen - <<'EOF' || { echo "the behaviour changed" >&2; exit 1; }
values.yaml of the chart: limits: {"cpu":"200m","memory":"1Gi"}
--values of the same file: limits: {"memory":"1Gi"}
EOF
