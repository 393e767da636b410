"""Bugs planted in how the annexes of a group are kept and applied (W9, W10)."""

from collections.abc import Iterable, Mapping
from typing import Final

from holdfast.execution import execution
from holdfast.execution.annex import AnnexOperation, AnnexStates, jobs_of
from holdfast.execution.effects import Job
from holdfast.execution.object_state import ObjectState
from holdfast.execution.records import Update
from holdfast.sim.runner.planted import Planting

_set_update = ObjectState.set_update


def _load_nothing(states: AnnexStates, saved: Mapping[str, bytes]) -> None:
    """Goes on with whatever the annexes have here."""


def _without_annexes(state: ObjectState, record: Update) -> None:
    """Takes over what changed in the object, and nothing of its annexes."""
    parts = state.annexes.save()
    _set_update(state, Update(record.update, record.timers, record.sends, parts))


def _last_first(operation: AnnexOperation, annex: str, expiration_s: int) -> Iterable[Job]:
    return reversed(jobs_of(operation, annex, expiration_s))


_bug: Final = Planting("groups", runs_max=100)

PLANTED = (
    _bug(
        "annex-left-out",
        "W9",
        "a checkpoint, and with it the state that a learner gets, has no parts of annexes",
        AnnexStates,
        "save",
        lambda states: {},
    ),
    _bug(
        "annex-not-loaded",
        "W9",
        "a loaded state has no parts of annexes",
        AnnexStates,
        "load",
        _load_nothing,
    ),
    _bug(
        "update-without-annex",
        "W9",
        "a warm backup is brought forward without the parts of annexes",
        ObjectState,
        "set_update",
        _without_annexes,
    ),
    _bug(
        "annex-not-ready",
        "W10",
        "a record is applied before its annex is ready",
        ObjectState,
        "may_apply",
        lambda state, record: True,
    ),
    _bug(
        "annex-out-of-order",
        "W10",
        "what a record has the object do is done in another order",
        execution,
        "jobs_of",
        _last_first,
    ),
)
