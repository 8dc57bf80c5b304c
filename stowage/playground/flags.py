"""The flags of each program of a control plane, with the reasons of unusual ones."""

from __future__ import annotations

from pathlib import Path

from stowage.toolchain import binaries

# The default limits are made for real kubelets; here they would only slow the tests down.
_QPS = ["--kube-api-qps=500", "--kube-api-burst=1000"]

_ADMISSION = "admissionregistration.k8s.io/v1"
BEFORE_1_36 = (
    "--disable-admission-plugins=MutatingAdmissionPolicy",
    (
        f"--runtime-config={_ADMISSION}/mutatingadmissionpolicies=false,"
        f"{_ADMISSION}/mutatingadmissionpolicybindings=false"
    ),
)
"""An API server with these acts as one of Kubernetes 1.30 to 1.35: ValidatingAdmissionPolicy is
served, MutatingAdmissionPolicy is not. The plug-in must go too, or it refuses every write."""


def etcd(*, endpoint: str, peer: str, data: Path, keys: Path) -> list[str]:
    """Return the flags of an etcd that refuses clients without our certificate.

    etcd holds every cluster's Secrets.
    """
    return [
        f"--data-dir={data}",
        f"--listen-client-urls={endpoint}",
        f"--advertise-client-urls={endpoint}",
        f"--listen-peer-urls={peer}",
        f"--initial-advertise-peer-urls={peer}",
        f"--initial-cluster=default={peer}",
        *_served("", keys),
        *_served("peer-", keys),
        # The certificate that its own JSON gateway connects with.
        f"--client-cert-file={keys / 'client.crt'}",
        f"--client-key-file={keys / 'client.key'}",
        # The process that starts etcd may hold the port (`probes.HeldPort`).
        "--socket-reuse-port",
        "--unsafe-no-fsync",
        "--log-level=warn",
    ]


def _served(port: str, keys: Path) -> list[str]:
    return [
        f"--{port}cert-file={keys / 'server.crt'}",
        f"--{port}key-file={keys / 'server.key'}",
        f"--{port}trusted-ca-file={keys / 'ca.crt'}",
        f"--{port}client-cert-auth",
    ]


def apiserver(name: str, *, port: int, etcd: str, etcd_keys: Path, keys: Path) -> list[str]:
    """Return the flags of an API server with its own prefix in etcd and its own authority."""
    return [
        f"--etcd-servers={etcd}",
        f"--etcd-cafile={etcd_keys / 'ca.crt'}",
        f"--etcd-certfile={etcd_keys / 'client.crt'}",
        f"--etcd-keyfile={etcd_keys / 'client.key'}",
        f"--etcd-prefix=/{name}",
        f"--secure-port={port}",
        "--permit-port-sharing",  # with the process that holds it (`probes.HeldPort`)
        "--bind-address=127.0.0.1",
        "--advertise-address=127.0.0.1",
        f"--tls-cert-file={keys / 'tls.crt'}",
        f"--tls-private-key-file={keys / 'tls.key'}",
        f"--client-ca-file={keys / 'ca.crt'}",
        f"--service-account-key-file={keys / 'sa.key'}",
        f"--service-account-signing-key-file={keys / 'sa.key'}",
        "--service-account-issuer=https://kubernetes.default.svc",
        "--authorization-mode=Node,RBAC",
        "--service-cluster-ip-range=10.96.0.0/16",
        "--endpoint-reconciler-type=none",
        "--allow-privileged",
        "--profiling=false",
    ]


def controller_manager(kubeconfig: Path, keys: Path) -> list[str]:
    return [
        f"--kubeconfig={kubeconfig}",
        f"--service-account-private-key-file={keys / 'sa.key'}",
        f"--root-ca-file={keys / 'ca.crt'}",
        "--use-service-account-credentials",
        "--leader-elect=false",
        "--secure-port=0",
        # there are no routes, hence no node IPAM; the node lifecycle controller removes the
        # not-ready taint
        "--controllers=*,-nodeipam,-cloud-node-lifecycle-controller",
        *_QPS,
    ]


def scheduler(kubeconfig: Path) -> list[str]:
    return [
        f"--kubeconfig={kubeconfig}",
        f"--authentication-kubeconfig={kubeconfig}",
        f"--authorization-kubeconfig={kubeconfig}",
        "--leader-elect=false",
        "--secure-port=0",
        *_QPS,
    ]


def kwok(kubeconfig: Path) -> list[str]:
    return [
        f"--kubeconfig={kubeconfig}",
        "--manage-all-nodes=true",
        "--node-lease-duration-seconds=40",
        # kwok exits without stages
        *(f"--config={stage}" for stage in binaries.stages()),
    ]
