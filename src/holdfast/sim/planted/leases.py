"""Bugs planted in leases, heartbeats and reads: who may answer a query, and who must fall silent (R, K3)."""

from collections.abc import Callable
from typing import Final

import msgspec

from holdfast.authority.views import ViewMember
from holdfast.model.ids import HostId
from holdfast.sequence.config import LeaseConfig
from holdfast.sequence.leases import Leases, _Peer
from holdfast.sequence.messages import Beat, BeatAnswer
from holdfast.sequence.reads import Reads
from holdfast.sim.planted import Planting
from holdfast.sim.planted.sequence import RUNS

_on_beat = Leases._on_beat


def _lease_is_enough(reads: Reads, member: ViewMember) -> bool:
    return reads._on.ports.leases.lease(member.host) is not None


def _any_answer_confirms(reads: Reads, member: ViewMember) -> bool:
    """An answer of this epoch, whenever it was written."""
    follower = reads._submission.followers.get(member)
    lease = reads._on.ports.leases.lease(member.host)
    return follower is not None and lease is not None and follower.answered_in == reads._on.epoch


def _lease_revives(leases: Leases, peer: _Peer, answer: BeatAnswer) -> None:
    sent_at = leases._sent_at.get(answer.number)
    if answer.of_incarnation == leases._incarnation and sent_at is not None:
        peer.lease_incarnation = answer.incarnation
        peer.lease_first = peer.lease_first or answer.number
        peer.lease_until = max(peer.lease_until, sent_at + leases.config.lease_ns)


def _answer_the_deaf(leases: Leases, host: HostId, peer: _Peer, beat: Beat) -> None:
    _on_beat(leases, host, peer, msgspec.structs.replace(beat, heard_age_ns=0))


def _short_grace(config: LeaseConfig) -> int:
    return config.lease_ns // 2


def _confirm_unasked(reads: Reads, then: Callable[[bool], None]) -> None:
    then(reads._may_serve())


_bug: Final = Planting("sequence", runs_max=RUNS)

PLANTED: Final = (
    _bug(
        "lease-is-enough",
        "R1",
        "A host's lease lets all its primaries read, confirmed or not.",
        Reads,
        "_is_confirmed",
        _lease_is_enough,
        "network",
    ),
    _bug(
        "late-answers-confirm",
        "R1",
        "An answer from before the lease began confirms it.",
        Reads,
        "_is_confirmed",
        _any_answer_confirms,
        "network",
    ),
    _bug(
        "lease-revives",
        "R1",
        "A lapsed lease goes on with what was confirmed before.",
        Leases,
        "_on_answer",
        _lease_revives,
        "network",
    ),
    _bug(
        "reads-unconfirmed",
        "R2",
        "A query is answered without asking the authority.",
        Reads,
        "confirm",
        _confirm_unasked,
        "network",
    ),
    _bug(
        "answers-the-deaf",
        "K3",
        "A host that hears nothing gets answers to its heartbeats.",
        Leases,
        "_on_beat",
        _answer_the_deaf,
        "deaf",
    ),
    _bug(
        "short-grace",
        "R3",
        "A backup waits for less than the lease it gave.",
        LeaseConfig,
        "grace_ns",
        property(_short_grace),
        "network",
    ),
)
