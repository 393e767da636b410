"""Bugs planted in how large states of groups in memory are kept and sent (E5, M4)."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from holdfast.groups.backend import MemoryCheckpoints
from holdfast.groups.checkpoint_jobs import CopyJobs
from holdfast.model.ids import GroupId, HostId
from holdfast.sequence.catchup import Learning
from holdfast.sequence.messages import Offer
from holdfast.sim.runner.planted import Planted, Planting, replacing
from holdfast.storage.checkpoint import Digest
from holdfast.styles.checkpointing import Checkpointing

RUNS: Final = 100

_on_offer = Learning.on_offer


def _forget_only_the_log(kept: MemoryCheckpoints, group: GroupId, then: Callable[[], None]) -> None:
    """Leaves the state of a life that is over for the group's next one."""
    if group in kept._log.groups():
        kept._log.forget(group)
    kept._soon(then)


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


def _keep_whatever_was_copied(copies: CopyJobs, then: Callable[[bool], None]) -> None:
    """Keeps a copy though the log no longer holds its point."""
    written, copies._written = copies._written, None
    if written is None:
        then(False)
    else:
        copies._keeping.adopt(copies._group, written, lambda: then(True))


@contextmanager
def _keeping_lost_epochs() -> Iterator[None]:
    """Two parts look after this rule, so both are left out."""
    with (
        replacing(Checkpointing, "forget", lambda checkpointing: None),
        replacing(CopyJobs, "keep", _keep_whatever_was_copied),
    ):
        yield


_bug: Final = Planting("groups", runs_max=RUNS)

PLANTED = (
    _bug(
        "scratch-of-an-older-life",
        "E5",
        "a member that begins with nothing finds the state of its life before",
        MemoryCheckpoints,
        "forget",
        _forget_only_the_log,
        profile="scratch",
    ),
    _bug(
        "states-mixed-on-the-way",
        "M4",
        "a state that is replaced while it is being sent is completed with chunks of the newer one",
        Learning,
        "on_offer",
        _go_on_with_the_newer,
        profile="scratch",
    ),
    Planted(
        name="groups-copy-of-a-lost-epoch",
        rule="E5",
        scenario="groups",
        summary="a copy made in an epoch that was lost becomes the state that the group is loaded from",
        plant=_keeping_lost_epochs,
        profile="scratch",
        runs_max=RUNS,
    ),
)
