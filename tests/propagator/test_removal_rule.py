"""What a session may take away, over random histories of registrations, marks and wishes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crds.fields.labels import KEEPS
from crds.names import ANNOTATION_KEEP, ANNOTATION_MEMBER
from machinery.types.metadata import Meta
from propagator.members.objects import ManagedObject, Mark
from propagator.removal.rule import Removal, removal_of
from tests.examples import examples

pytestmark = pytest.mark.proves("N1", "N2", "N3b")

registrations = st.sampled_from(["", "r1", "r2", "r3"])
clusters = st.sampled_from(["", "c1", "c2"])
marks = st.builds(Mark, registrations, clusters)
kinds = st.sampled_from(["Deployment", "PersistentVolumeClaim", "ConfigMap"])
keeps = st.sampled_from(["", *KEEPS, "sometimes"])


def found(kind: str, mark: Mark, keep: str) -> ManagedObject:
    annotations = {ANNOTATION_MEMBER: str(mark)} if any(mark) else {}
    if keep:
        annotations[ANNOTATION_KEEP] = keep
    return ManagedObject(metadata=Meta(name="a", annotations=annotations), kind=kind)


@given(
    kind=kinds,
    theirs=marks,
    ours=marks,
    keep=keeps,
    ended=st.booleans(),
    registered=st.sets(registrations),
)
@examples(500)
def test_only_what_is_its_own_and_not_kept_is_taken_away(
    kind: str, theirs: Mark, ours: Mark, keep: str, ended: bool, registered: set[str]
) -> None:
    removal = removal_of(
        found(kind, theirs, keep), mark=ours, ended=ended, registered=registered.__contains__
    )
    if removal is Removal.DELETE:
        assert keep != "Always"
        assert ended or keep == "Never" or (keep != "Move" and kind != "PersistentVolumeClaim")
        assert not (theirs.cluster and ours.cluster and theirs.cluster != ours.cluster)
        other = theirs.registration not in ("", ours.registration)
        assert not (other and theirs.registration in registered)
        assert ours.registration
    if ended:
        assert removal is not Removal.STAY, "what has no Workload stays nobody's, or goes"
    else:
        assert removal is not Removal.LET_GO, "what has a Workload is found again by it"


def test_what_an_older_release_wrote_is_ours() -> None:
    ours = Mark("r1", "c1")
    for ended in (True, False):
        removal = removal_of(
            found("Deployment", Mark(), ""), mark=ours, ended=ended, registered=lambda _: True
        )
        assert removal is Removal.DELETE
