"""Bugs planted in what happens when classes change: each leaves out a part of rule E7."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from holdfast.execution.definition import bring_up_to_date
from holdfast.execution.execution import Execution
from holdfast.execution.records import Forward, Record, Upgraded
from holdfast.groups import host_groups
from holdfast.model.code import Code
from holdfast.model.ids import Position
from holdfast.sim.runner.planted import Planted, Planting, replacing
from holdfast.storage.record import Record as Stored
from holdfast.styles import code_replay as styles_tail
from holdfast.styles.code_replay import CodeReplay, Tail
from holdfast.styles.passive import Passive
from holdfast.styles.warm import Warm

_of = Execution._of
_take = Tail.take
_advance = Warm._advance


def _same_version(one: Code, other: Code) -> bool:
    """Compares code only by the version that the class declares."""
    return one.version == other.version


def _goes_on_all_the_same(execution: Execution, record: Upgraded) -> None:
    """Lets a member with the old code execute what the new code ordered."""
    execution.code, execution.is_own = record.to_code, True


def _loaded_and_upgraded(definition: Any, found: Any, instance: Any) -> Execution:
    """Upgrades a state whenever it is loaded, whichever code made it."""
    made = _of(definition, found, instance)
    if made.position and made.is_own:
        bring_up_to_date(definition, instance, made.timers, found.code, made.position, made.time_ns)
    return made


def _not_ordered(passive: Passive, execution: Execution, record: Upgraded) -> Position:
    """Lets the primary continue with its own code without telling anyone."""
    bring_up_to_date(
        execution.definition,
        execution.line.instance,
        execution.timers,
        execution.code,
        execution.position,
        execution.time_ns,
    )
    execution.is_own = True
    return execution.position


def _only_renamed(warm: Warm, records: list[Stored], step: Record) -> Iterator[None]:
    """Lets a warm backup record the new code without upgrading its state."""
    if not isinstance(step, Upgraded) or not step.from_code.digest:
        yield from _advance(warm, records, step)
        return
    yield from _advance(warm, records, Forward())
    warm._object()._take_code(step.to_code)


def _one_code_for_all(tail: Tail, records: Any) -> None:
    """Assumes that the code that made the checkpoint also made everything after it."""
    with_upgrades = styles_tail.UPGRADED
    styles_tail.UPGRADED = b""  # type: ignore[misc]  # this is the bug
    try:
        _take(tail, records)
    finally:
        styles_tail.UPGRADED = with_upgrades  # type: ignore[misc]  # restored


@contextmanager
def _whatever_is_there() -> Iterator[None]:
    """Never checks which code made a state."""
    with (
        replacing(Execution, "_check_own", lambda execution, first: None),
        replacing(Execution, "_upgrade", _goes_on_all_the_same),
        replacing(CodeReplay, "check_state", lambda succession, code, position, leads: None),
    ):
        yield


_bug: Final = Planting("deploy", runs_max=60)

PLANTED: Final = (
    Planted(
        name="deploy-replayed-by-other-code",
        rule="E7",
        scenario="deploy",
        summary="what other code made is executed again by whatever is there",
        plant=_whatever_is_there,
        profile="deploys",
        runs_max=60,
    ),
    _bug(
        "digest-not-compared",
        "E7",
        "code of the same declared version is taken for the same",
        Code,
        "is_same",
        _same_version,
        "deploys",
    ),
    _bug(
        "old-code-goes-on",
        "E7",
        "a member with the old code goes on after the upgrade",
        Execution,
        "_upgrade",
        _goes_on_all_the_same,
        "deploys",
    ),
    _bug(
        "upgrade-not-ordered",
        "E7",
        "a primary goes on with its own code without a record of it",
        Passive,
        "_order_upgrade",
        _not_ordered,
        "deploys",
    ),
    _bug(
        "upgraded-at-every-load",
        "E7",
        "an object is brought up to date whenever it is loaded",
        Execution,
        "_of",
        staticmethod(_loaded_and_upgraded),
        "deploys",
    ),
    _bug(
        "backup-not-upgraded",
        "E7",
        "a warm backup takes the new code and does not bring its object up to date",
        Warm,
        "_advance",
        _only_renamed,
        "deploys",
    ),
    _bug(
        "upgrade-not-seen",
        "E7",
        "what follows a checkpoint is taken for made by what made the checkpoint",
        Tail,
        "take",
        _one_code_for_all,
        "deploys",
    ),
    _bug(
        "hosts-not-asked",
        "E7",
        "a group goes on with other code while hosts have the one that served it",
        host_groups,
        "why_not_upgrade",
        lambda record, made_by, here, sessions: "",
        "deploys",
    ),
)
