"""Bugs planted in fault detectors: in who suspects whom, and in what follows from a suspicion."""

from typing import Final

from holdfast.faults.monitor import Monitoring
from holdfast.groups.hosted_group import HostedGroup
from holdfast.groups.liveness_checks import LivenessChecks
from holdfast.model.pauses import PauseDetector
from holdfast.sequence.lease_heartbeats import LeaseHeartbeats
from holdfast.sequence.leases import Leases
from holdfast.sim.runner.planted import Planting

SELDOM: Final = 4
_beat = LeaseHeartbeats.beat


def _never_asleep(pauses: PauseDetector, now: int) -> int:
    return 0


def _awake_all_the_time(leases: Leases) -> int:
    return 0


def _beat_seldom(beats: LeaseHeartbeats) -> None:
    beats._number += 1
    if beats._number % SELDOM == 0:
        _beat(beats)


def _ask_nobody(monitoring: Monitoring, watch: object) -> None:
    return None


def _believe_nobody(monitoring: Monitoring, watch: object) -> None:
    return None


def _leave_it(liveness_checks: LivenessChecks, hosted: HostedGroup, why: str) -> None:
    return None


_bug: Final = Planting("detect", runs_max=60)

PLANTED: Final = (
    _bug(
        "judges-after-its-pause",
        "K1",
        "A host that was paused takes the others for gone before it has heard them.",
        PauseDetector,
        "_paused_ns",
        _never_asleep,
        "sleepers",
    ),
    _bug(
        "drops-the-unread",
        "M1",
        "A primary whose loop stood drops backups whose answers it has not read yet.",
        Leases,
        "awake_since",
        _awake_all_the_time,
        "standing",
    ),
    _bug(
        "beats-too-seldom",
        "R4",
        "Heartbeats are so far apart that a busy machine costs hosts their groups.",
        LeaseHeartbeats,
        "beat",
        _beat_seldom,
        "busy",
    ),
    _bug(
        "asks-nobody",
        "FTC-142",
        "Members are never asked whether they are alive.",
        Monitoring,
        "_ask",
        _ask_nobody,
        "sickness",
    ),
    _bug(
        "suspects-for-ever",
        "FTC-247",
        "A suspicion does not end with a good answer.",
        Monitoring,
        "_believe",
        _believe_nobody,
        "sickness",
    ),
    _bug(
        "leaves-the-sick",
        "FTC-248",
        "A member that is not alive is reported and left as it is.",
        LivenessChecks,
        "_make_anew",
        _leave_it,
        "sickness",
    ),
)
