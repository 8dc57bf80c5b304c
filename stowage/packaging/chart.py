"""The Helm chart: the manifests of `stowage install`, and the values of `stowage.packaging.values`.

The CRDs are templates, because Helm never upgrades what lies in a chart's `crds/`. Which admission
policies are there is decided by the version of Kubernetes: `helm template` asks no server what it
serves, and a chart that did would leave the policies out in silence.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import crds
from machinery.api.resources import CRDS, DEPLOYMENTS
from stowage.packaging import values
from stowage.packaging.template import IMAGE, NAMESPACE, Holes, dump, when
from stowage.setup import install, shards, tenants
from stowage.setup.images import Image

Manifest = dict[str, Any]

_BUDGET, _NETWORK = "PodDisruptionBudget", "NetworkPolicy"
_SESSION_HINT = (
    "ui.enabled needs ui.session.existingSecret: kubectl -n %s create secret generic"
    " stowage-ui-session --from-literal=current=$(openssl rand -base64 48)"
)
_TENANT = "hole-tenant"
_ARGOCD = "hole-argocd"
_CONFIG = "stowage-controller-config"
_SHARDS = "(int .Values.propagator.shards)"
_MUTATING = 'eq (include "stowage.mutating" .) "true"'
_VALIDATING = 'eq (include "stowage.validating" .) "true"'

HELPERS = """\
{{- define "stowage.image" -}}
{{- $image := .Values.image -}}
{{- $tag := $image.tag | default (ternary "" .Chart.AppVersion (ne $image.digest "")) -}}
{{- $image.repository }}{{ with $tag }}:{{ . }}{{ end }}{{ with $image.digest }}@{{ . }}{{ end -}}
{{- end }}
{{/* Whether the hub gets policies of a kind. */}}
{{- define "stowage.validating" -}}
{{- if eq (toString .Values.admission.validating) "auto" -}}
{{- semverCompare ">=1.30-0" .Capabilities.KubeVersion.Version -}}
{{- else -}}{{- .Values.admission.validating -}}{{- end -}}
{{- end }}
{{- define "stowage.mutating" -}}
{{- if eq (toString .Values.admission.mutating) "auto" -}}
{{- semverCompare ">=1.36-0" .Capabilities.KubeVersion.Version -}}
{{- else -}}{{- .Values.admission.mutating -}}{{- end -}}
{{- end }}
"""
NOTES = """\
Stowage {{ .Chart.AppVersion }} is in {{ .Release.Namespace }}. Next: stowage join NAME
The kinds and what runs on members stay when this release is uninstalled.
"""


def files(*, version: str, image: Image, dashboard: Path) -> dict[str, str]:
    """Return the text of each file of the chart, by its path in it."""
    tree = values.table(image, _deployments())
    about = {
        "apiVersion": "v2",
        "name": "stowage",
        "description": "Places workloads across a fleet of Kubernetes clusters, and says why",
        "type": "application",
        "version": version,
        "appVersion": version,
        "keywords": ["multi-cluster", "placement", "scheduler"],
    }
    return {
        "Chart.yaml": dump([about]),
        "values.yaml": values.values_yaml(tree),
        "values.schema.json": values.schema_json(tree),
        "files/dashboard.json": dashboard.read_text(encoding="utf-8"),
        "templates/_helpers.tpl": HELPERS,
        "templates/NOTES.txt": NOTES,
        **{f"templates/{name}": text for name, text in _templates().items()},
    }


def _deployments() -> dict[str, Manifest]:
    found = [
        *install.manifests(namespace=NAMESPACE, image=IMAGE),
        *install.page_manifests(namespace=NAMESPACE, image=IMAGE),
    ]
    each = {o["metadata"]["name"]: o for o in found if o["kind"] == DEPLOYMENTS.kind}
    return {name.removeprefix("stowage-"): deployment for name, deployment in each.items()}


def _templates() -> dict[str, str]:
    listed = install.manifests(namespace=NAMESPACE, image=IMAGE)
    kinds = [each for each in listed if each["kind"] == CRDS.kind]
    policies = [each for each in crds.manifests() if each["kind"] != CRDS.kind]
    rest = [
        each
        for each in listed
        if each not in kinds and each not in policies and each["kind"] != "Namespace"
    ]
    page = install.page_manifests(namespace=NAMESPACE, image=IMAGE)
    return {
        **{
            f"crds/{each['spec']['names']['singular']}.yaml": when(
                ".Values.crds.install", _plain([each])
            )
            for each in kinds
        },
        "admission.yaml": "".join(map(_policy, policies)),
        "stowage.yaml": "".join(map(_object, rest)),
        "defaults.yaml": when(f"not ({_MUTATING})", _plain(_bindings(defaults=True))),
        "tenants.yaml": _tenants(),
        "config.yaml": _configuration(),
        "shards.yaml": _shards(),
        "ui.yaml": when(".Values.ui.enabled", _session() + "".join(map(_object, page))),
        "argocd.yaml": _argocd(),
        "monitoring.yaml": _monitoring(),
    }


def _plain(objects: Iterable[Manifest]) -> str:
    return _documents(Holes(), objects)


def _documents(holes: Holes, objects: Iterable[Manifest]) -> str:
    return "".join(f"---\n{holes.text([each])}" for each in objects)


def _policy(each: Manifest) -> str:
    mutating = install.is_policy(each, [install.MUTATING])
    return when(_MUTATING if mutating else _VALIDATING, _plain([each]))


def _object(each: Manifest) -> str:
    name = each["metadata"]["name"].removeprefix("stowage-")
    if each["kind"] == DEPLOYMENTS.kind:
        return _deployment(each, name)
    if each["kind"] == _BUDGET:
        return _budget(each, name)
    if each["kind"] == _NETWORK:
        return when(".Values.networkPolicy.enabled", _plain([each]))
    return _plain([each])


def _budget(each: Manifest, name: str) -> str:
    holes, several = Holes(), f"gt (int .Values.{name}.replicas) 1"
    if name == shards.PROCESS:
        several = f"or {_SHARDS} ({several})"
        each["spec"]["minAvailable"] = holes.value(f"max 1 {_SHARDS}")
    condition = f"and .Values.podDisruptionBudget.enabled ({several})"
    return when(condition, _documents(holes, [each]))


def _shards() -> str:
    holes = Holes()
    config = shards.config_map(NAMESPACE, 0)
    config["data"]["shards"] = holes.value(".Values.propagator.shards | quote")
    return when(".Values.propagator.shards", _documents(holes, [config]))


def _deployment(each: Manifest, name: str) -> str:
    holes, own = Holes(), f".Values.{name}"
    spec, template = each["spec"], each["spec"]["template"]
    pod = template["spec"]
    (container,) = pod["containers"]
    replicas = f"{own}.replicas"
    if name == shards.PROCESS:
        most = f"max (int {replicas}) (add {_SHARDS} 1)"
        replicas = f"ternary ({most}) {replicas} (gt {_SHARDS} 0)"
    spec["replicas"] = holes.value(replicas)
    container["imagePullPolicy"] = holes.value(".Values.image.pullPolicy")
    pod[holes.optional("imagePullSecrets", ".Values.imagePullSecrets")] = None
    if name == "ui":
        session = next(v for v in pod["volumes"] if v["name"] == "session")
        session["secret"]["secretName"] = holes.value(f"{own}.session.existingSecret | quote")
        return _documents(holes, [each])
    labels = f"{{{{- with {own}.podLabels }}}}\n{{{{- toYaml . | nindent @0 }}}}\n{{{{- end }}}}"
    template["metadata"]["labels"][holes.lines(labels)] = None
    template["metadata"][holes.lines(_annotations(own, configured=name == "controller"))] = None
    for key in ("topologySpreadConstraints", "nodeSelector", "tolerations", "affinity"):
        pod.pop(key, None)
        pod[holes.optional(key, f"{own}.{key}")] = None
    del container["resources"]
    container[holes.optional("resources", f"{own}.resources")] = None
    more = f"{{{{- with {own}.extraArgs }}}}\n{{{{- toYaml . | nindent @0 }}}}\n{{{{- end }}}}"
    container["args"].append(holes.lines(more))
    if name == "controller":
        _configured(holes, pod, container)
    return _documents(holes, [each])


def _annotations(own: str, *, configured: bool) -> str:
    """Return the annotations of the pods; that of the configuration has them start anew with it."""
    checksum = (
        "{{- if .Values.controller.config }}\n"
        "  checksum/config: {{ toYaml .Values.controller.config | sha256sum }}\n"
        "{{- end }}\n"
        if configured
        else ""
    )
    either = f"or {own}.podAnnotations .Values.controller.config" if configured else None
    return (
        f"{{{{- if {either or f'{own}.podAnnotations'} }}}}\n"
        "annotations:\n"
        f"{checksum}"
        f"{{{{- with {own}.podAnnotations }}}}\n"
        "  {{- toYaml . | nindent @2 }}\n"
        "{{- end }}\n"
        "{{- end }}"
    )


def _configured(holes: Holes, pod: Manifest, container: Manifest) -> None:
    def optional(text: str) -> str:
        return holes.lines(f"{{{{- if .Values.controller.config }}}}\n{text}\n{{{{- end }}}}")

    container["args"].append(optional("- --config=/etc/stowage/config.yaml"))
    mount = "volumeMounts:\n- {name: config, mountPath: /etc/stowage, readOnly: true}"
    container[optional(mount)] = None
    volume = f"volumes:\n- name: config\n  configMap: {{name: {_CONFIG}}}"
    pod[optional(volume)] = None


def _configuration() -> str:
    holes = Holes()
    text = "{{- toYaml .Values.controller.config | nindent @2 }}"
    body = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": _CONFIG, "namespace": NAMESPACE},
        "data": {holes.lines(f"config.yaml: |\n  {text}"): None},
    }
    return when(".Values.controller.config", _documents(holes, [body]))


def _session() -> str:
    hint = f'printf "{_SESSION_HINT}" .Release.Namespace'
    return (
        f"{{{{- if not .Values.ui.session.existingSecret }}}}{{{{ fail ({hint}) }}}}{{{{ end }}}}\n"
    )


def _bindings(*, defaults: bool) -> list[Manifest]:
    """Return the binding of a hub without MutatingAdmissionPolicy, or those of tenants."""
    bindings = install.wide(NAMESPACE)
    return [each for each in bindings if (each["metadata"]["name"] == install.DEFAULTS) is defaults]


def _tenants() -> str:
    """Every namespace, or each of a list; inside of the loop `.` is its name, and `$` the rest."""
    single = _plain(tenants.bindings(_TENANT, home=NAMESPACE)).replace(_TENANT, "{{ . | quote }}")
    single = single.replace(".Release", "$.Release")
    each = f"{{{{- range .Values.tenants.namespaces }}}}\n{single}{{{{- end }}}}\n"
    return when(".Values.tenants.all", _plain(_bindings(defaults=False))) + each


def _argocd() -> str:
    objects = install.load("argocd/generator.yaml", namespace=_ARGOCD)
    text = _plain(objects).replace(_ARGOCD, "{{ .Values.argocd.namespace | quote }}")
    return when(".Values.argocd.namespace", text)


def _monitoring() -> str:
    rules: Sequence[Manifest] = install.load("monitoring/stowage-prometheusrule.yaml")
    for each in rules:
        each["metadata"]["namespace"] = NAMESPACE
    holes = Holes()
    text = '{{- .Files.Get "files/dashboard.json" | nindent @2 }}'
    dashboard = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": "stowage-dashboard",
            "namespace": NAMESPACE,
            "labels": {"grafana_dashboard": "1"},
        },
        "data": {holes.lines(f"stowage.json: |\n  {text}"): None},
    }
    return when(".Values.monitoring.rules", _plain(rules)) + when(
        ".Values.monitoring.dashboard", _documents(holes, [dashboard])
    )
