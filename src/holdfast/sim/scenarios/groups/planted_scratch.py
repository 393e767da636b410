"""Bugs planted in how large states of groups in memory are kept and sent (E5, M4)."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from holdfast.groups.backend import MemoryCheckpoints
from holdfast.model.ids import GroupId, HostId
from holdfast.sequence.catchup import Learning
from holdfast.sequence.log_hold import LogHold
from holdfast.sequence.messages import Offer
from holdfast.sequence.ports import Kept
from holdfast.sim.runner.planted import Planted, Planting, replacing
from holdfast.storage.checkpoint import Digest

RUNS: Final = 100

_on_offer = Learning.on_offer


def _forget_only_the_log(kept: MemoryCheckpoints, group: GroupId, then: Callable[[], None]) -> None:
    """Leaves the state of a life that is over for the group's next one."""
    if group in kept._log.groups():
        kept._log.forget(group)
    kept._soon(then)


def _keep_none(kept: MemoryCheckpoints, group: GroupId, state: Kept) -> None:
    """Removes the file of a state as soon as it counts, as if it had been loaded for good."""
    kept._states[group] = state
    kept._scratch.keep_only(group, None)


class _Believed(Digest):
    """A digest that is whatever the other side says it is."""

    def __init__(self, said: bytes) -> None:
        super().__init__()
        self._said = said

    def value(self) -> bytes:
        return self._said


def _go_on_with_the_newer(learning: Learning, primary: HostId, offer: Offer) -> None:
    """Keeps the chunks of a state for the newer one that replaced it while it was being sent."""
    known = learning._transfer
    if known is not None and known.offer.point.position < offer.point.position and known.written:
        known.primary, known.offer, known.asked = primary, offer, 0
        known.digest = _Believed(offer.digest)
        known.early.clear()
        learning._fetch(anew=True)
    else:
        _on_offer(learning, primary, offer)


@contextmanager
def _mixing() -> Iterator[None]:
    """States are replaced while they are being sent only if nobody holds them, so that is left out, too."""
    with (
        replacing(LogHold, "_renew", lambda hold: None),
        replacing(Learning, "on_offer", _go_on_with_the_newer),
    ):
        yield


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
    Planted(
        name="groups-states-mixed-on-the-way",
        rule="M4",
        scenario="groups",
        summary="a state that is replaced while it is being sent is completed with chunks of the newer one",
        plant=_mixing,
        profile="scratch",
        runs_max=RUNS,
    ),
)
