"""The form of an admission policy of ours: what it matches, its binding, a digest of its rules."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

from crds.names import ADMISSION_POLICY, GROUP, VERSION

Manifest = dict[str, Any]

ANNOTATION_RULES = f"{GROUP}/rules"
"""On each policy: a digest of its rules, by which a process knows whether they are its own."""

_API_VERSION = "admissionregistration.k8s.io/v1"


def policy(
    flavour: str,
    spec: Manifest,
    *,
    name: str = ADMISSION_POLICY,
    plurals: Sequence[str] = ("workloads",),
    operations: Sequence[str] = ("CREATE", "UPDATE"),
) -> Manifest:
    """A policy about such operations on objects of ours; Mutating or Validating."""
    constraints = {
        "resourceRules": [
            {
                "apiGroups": [GROUP],
                "apiVersions": [VERSION],
                "operations": [*operations],
                "resources": [*plurals],
            }
        ]
    }
    spec = {"matchConstraints": constraints} | spec
    return {
        "apiVersion": _API_VERSION,
        "kind": f"{flavour}AdmissionPolicy",
        "metadata": {"name": name, "annotations": {ANNOTATION_RULES: _digest(spec)}},
        "spec": spec,
    }


def binding(flavour: str, name: str = ADMISSION_POLICY) -> Manifest:
    """Return the binding that puts the policy of that name in force, everywhere."""
    actions = {"validationActions": ["Deny"]} if flavour == "Validating" else {}
    return {
        "apiVersion": _API_VERSION,
        "kind": f"{flavour}AdmissionPolicyBinding",
        "metadata": {"name": name},
        "spec": {"policyName": name} | actions,
    }


def variable(name: str, expression: str) -> Manifest:
    """One of a policy's variables; it costs only what asks for it."""
    return {"name": name, "expression": expression}


def rules_of(policy: Mapping[str, Any]) -> str:
    """The digest of a policy's rules, as its annotation tells it."""
    return str(policy["metadata"]["annotations"][ANNOTATION_RULES])


def _digest(spec: Manifest) -> str:
    text = json.dumps(spec, sort_keys=True)
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()
