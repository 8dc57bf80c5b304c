#!/bin/sh
# mkdocs 1.6.1 (PyPI): build --strict with --quiet, on a page with a link to a page that is not there.
# Guess: --quiet takes away what is printed, --strict still fails.
# Seen: exit code 0 with both, 1 with --strict alone: warnings that are not shown are not counted.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
python3 -m venv "$dir/venv"
"$dir/venv/bin/pip" install -q --disable-pip-version-check mkdocs==1.6.1
cd "$dir"
mkdir docs
echo 'site_name: Fleet' >mkdocs.yml
echo '[join](join.md)' >docs/index.md
for options in --strict "--strict --quiet"; do
  code=0
  # shellcheck disable=SC2086 # two options
  venv/bin/mkdocs build $options >log 2>&1 || code=$?
  echo "mkdocs 1.6.1 build $options: exit code $code"
done >seen
cat seen
diff seen - <<'EOF' || { echo "the behaviour changed" >&2; exit 1; }
mkdocs 1.6.1 build --strict: exit code 1
mkdocs 1.6.1 build --strict --quiet: exit code 0
EOF
