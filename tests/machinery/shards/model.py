"""All runs of a fleet of three shards, for one member, on the claim that the process acts by.

A state is what each shard's Lease says and what its holder knows. Any process may do its next step
at any moment, or never again: it is stopped or crashes, and then its right to write ends before its
Lease is unheld. At each step it may see any number of shards in the ConfigMap, also an old one. An
answer to a write of the Lease may be lost. Leases are read one by one, while other processes go on.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from typing import NamedTuple

from machinery.types.shards import Claim, Rival, Step, owner

SHARDS = (0, 1, 2)
NUMBERS = (1, 2, 3)


class Holder(NamedTuple):
    """A process that holds a shard, as it knows itself."""

    announced: int | None
    answered: bool = True
    serves: bool = False
    writes: bool = False
    """Whether a write of it is in flight, which may be without its serving."""
    read: tuple[int, ...] | None = None
    """The others that it has read since it announced; None before."""
    rivals: tuple[tuple[int, bool], ...] = ()
    """Those of them that are held, or claim the member; and whether they do."""


class Shard(NamedTuple):
    announced: int | None = None
    held: bool = False
    holder: Holder | None = None
    """None: the Lease has no holder, or one that has no right to write any more."""


State = tuple[Shard, ...]
FIRST: State = (Shard(),) * len(SHARDS)
Fault = Callable[[Claim], Claim]
"""What a process that leaves out a part of the rule takes its claim for."""


def reached(
    name: str,
    *,
    depth: int | None = None,
    fault: Fault = lambda claim: claim,
    first: State = FIRST,
) -> Iterator[tuple[State, list[State]]]:
    """Yield each state that can be reached, and those that follow it, nearest first."""
    seen, waiting = {first}, deque([(first, 0)])
    while waiting:
        state, far = waiting.popleft()
        following = [*_following(state, name, fault)]
        yield state, following
        if depth is not None and far >= depth:
            continue
        for each in following:
            if each not in seen:
                seen.add(each)
                waiting.append((each, far + 1))


def writers(state: State) -> int:
    return sum(each.holder is not None and each.holder.writes for each in state)


def _following(state: State, name: str, fault: Fault) -> Iterator[State]:
    for shard, at in enumerate(state):
        for after in _steps(state, shard, at, name, fault):
            yield (*state[:shard], after, *state[shard + 1 :])


def _steps(state: State, shard: int, at: Shard, name: str, fault: Fault) -> Iterator[Shard]:
    if at.holder is None:
        if at.held:
            yield Shard(at.announced)  # unchanged for its time on everybody's clock
        for number in NUMBERS:
            if not at.held and shard < number:
                # A Lease that never had a number gets none where there is one shard.
                says = None if number == 1 and at.announced is None else number
                yield Shard(says, held=True, holder=Holder(says))
                yield Shard(says, held=True)  # the answer was lost
        return
    holder = at.holder
    yield Shard(at.announced, held=True)  # stopped or crashed; its right to write is over
    for number in NUMBERS:
        claim = fault(claim_of(shard, holder, name, number))
        yield from _acts(state, shard, at, holder, claim, name)


def claim_of(shard: int, holder: Holder, name: str, shards: int) -> Claim:
    others = {
        each: Rival(each, next(n for n in NUMBERS if (owner(name, n) == each) is it), held=True)
        for each, it in holder.rivals
    }
    whole = holder.read is not None and len(holder.read) == len(SHARDS) - 1
    return Claim(
        shard,
        shards,
        holder.announced,
        holder.answered,
        frozenset([name] if holder.writes else []),
        others if whole else None,
    )


def _acts(
    state: State, shard: int, at: Shard, holder: Holder, claim: Claim, name: str
) -> Iterator[Shard]:
    match claim.step:
        case Step.DROP:
            if holder.serves:
                yield at._replace(holder=holder._replace(serves=False))
            else:  # its write was answered, or the server's time for it is over
                yield at._replace(holder=holder._replace(writes=False))
            return
        case Step.ANNOUNCE:
            said = holder._replace(announced=claim.shards, answered=True, read=None, rivals=())
            yield at._replace(announced=claim.shards, holder=said)
            lost = holder._replace(answered=False, read=None, rivals=())
            yield at._replace(holder=lost)
            yield at._replace(announced=claim.shards, holder=lost)
        case Step.READ:
            read = holder.read or ()
            for other in SHARDS:
                if other == shard or other in read:
                    continue
                found = state[other]
                rival = Rival(other, found.announced, found.held)
                claims = rival.claims(name)
                told = claims or (found.held and shard == 0)  # for shard 0 alone it matters
                rivals = [*holder.rivals, *([(other, claims)] if told else [])]
                known = tuple(sorted((*read, other)))
                after = holder._replace(read=known, rivals=tuple(sorted(rivals)))
                yield at._replace(holder=after)
        case Step.CLEAR:
            bare = holder._replace(read=None, rivals=())
            yield at._replace(announced=None, holder=bare._replace(announced=None))
            yield at._replace(announced=None, holder=bare._replace(answered=False))
        case Step.SERVE:
            if not claim.alone:
                yield at._replace(holder=holder._replace(read=None, rivals=()))  # reads again
    if claim.serves(name) and not holder.serves:
        yield at._replace(holder=holder._replace(serves=True, writes=True))


def settled(state: State, name: str, shards: int, order: tuple[int, ...]) -> State:
    """Return the state after nothing goes wrong for a while, with enough processes.

    One step of each shard follows the other, in that order.
    """
    for _ in range(40):
        before = state
        for shard in order:
            after = _next(state, shard, name, shards)
            state = (*state[:shard], after, *state[shard + 1 :])
        if state == before:
            break
    return state


def _next(state: State, shard: int, name: str, shards: int) -> Shard:
    at = state[shard]
    if at.holder is None and at.held:
        return Shard(at.announced)
    if at.holder is None:
        if shard >= shards:
            return at
        says = None if shards == 1 and at.announced is None else shards
        return Shard(says, held=True, holder=Holder(says))
    claim = claim_of(shard, at.holder, name, shards)
    if claim.step is Step.SERVE and shard >= shards:
        return Shard(at.announced)  # it resigns
    if claim.step is Step.SERVE and (at.holder.serves or claim.serves(name)):
        return at._replace(holder=at.holder._replace(serves=True, writes=True))
    return next(_acts(state, shard, at, at.holder, claim, name))
