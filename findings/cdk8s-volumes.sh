#!/bin/sh
# cdk8s-plus-34 2.0.54, with cdk8s 2.70.106 and constructs 10.8.1 (npm): the volumes of a pod whose container mounts a ConfigMap.
# Guess: they are the same in each kind of workload, and in a StatefulSet the claims of volumeClaimTemplates stand beside them.
# Seen: a StatefulSet without volumeClaimTemplates gets no volumes, while its container mounts them, which the API server refuses: "volumeMounts:
# Not found". Nothing is raised as the manifest is made. With one claim template the volume is there.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
npm install --silent --no-audit --no-fund cdk8s-plus-34@2.0.54 cdk8s@2.70.106 constructs@10.8.1 >log || cat log
cat >show.cjs <<'EOF'
const { Size, Testing } = require("cdk8s");
const { ConfigMap, DaemonSet, Deployment, PersistentVolumeAccessMode, StatefulSet, Volume } = require("cdk8s-plus-34");

function show(title, Kind, properties = {}, mounts = []) {
  const chart = Testing.chart();
  const settings = new ConfigMap(chart, "settings", { data: { level: "info" } });
  const volumeMounts = [{ path: "/settings", volume: Volume.fromConfigMap(chart, "volume", settings, { name: "settings" }) }];
  for (const name of mounts) volumeMounts.push({ path: "/" + name, volume: Volume.fromName(chart, name, name) });
  new Kind(chart, "web", { containers: [{ image: "web:1", portNumber: 80, volumeMounts }], ...properties });
  const { spec } = Testing.synth(chart).find(({ kind }) => kind === Kind.name).spec.template;
  const mounted = spec.containers[0].volumeMounts.map(({ name }) => name);
  console.log(title, "mounts", mounted.join(" "), "volumes", spec.volumes?.map(({ name }) => name).join(" "));
}

show("Deployment", Deployment);
show("DaemonSet", DaemonSet);
show("StatefulSet", StatefulSet);
const claim = { name: "data", storage: Size.gibibytes(1), accessModes: [PersistentVolumeAccessMode.READ_WRITE_ONCE] };
show("StatefulSet and a claim", StatefulSet, { volumeClaimTemplates: [claim] }, ["data"]);
EOF
node show.cjs >seen
cat seen
diff seen - <<'EOF' || { echo "the behaviour changed" >&2; exit 1; }
Deployment mounts settings volumes settings
DaemonSet mounts settings volumes settings
StatefulSet mounts settings volumes undefined
StatefulSet and a claim mounts settings data volumes settings
EOF
