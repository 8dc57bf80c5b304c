#!/bin/sh
# @codedependant/kubernetes-leader-election 1.0.1 (npm) against a stand-in for the API server that keeps one Lease and tells a watch of it.
# Guess: a standby leads once the leader lets its Lease go, and the Lease that is made says how long it is held.
# Seen: a standby tries three times within one duration of the Lease and never again. It watches that nobody holds the Lease, and does
# nothing: with the leader gone nobody leads until a process starts or the Lease is deleted. The Lease that is made lacks
# leaseDurationSeconds, by which other clients know its end, and nothing counts its holders.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
npm install --silent --no-audit --no-fund @codedependant/kubernetes-leader-election@1.0.1 >log || cat log
cat >elect.js <<'EOF'
const fs = require("node:fs");
const http = require("node:http");
const { once } = require("node:events");
const { setTimeout: sleep } = require("node:timers/promises");

const state = { lease: null, version: 0, deleted: false, fields: "", watches: new Set() };
const server = http.createServer(async (request, response) => {
  let body = "";
  for await (const part of request) body += part;
  const answer = (code, object) => response.writeHead(code, { "content-type": "application/json" }).end(JSON.stringify(object));
  if (request.url.includes("watch=true")) {
    response.writeHead(200, { "content-type": "application/json" }).flushHeaders();
    state.watches.add(response);
    return;
  }
  if (request.method === "GET") return state.lease ? answer(200, state.lease) : answer(404, { kind: "Status", code: 404, message: "not found" });
  if (!state.fields) state.fields = Object.keys(JSON.parse(body).spec).sort().join(" ");
  state.lease = JSON.parse(body);
  state.lease.metadata.resourceVersion = String(++state.version);
  for (const watch of state.watches) watch.write(JSON.stringify({ type: "MODIFIED", object: state.lease }) + "\n");
  answer(200, state.lease);
});

(async () => {
  await once(server.listen(0, "127.0.0.1"), "listening");
  fs.writeFileSync("kubeconfig", JSON.stringify({
    apiVersion: "v1", kind: "Config", "current-context": "hub", users: [{ name: "hub", user: {} }],
    clusters: [{ name: "hub", cluster: { server: `http://127.0.0.1:${server.address().port}`, "insecure-skip-tls-verify": true } }],
    contexts: [{ name: "hub", context: { cluster: "hub", user: "hub" } }],
  }));
  process.env.KUBECONFIG = "kubeconfig";
  process.env.KUBERNETES_SERVICE_HOST = "127.0.0.1";
  const { Elector } = require("@codedependant/kubernetes-leader-election");
  console.log("kubernetes-leader-election", JSON.parse(fs.readFileSync("node_modules/@codedependant/kubernetes-leader-election/package.json")).version);
  const elector = (identity) => new Elector({ identity, lease_name: "hub", lease_duration_sec: 2, renew_interval_ms: 500, auto_close: false });
  const first = elector("first");
  const standby = elector("standby");
  await first.start();
  while (!first.current_leader) await sleep(100);
  console.log("fields that the first one wrote:", state.fields);
  await standby.start();
  await sleep(5000); // more than the duration of the Lease
  await once(first, "lease_renewed");
  await first.stop();
  await sleep(8000); // four times that duration, with a watch that told of it
  console.log("the leader stopped: holder", state.lease.spec.holderIdentity ?? "none", "| standby leads:", standby.current_leader);
  console.log("watches that were told:", state.watches.size > 0, "| leaseTransitions:", state.lease.spec.leaseTransitions ?? "none");
  const late = elector("late");
  await late.start();
  while (!late.current_leader) await sleep(100);
  console.log("one that starts now leads:", late.current_leader);
  process.exit(0);
})();
EOF
node elect.js >seen
cat seen
diff seen - <<'EOF' || { echo "the behaviour changed" >&2; exit 1; }
kubernetes-leader-election 1.0.1
fields that the first one wrote: acquireTime holderIdentity renewTime
the leader stopped: holder none | standby leads: false
watches that were told: true | leaseTransitions: none
one that starts now leads: true
EOF
