"""Bugs planted in how large states of groups in memory are kept and sent (E5)."""

from collections.abc import Callable
from typing import Final

from holdfast.groups.backend import MemoryCheckpoints
from holdfast.model.ids import GroupId
from holdfast.sequence.ports import Kept
from holdfast.sim.runner.planted import Planting

RUNS: Final = 100


def _forget_only_the_log(kept: MemoryCheckpoints, group: GroupId, then: Callable[[], None]) -> None:
    """Leaves the state of a life that is over for the group's next one."""
    if group in kept._log.groups():
        kept._log.forget(group)
    kept._soon(then)


def _keep_none(kept: MemoryCheckpoints, group: GroupId, state: Kept) -> None:
    """Removes the file of a state as soon as it counts, as if it had been loaded for good."""
    kept._states[group] = state
    kept._scratch.keep_only(group, None)


_bug: Final = Planting("groups", runs_max=RUNS)

PLANTED = (
    _bug(
        "scratch-gone-once-loaded",
        "E5",
        "the file of a large state in memory is removed though the log begins there",
        MemoryCheckpoints,
        "_take",
        _keep_none,
        profile="scratch",
    ),
    _bug(
        "scratch-of-an-older-life",
        "E5",
        "a member that begins with nothing finds the state of its life before",
        MemoryCheckpoints,
        "forget",
        _forget_only_the_log,
        profile="scratch",
    ),
)
