"""The forms in which Stowage is installed, printed from one list of manifests.

`stowage.setup.install.manifests` is the list. `python -m stowage.packaging` prints `install.yaml`,
the kustomize base and the chart from it, all below `deploy/`, so no form lacks what another has.
"""
