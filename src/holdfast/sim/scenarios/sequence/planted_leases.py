"""Bugs planted in leases, heartbeats and reads: who may answer a query, and who must fall silent (R, K3)."""

from collections.abc import Callable
from typing import Final

import msgspec

from holdfast.authority.views import ViewMember
from holdfast.model.ids import HostId
from holdfast.node.heartbeats import Heartbeats, Vitals
from holdfast.sequence.lease_heartbeats import Lease, LeaseHeartbeats, Peer
from holdfast.sequence.leases import Leases
from holdfast.sequence.messages import Beat, BeatAnswer
from holdfast.sequence.primary import ReadRights
from holdfast.sim.runner.planted import Planting
from holdfast.sim.scenarios.sequence.planted import RUNS

_on_beat = LeaseHeartbeats._on_beat
_end_if_unfit = Heartbeats._end_if_unfit


def _lease_is_enough(reads: ReadRights, member: ViewMember) -> bool:
    return reads._on.ports.leases.lease(member.host) is not None


def _any_answer_confirms(reads: ReadRights, member: ViewMember) -> bool:
    """Accepts any answer of this epoch, whenever it was written."""
    follower = reads._submission.followers.get(member)
    lease = reads._on.ports.leases.lease(member.host)
    return follower is not None and lease is not None and follower.answered_in == reads._on.epoch


def _lease_revives(beats: LeaseHeartbeats, peer: Peer, answer: BeatAnswer) -> None:
    sent_at = beats._sent_at.get(answer.number)
    if answer.of_incarnation == beats._incarnation and sent_at is not None:
        until = max(peer.lease.until, sent_at + beats._held_ns(answer))
        peer.lease = Lease(answer.incarnation, peer.lease.first or answer.number, until, answer.lease_ns)


def _answer_the_deaf(beats: LeaseHeartbeats, host: HostId, peer: Peer, beat: Beat) -> None:
    _on_beat(beats, host, peer, msgspec.structs.replace(beat, heard_age_ns=0))


def _short_grace(beats: LeaseHeartbeats, known: int, until: int) -> int:
    return until - beats.config.grace_ns + beats.config.lease_ns // 2


def _by_its_own_settings(beats: LeaseHeartbeats, answer: BeatAnswer) -> int:
    """Goes on for as long as its own file says, whatever was granted."""
    return beats.config.lease_ns


def _by_its_new_settings(beats: LeaseHeartbeats, known: int, until: int) -> int:
    """Counts the grace by the settings that it has now, whatever it granted before them."""
    return until


def _nothing_was_promised(leases: Leases) -> int:
    return 0


def _confirm_unasked(reads: ReadRights, then: Callable[[bool], None]) -> None:
    then(reads._may_serve())


def _bear_a_hung_disk(heart: Heartbeats, now: int, vitals: Vitals) -> None:
    _end_if_unfit(heart, now, Vitals(vitals.loop_age_ns, 0))


def _tolerate_a_hung_loop(heart: Heartbeats, now: int, vitals: Vitals) -> None:
    _end_if_unfit(heart, now, Vitals(0, vitals.sync_age_ns))


_bug: Final = Planting("sequence", runs_max=RUNS)

PLANTED: Final = (
    _bug(
        "lease-is-enough",
        "R1",
        "A host's lease lets all its primaries read, confirmed or not.",
        ReadRights,
        "_is_confirmed",
        _lease_is_enough,
        "network",
    ),
    _bug(
        "late-answers-confirm",
        "R1",
        "An answer from before the lease began confirms it.",
        ReadRights,
        "_is_confirmed",
        _any_answer_confirms,
        "network",
    ),
    _bug(
        "lease-revives",
        "R1",
        "A lapsed lease goes on with what was confirmed before.",
        LeaseHeartbeats,
        "_on_answer",
        _lease_revives,
        "network",
    ),
    _bug(
        "reads-unconfirmed",
        "R2",
        "A query is answered without asking the authority.",
        ReadRights,
        "confirm",
        _confirm_unasked,
        "network",
    ),
    _bug(
        "answers-the-deaf",
        "K3",
        "A host that hears nothing gets answers to its heartbeats.",
        LeaseHeartbeats,
        "_on_beat",
        _answer_the_deaf,
        "deaf",
    ),
    _bug(
        "bears-a-hung-disk",
        "K3",
        "A host whose sync never ends stays.",
        Heartbeats,
        "_end_if_unfit",
        _bear_a_hung_disk,
        "stuck",
    ),
    _bug(
        "bears-a-standing-loop",
        "K3",
        "A host whose loop stands still stays.",
        Heartbeats,
        "_end_if_unfit",
        _tolerate_a_hung_loop,
        "stuck",
    ),
    _bug(
        "short-grace",
        "R3",
        "A backup waits for less than the lease it gave.",
        LeaseHeartbeats,
        "_promise_until",
        _short_grace,
        "alone",
    ),
    _bug(
        "lease-by-own-settings",
        "R5",
        "A primary goes on by the longer lease of its own file.",
        LeaseHeartbeats,
        "_held_ns",
        _by_its_own_settings,
        "retuned",
    ),
    _bug(
        "grace-by-new-settings",
        "R5",
        "A backup whose file was shortened counts the grace by the shorter lease.",
        LeaseHeartbeats,
        "_promise_until",
        _by_its_new_settings,
        "retuned",
    ),
    _bug(
        "grace-of-new-process",
        "R5",
        "A restarted backup counts the grace by its own file, not by what its predecessor granted.",
        Leases,
        "bound_until",
        property(_nothing_was_promised),
        "retuned-kills",
    ),
)
