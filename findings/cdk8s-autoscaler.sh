#!/bin/sh
# cdk8s-plus-34 2.0.54, with cdk8s 2.70.106 and constructs 10.8.1 (npm): a HorizontalPodAutoscaler of 2 to 50 pods whose scaling is left as it is.
# Guess: as its documentation says, it goes down to minReplicas with a stabilization window of five minutes, which is what Kubernetes does by
# itself, and up by 4 pods or to the double in a minute. Without metrics "the target resource constraints (e.g. cpu limit)" count.
# Seen: minReplicas is written as the number of pods that may go in five minutes. From 50 pods down to 2 takes two hours, and with minReplicas
# of 1 four: Kubernetes itself allows 100% in 15 seconds. Percent 200 is the triple. No metric is written, so that the API server sets 80% of
# the cpu request: a target that asks for memory alone passes the check, and is never scaled.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
npm install --silent --no-audit --no-fund cdk8s-plus-34@2.0.54 cdk8s@2.70.106 constructs@10.8.1 >log || cat log
cat >show.cjs <<'EOF'
const { Size, Testing } = require("cdk8s");
const { Deployment, HorizontalPodAutoscaler } = require("cdk8s-plus-34");

for (const minReplicas of [2, undefined, 10]) {
  const chart = Testing.chart();
  const target = new Deployment(chart, "web", { containers: [{ image: "web:1", resources: { memory: { request: Size.mebibytes(64) } } }] });
  new HorizontalPodAutoscaler(chart, "scaler", { target, minReplicas, maxReplicas: 50 });
  const { spec } = Testing.synth(chart).find(({ kind }) => kind === "HorizontalPodAutoscaler");
  console.log("minReplicas", spec.minReplicas, "metrics", spec.metrics);
  const { policies: [down], stabilizationWindowSeconds: window } = spec.behavior.scaleDown;
  console.log("  down", JSON.stringify(down), "window", window);
  console.log("  from 50 pods in minutes:", (Math.ceil((50 - spec.minReplicas) / down.value) * down.periodSeconds) / 60);
  console.log("  up", JSON.stringify(spec.behavior.scaleUp.policies));
}
EOF
node show.cjs >seen
cat seen
diff seen - <<'EOF' || { echo "the behaviour changed" >&2; exit 1; }
minReplicas 2 metrics undefined
  down {"periodSeconds":300,"type":"Pods","value":2} window 300
  from 50 pods in minutes: 120
  up [{"periodSeconds":60,"type":"Pods","value":4},{"periodSeconds":60,"type":"Percent","value":200}]
minReplicas 1 metrics undefined
  down {"periodSeconds":300,"type":"Pods","value":1} window 300
  from 50 pods in minutes: 245
  up [{"periodSeconds":60,"type":"Pods","value":4},{"periodSeconds":60,"type":"Percent","value":200}]
minReplicas 10 metrics undefined
  down {"periodSeconds":300,"type":"Pods","value":10} window 300
  from 50 pods in minutes: 20
  up [{"periodSeconds":60,"type":"Pods","value":4},{"periodSeconds":60,"type":"Percent","value":200}]
EOF
