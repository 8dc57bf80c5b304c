#!/bin/sh
# kfp 2.17.3 and hera 7.1.0 (PyPI), with which pipelines of Kubeflow and Argo Workflows are written, beside k8s.io/apimachinery v0.36.3:
# what they take as the memory of a task.
# Guess: the quantities that Kubernetes takes, as the texts go into the requests and limits of the pod, and no others.
# Seen: kfp refuses fractions, exponents and the suffix k, and takes 512K, which Kubernetes does not know: the pipeline compiles with a
# limit that no pod can have, and that shows when it runs. hera takes binary suffixes alone, neither 512M nor plain bytes.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
python3 -m venv "$dir/venv"
"$dir/venv/bin/pip" install -q --no-compile --disable-pip-version-check kfp==2.17.3 hera==7.1.0
cat >"$dir/memory.py" <<'EOF'
import sys
import warnings

import yaml

warnings.simplefilter("ignore")
from hera.workflows import Resources
from kfp import compiler, dsl


@dsl.component(base_image="python:3.11")
def work():
    pass


def with_kfp(memory):
    """Return the memory limit of the compiled pipeline."""

    @dsl.pipeline(name="nightly")
    def nightly():
        work().set_memory_limit(memory)

    compiler.Compiler().compile(nightly, sys.argv[1])
    with open(sys.argv[1]) as file:
        spec = yaml.safe_load(file)
    return spec["deploymentSpec"]["executors"]["exec-work"]["container"]["resources"]["resourceMemoryLimit"]


def with_hera(memory):
    return Resources(memory_limit=memory).build().limits["memory"].root


def made(make, memory):
    try:
        return make(memory)
    except ValueError:
        return "ValueError"


for text in sys.argv[2:]:
    print("kfp", made(with_kfp, text), "| hera", made(with_hera, text))
EOF
cat >"$dir/main.go" <<'EOF'
package main

import (
	"fmt"
	"os"

	"k8s.io/apimachinery/pkg/api/resource"
)

func main() {
	for _, text := range os.Args[1:] {
		quantity, err := resource.ParseQuantity(text)
		if err != nil {
			fmt.Println(text, "| Kubernetes error |")
			continue
		}
		fmt.Println(text, "| Kubernetes", quantity.Value(), "|")
	}
}
EOF
cd "$dir"
go mod init example.com/finding 2>log || cat log
go get k8s.io/apimachinery@v0.36.3 2>log || cat log
go mod tidy 2>log || cat log
set -- 1Gi 1.5Gi 512M 512k 512K 1e9 1000000000
go run . "$@" >read
venv/bin/python memory.py pipeline.yaml "$@" >made
paste -d " " read made >seen
cat seen
diff seen - <<'EOF' || { echo "the behaviour changed" >&2; exit 1; }
1Gi | Kubernetes 1073741824 | kfp 1Gi | hera 1Gi
1.5Gi | Kubernetes 1610612736 | kfp ValueError | hera 1.5Gi
512M | Kubernetes 512000000 | kfp 512M | hera ValueError
512k | Kubernetes 512000 | kfp ValueError | hera ValueError
512K | Kubernetes error | kfp 512K | hera ValueError
1e9 | Kubernetes 1000000000 | kfp ValueError | hera ValueError
1000000000 | Kubernetes 1000000000 | kfp 1000000000 | hera ValueError
EOF
