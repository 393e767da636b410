"""The control plane under every fault, and stopped at every step of an update (IM C, D, F, M)."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

from holdfast.authority.standing import Status
from holdfast.control.coordinating import Coordinator, Update
from holdfast.control.following import Replica
from holdfast.control.messages import Prepare
from holdfast.model.ids import Nonce
from holdfast.sim.control.host import Tokens
from holdfast.sim.disk import ProcessKilled
from holdfast.sim.options import Options
from holdfast.sim.planted import planted_bugs, replacing
from holdfast.sim.profiles import expand
from holdfast.sim.runner import run_seeds, search_planted
from holdfast.sim.scenarios.control import Control
from holdfast.sim.simulation import simulate

QUICK = ("control-told-before-posted", "control-joins-while-open", "control-hole-accepted")
"""Found within a few runs; the others are `holdfast sim planted --scenario control`."""


@pytest.mark.covers("IM-13", "IM-14", "IM-18", "IM-35", "IM-129")
def test_no_change_is_lost_or_appears_under_all_faults(rounds: Callable[..., int]) -> None:
    """What was accepted is there; what failed is not; what is open can be asked for; contexts are equal."""
    summary = run_seeds("control", range(rounds(short=10, long=2000)), jobs=2)
    assert summary.violations == []
    assert summary.operations > 100 * summary.seeds
    assert {"a coordinator was elected", "a death was proved"} <= set(summary.sometimes)


def test_planted_bugs_are_found(rounds: Callable[..., int]) -> None:
    """Each breaks one rule; were one not found, the test above would mean less."""
    bugs = planted_bugs("control")
    chosen = [bug for bug in bugs if bug.name in QUICK] if rounds(short=1, long=2) == 1 else bugs
    searches = search_planted(chosen, jobs=2)
    assert [search.name for search in searches if not search.found] == []


# --- stopped at that very step


@dataclass
class Stopped:
    """Which update was under way when its coordinator ended, and what became of it."""

    update: Update | None = None
    decisions: dict[int, Status | None] = field(default_factory=dict)
    final: list[str] = field(default_factory=list)

    @property
    def decision(self) -> Status | None:
        assert self.update is not None
        return self.decisions.get(self.update.cas)

    @property
    def is_there(self) -> bool:
        assert self.update is not None
        return any(change.decode() in self.final for change in self.update.changes)


FIFTH = 5
"""The update at which it happens: not the first, so that there is a context to keep."""


def stop_at(step: str) -> Stopped:
    """Kill the coordinator in its fifth *step*; all else is calm, and the scenario finds nothing wrong."""
    stopped = Stopped()
    met: list[Nonce] = []
    original = getattr(Coordinator, step)

    def killing(coordinator: Coordinator, update: Update, *arguments: Any, **named: Any) -> None:
        if update.nonce not in met:
            met.append(update.nonce)
        if stopped.update is None and len(met) == FIFTH:
            stopped.update = update
            application = coordinator.me.application
            assert isinstance(application, Tokens)
            application.host.ports.node.kill()
            application.host.ports.node.restart(300_000_000)
            raise ProcessKilled(step)
        original(coordinator, update, *arguments, **named)

    with replacing(Coordinator, step, killing), observed(stopped):
        outcome = simulate(calm())
    assert outcome.violations == ()
    assert stopped.update is not None, f"no update came to {step}"
    return stopped


@contextmanager
def observed(stopped: Stopped) -> Iterator[None]:
    finish = Control.finish

    def finishing(scenario: Control, world: Any) -> None:
        finish(scenario, world)
        book = scenario.book
        assert stopped.update is not None
        stopped.decisions[stopped.update.cas] = book.truth.rules.decision(stopped.update.cas)
        stopped.final = book.final_tokens

    with replacing(Control, "finish", finishing):
        yield


def calm() -> Options:
    return expand("control", 3, "calm")


@pytest.mark.covers("IM-135", "IM-109")
@pytest.mark.parametrize("step", ["_send_prepares", "_accepted_all", "_decide"])
def test_a_coordinator_that_dies_before_commit_is_posted_leaves_nothing(step: str) -> None:
    """Opened, prepared, accepted by all: until commit is posted it was never made, and everybody drops it."""
    stopped = stop_at(step)
    assert stopped.decision is Status.ROLLBACK
    assert not stopped.is_there


@pytest.mark.covers("IM-136")
@pytest.mark.parametrize("step", ["_decided", "_committed"])
def test_a_coordinator_that_dies_after_commit_is_posted_leaves_it_committed(step: str) -> None:
    """Nobody has heard of it but the authority; the next coordinator has it all the same."""
    stopped = stop_at(step)
    assert stopped.decision is Status.COMMIT
    assert stopped.is_there


@pytest.mark.covers("IM-133", "IM-24", "IM-25", "IM-26")
@pytest.mark.parametrize("how", ["declines", "is_silent"])
def test_one_replica_that_fails_in_phase_one_rolls_everybody_back(how: str) -> None:
    """The record says rollback, the client hears failure, and no context has the change."""
    stopped = Stopped()
    count = 0
    prepare, failed = Coordinator._prepare, Update.tell_failed

    def preparing(coordinator: Coordinator, update: Update, *arguments: Any) -> None:
        nonlocal count
        count += 1
        if count == FIFTH:
            stopped.update = update
        prepare(coordinator, update, *arguments)

    keep = Replica._keep

    def failing(replica: Replica, asked: Prepare) -> None:
        if stopped.update is None or asked.cas != stopped.update.cas or replica.me.host != "h2":
            keep(replica, asked)
        elif how == "declines":
            replica.decline(asked.cas, "it was told to")

    told: list[str] = []

    def telling(update: Update, why: Exception) -> None:
        if update is stopped.update:
            told.append(str(why))
        failed(update, why)  # type: ignore[arg-type]  # as it came

    with (
        replacing(Coordinator, "_prepare", preparing),
        replacing(Replica, "_keep", failing),
        replacing(Update, "tell_failed", telling),
        observed(stopped),
    ):
        outcome = simulate(calm())
    assert outcome.violations == ()
    assert stopped.decision is Status.ROLLBACK
    assert not stopped.is_there
    assert "nothing was changed" in told[0]


@pytest.mark.covers("IM-134", "IM-32")
def test_a_replica_that_does_not_hear_the_decision_asks_the_record() -> None:
    """Phase two is told once; whoever misses it settles its log by what the authority says."""
    stopped = Stopped()
    count = 0
    committed = Coordinator._committed

    def committing(coordinator: Coordinator, update: Update) -> None:
        nonlocal count
        count += 1
        if count == FIFTH:
            stopped.update = update
            update.participants = (coordinator.me.host,)  # nobody else is told
        committed(coordinator, update)

    with replacing(Coordinator, "_committed", committing), observed(stopped):
        outcome = simulate(calm())
    assert outcome.violations == (), "at the end all hosts hold the same context"
    assert stopped.decision is Status.COMMIT
    assert stopped.is_there
