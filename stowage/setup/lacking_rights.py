"""Members whose account lacks a right that this release needs.

The rights come from `stowage join`, which an administrator of the member runs; a new release may
need more of them. The account itself asks its server, with the credential of the registration.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from crds.names import LABEL_REGISTER
from machinery.api.acting import Acting, account
from machinery.api.client import ApiClient
from machinery.api.resources import SECRETS, SERVICE_ACCOUNTS, Resource
from machinery.api.verbs import Verbs
from machinery.discovery.access_reviews import review
from machinery.errors import StowageError
from propagator.credentials.accounts import MEMBER_ACCOUNT, TENANT_ACCOUNT, TENANT_ROLE
from propagator.credentials.credentials import (
    Credentials,
    PodSecurity,
    Rights,
    credentials_of,
)
from stowage.setup import member_rights

Manifest = dict[str, Any]

_GROUP = "authorization.k8s.io"
_RULES = Resource(
    _GROUP, "v1", "selfsubjectrulesreviews", "SelfSubjectRulesReview", namespaced=False
)
_ACCESS = Resource(
    _GROUP, "v1", "selfsubjectaccessreviews", "SelfSubjectAccessReview", namespaced=False
)


@dataclass(frozen=True, slots=True)
class LackingRights:
    """What the account of a member lacks, such as `list ingresses`."""

    rights: list[str]
    join: str
    """The command that gives them, with the options that a further join does not keep."""


async def of_members(hub: ApiClient, home: str) -> dict[str, LackingRights | StowageError]:
    """Return what the account of each member lacks, by the member's name.

    A fault stands for a member that could not be asked.
    """
    found: dict[str, LackingRights | StowageError] = {}
    listed = await hub.list(SECRETS, namespace=home, label_selector=f"{LABEL_REGISTER}=true")
    for secret in listed["items"]:
        name = secret["metadata"]["name"]
        try:
            data = {key: base64.b64decode(v) for key, v in (secret.get("data") or {}).items()}
            credentials = credentials_of(data)
            lacks = await of_account(credentials, name)
            found[name] = LackingRights(lacks, _join(name, credentials))
        except StowageError as e:
            found[name] = e
    return found


def _join(name: str, credentials: Credentials) -> str:
    words = ["stowage join", name]
    if credentials.rights is Rights.CLUSTER:
        words.append(f"--rights {Rights.CLUSTER}")
    elif credentials.pod_security is not PodSecurity.BASELINE:
        words.append(f"--pod-security {credentials.pod_security}")
    return " ".join(words)


async def of_account(credentials: Credentials, name: str) -> list[str]:
    """Return what the account of a member lacks. Raises TransportError."""
    home = credentials.home
    if credentials.rights is Rights.CLUSTER:
        roles = [*member_rights.cluster(home), *member_rights.cluster_account(home)]
    else:
        roles = member_rights.narrow(home)
    rules = [(each["metadata"]["name"], rule) for each in roles for rule in each.get("rules") or ()]
    own = [rule for role, rule in rules if role == MEMBER_ACCOUNT]
    tenant = [rule for role, rule in rules if role == TENANT_ROLE]
    async with ApiClient(credentials.connection, name=name) as member:
        lacks = await _lacking(member, home, own)
        if tenant and not lacks:
            selector = f"metadata.name={TENANT_ACCOUNT}"
            given = (await member.list(SERVICE_ACCOUNTS, field_selector=selector))["items"]
            for each in given[:1]:  # one role is bound in all of them
                where = each["metadata"]["namespace"]
                lacks = await _lacking(
                    Acting(member, account(where, TENANT_ACCOUNT)), where, tenant
                )
    return lacks


async def _lacking(member: Verbs, namespace: str, rules: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return the rights of these rules that the caller has not.

    The list of its rights comes in one answer, which may lack some: those are asked for singly.
    """
    status = await review(member, _RULES, {"namespace": namespace})
    given = [*(status.get("resourceRules") or ()), *(status.get("nonResourceRules") or ())]
    lacks = []
    for one in (single for rule in rules for single in singly(rule)):
        if any(_covers(each, one) for each in given):
            continue
        if not (await review(member, _ACCESS, _question(one, namespace))).get("allowed"):
            lacks += rights(one)
    return list(dict.fromkeys(lacks))


def _question(one: Mapping[str, Any], namespace: str) -> Manifest:
    (verb,) = one["verbs"]
    if "nonResourceURLs" in one:
        return {"nonResourceAttributes": {"verb": verb, "path": one["nonResourceURLs"][0]}}
    resource, _, subresource = one["resources"][0].partition("/")
    asked = {
        "verb": verb,
        "group": one["apiGroups"][0],
        "resource": resource,
        "subresource": subresource,
        "name": next(iter(one.get("resourceNames", ())), ""),
        "namespace": namespace,
    }
    return {"resourceAttributes": asked}


def rights(rule: Mapping[str, Any]) -> list[str]:
    """Return each right of a rule of RBAC in words, as `get apps/controllerrevisions`."""
    found = []
    for one in singly(rule):
        (verb,) = one["verbs"]
        (what,) = one.get("nonResourceURLs") or one["resources"]
        group = "".join(f"{each}/" for each in one.get("apiGroups", ()) if each)
        name = "".join(f" {each}" for each in one.get("resourceNames", ()))
        found.append(f"{verb} {group}{what}{name}")
    return found


def singly(rule: Mapping[str, Any]) -> Iterable[Manifest]:
    """Yield a rule of one verb on one thing for each right of a rule."""
    for verb in rule["verbs"]:
        for url in rule.get("nonResourceURLs", ()):
            yield {"verbs": [verb], "nonResourceURLs": [url]}
        for group in rule.get("apiGroups", ()):
            for resource in rule["resources"]:
                one = {"verbs": [verb], "apiGroups": [group], "resources": [resource]}
                names: Sequence[str] = rule.get("resourceNames") or ()
                yield from ({**one, "resourceNames": [name]} for name in names)
                if not names:
                    yield one


def _covers(given: Mapping[str, Any], one: Mapping[str, Any]) -> bool:
    """Return whether a rule gives a right of `singly`."""
    for key in ("verbs", "apiGroups", "resources", "nonResourceURLs"):
        if key in one and not {*one[key], "*"} & {*(given.get(key) or ())}:
            return False
    names = given.get("resourceNames") or ()
    return not names or bool(set(names) & set(one.get("resourceNames", ())))
