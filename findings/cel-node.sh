#!/bin/sh
# cel-js 0.8.2, @marcbachmann/cel-js 8.0.0 and @bufbuild/cel 0.6.1 (npm): CEL in JavaScript, on expressions as they stand in a
# ValidatingAdmissionPolicy, with an object that JSON.parse has read.
# Guess: the results of the API server, or an exception.
# Seen: to cel-js 7 / 2 is 3.5, whole numbers are exact up to 2^53, and `||` with an absent field raises though its other side is true.
# To @marcbachmann/cel-js a number of JSON is a double, which has no %, and to @bufbuild/cel too, whose run() returns the error as an object:
# if (run(expression)) takes it for true.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
npm install --silent --no-audit --no-fund cel-js@0.8.2 @marcbachmann/cel-js@8.0.0 @bufbuild/cel@0.6.1 >log || cat log
cat >run.mjs <<'EOF'
import { run } from "@bufbuild/cel";
import { evaluate as second } from "@marcbachmann/cel-js";
import { evaluate as first } from "cel-js";

const libraries = { "cel-js": first, "@marcbachmann/cel-js": second, "@bufbuild/cel": run };
const object = JSON.parse('{"spec": {"replicas": 3, "name": "web"}}');
for (const expression of [
  "object.spec.replicas == 3",
  "7 / 2",
  "9007199254740993 == 9007199254740992",
  "object.spec.replicas % 2 == 1",
  'object.spec.name == "web" || object.spec.paused',
]) {
  console.log(expression);
  for (const [name, evaluate] of Object.entries(libraries)) {
    let told;
    try {
      const result = evaluate(expression, { object });
      told = typeof result === "object" ? `an object, ${result ? "true" : "false"} in JavaScript: ${result.message ?? ""}` : String(result);
    } catch (error) {
      told = `raises: ${error.message.split("\n")[0].split(" in context")[0]}`;
    }
    console.log(`  ${name}: ${told}`);
  }
}
EOF
node run.mjs >seen
cat seen
diff seen - <<'EOF' || { echo "the behaviour changed" >&2; exit 1; }
object.spec.replicas == 3
  cel-js: true
  @marcbachmann/cel-js: true
  @bufbuild/cel: true
7 / 2
  cel-js: 3.5
  @marcbachmann/cel-js: 3
  @bufbuild/cel: 3
9007199254740993 == 9007199254740992
  cel-js: true
  @marcbachmann/cel-js: false
  @bufbuild/cel: false
object.spec.replicas % 2 == 1
  cel-js: true
  @marcbachmann/cel-js: raises: no such overload: dyn<double> % int
  @bufbuild/cel: an object, true in JavaScript: found no matching overload for '_%_' applied to '(double, int)'
object.spec.name == "web" || object.spec.paused
  cel-js: raises: Identifier "paused" not found
  @marcbachmann/cel-js: true
  @bufbuild/cel: true
EOF
