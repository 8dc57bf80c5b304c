"""The Secrets that MemberClusters refer to, in any namespace.

One watch over the system namespace shows labelled Secrets. Any other Secret gets its own watch
while a MemberCluster refers to it. The propagator never lists all Secrets, and reads other
namespaces only if they are tenants (`stowage tenant add`).
"""

from __future__ import annotations

from collections.abc import Callable

from machinery.api.client import ApiClient
from machinery.api.resources import SECRETS
from machinery.clock import Clock
from machinery.runtime.informer import Informer
from machinery.runtime.informers import InformerPool
from machinery.types.metadata import Key
from propagator.types.cluster import Secret, bounded


class SecretBook:
    """`changed` is called with the MemberClusters that refer to a changed Secret."""

    def __init__(
        self,
        hub: ApiClient,
        *,
        labelled: Informer[Secret],
        clock: Clock,
        changed: Callable[[str], None],
    ) -> None:
        self._hub = hub
        self._labelled = labelled
        self._clock = clock
        self._changed = changed
        self._references: dict[str, Key] = {}
        self._watches = InformerPool(self._watch, told=self._tell, shown=self._tell)
        labelled.add_handler(self._labelled_changed)

    def refer(self, cluster: str, key: Key | None) -> None:
        before = self._references.get(cluster)
        if before != key and before is not None:
            del self._references[cluster]
            self._watches.drop(before, cluster)
        if key is not None:
            self._references[cluster] = key
            self._need(key, cluster)

    def known(self, key: Key) -> bool:
        """Whether `get` is reliable yet."""
        watch = self._watches.get(key)
        return self._labelled.get(key) is not None or (watch is not None and watch.synced)

    def refused(self, key: Key) -> bool:
        """Its namespace is then no tenant."""
        watch = self._watches.get(key)
        return watch is not None and watch.refused is not None

    def get(self, key: Key) -> Secret | None:
        watch = self._watches.get(key)
        return self._labelled.get(key) or (watch.get(key) if watch is not None else None)

    async def run(self) -> None:
        """A further run resumes the watches."""
        await self._watches.run()

    def _need(self, key: Key, cluster: str) -> None:
        if self._labelled.get(key) is not None:
            self._watches.drop(key, cluster)
        else:
            self._watches.need(key, cluster)

    def _watch(self, key: Key) -> Informer[Secret]:
        namespace, name = key
        informer = Informer(
            self._hub,
            SECRETS,
            Secret,
            namespace=namespace,
            field_selector=f"metadata.name={name}",
            transform=bounded,
            clock=self._clock,
        )
        informer.add_handler(lambda old, new: self._tell(key))
        return informer

    def _tell(self, key: Key) -> None:
        for cluster in [name for name, used in self._references.items() if used == key]:
            self._changed(cluster)

    def _labelled_changed(self, old: Secret | None, new: Secret | None) -> None:
        secret = new or old
        if secret is not None:
            self._tell(secret.metadata.key)
