#!/bin/sh
# kubernetes-resource-parser 0.1.0 (npm): memoryParser and cpuParser on fractions and exponents.
# Guess: 1.5Gi is 1610612736 bytes and 129e6 is 129000000, as in the Kubernetes documentation of memory units.
# Seen: "1.5Gi" is 1 byte, "129e6" 129 bytes, 2k cpu are 2, and 250000000n (a quarter cpu) are 250 million. Nothing is raised.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
npm install --silent --no-audit --no-fund kubernetes-resource-parser@0.1.0 >log || cat log
cat >parse.js <<'EOF'
const { cpuParser, memoryParser } = require("kubernetes-resource-parser");
console.log("kubernetes-resource-parser", require("kubernetes-resource-parser/package.json").version);
for (const text of ["1Gi", "1.5Gi", "129M", "129e6"]) console.log("memory", text, "->", memoryParser(text));
for (const text of ["100m", "2k", "250000000n"]) console.log("cpu", text, "->", cpuParser(text));
EOF
node parse.js >seen
cat seen
diff seen - <<'EOF' || { echo "the behaviour changed" >&2; exit 1; }
kubernetes-resource-parser 0.1.0
memory 1Gi -> 1073741824
memory 1.5Gi -> 1
memory 129M -> 129000000
memory 129e6 -> 129
cpu 100m -> 0.1
cpu 2k -> 2
cpu 250000000n -> 250000000
EOF
