#!/bin/sh
# pytest 9.2.0 with pytest-xdist 3.8.0 (PyPI): --dist=loadgroup, by which tests that share a cluster stay on one worker.
# Guess: the tests of one xdist_group run on one worker, as they do with pytest 9.1 and as the metadata allows for.
# Seen: no groups are formed and nothing is said: the tests of one group are spread over both workers.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cat >"$dir/test_groups.py" <<'EOF'
import os
import pathlib

import pytest


@pytest.mark.xdist_group("cluster")
@pytest.mark.parametrize("number", range(20))
def test_member(number):
    with pathlib.Path("workers").open("a") as file:
        file.write(os.environ["PYTEST_XDIST_WORKER"] + "\n")
EOF
cd "$dir"
for release in 9.1.0 9.2.0; do
  rm -f workers
  python3 -m venv "venv-$release"
  "venv-$release/bin/pip" install -q --disable-pip-version-check "pytest==$release" pytest-xdist==3.8.0
  "venv-$release/bin/python" -m pytest -q -p no:cacheprovider -n 2 --dist=loadgroup test_groups.py >log || cat log
  echo "pytest $release, pytest-xdist 3.8.0: workers of one group: $(sort -u workers | wc -l)"
done >seen
cat seen
diff seen - <<'EOF' || { echo "the behaviour changed" >&2; exit 1; }
pytest 9.1.0, pytest-xdist 3.8.0: workers of one group: 1
pytest 9.2.0, pytest-xdist 3.8.0: workers of one group: 2
EOF
