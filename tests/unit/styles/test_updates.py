"""Updateable objects: backups receive what changed (FTC-294)."""

import msgspec
import pytest
from fake_group import FakeGroup
from group_classes import Spy, TellsUpdates, call, sent
from style_groups import CONFIG, group, lines, write

from holdfast.model.ids import SECOND
from holdfast.model.outcome import Returned, encode_outcome
from holdfast.sim.scenarios.groups.objects import Ledger
from holdfast.styles.config import StyleConfig


def test_a_warm_backup_that_gets_updates_does_not_run_ahead_of_them() -> None:
    """The next update would apply what it replayed once more."""
    made = group("warm", Updating)
    write(made, 1)
    made.settle()
    backup = made.replicas["b"]
    backup.keep_up()
    assert backup.reached < made.members["b"].committed


class Updating(TellsUpdates, Spy):
    """Can report what changed."""


def updating_group() -> FakeGroup:
    """Every call is followed by a step; there are no checkpoints."""
    config = StyleConfig(checkpoint_interval_ns=10**6 * SECOND, replay_budget_ns=1, scan_positions=1)
    made = group("warm", Updating, config)
    write(made, 1)
    made.settle()
    return made


@pytest.mark.covers("FTC-294", "FTC-307")
def test_updates_bring_backups_forward_without_executing() -> None:
    made = updating_group()
    Spy.runs.clear()
    write(made, 2)
    made.settle()
    assert Spy.runs == ["line 2"], "once, by the primary"
    assert lines(made, "b") == ["line 1", "line 2"]


def test_an_update_after_a_learner_was_given_a_state_lacks_nothing() -> None:
    """FTC-307: asking for the state makes the next update start there, where the backups are not."""
    made = updating_group()
    made.replicas["a"].on_calls("t", sent(call(2, "write", "line 2")))
    made.members["b"].committed = made.members["a"].committed
    for name in "abc":
        made.replicate(name)
    made.commit()
    made.replicas["a"].capture()
    write(made, 3)
    made.settle()
    assert lines(made, "b") == ["line 1", "line 2", "line 3"]


def test_the_first_update_of_a_new_primary_repeats_nothing() -> None:
    made = updating_group()
    write(made, 2)
    made.settle()
    made.fail_over("b", is_crash=True)
    for number in (3, 4):
        write(made, number)
        made.settle()
    assert lines(made, "c") == ["line 1", "line 2", "line 3", "line 4"]


def test_backups_that_replayed_into_a_call_get_no_update_of_it_as_well() -> None:
    """A warm backup replays up to where a call waits for another group; the next update must not start before
    that, nor leave the call waiting there. Found by seed 22 of the scenario groups."""
    often = msgspec.structs.replace(CONFIG, replay_budget_ns=1, checkpoint_interval_ns=3600 * SECOND)
    made = group("warm", Ledger, msgspec.structs.replace(often, scan_positions=1))
    primary = made.replicas["a"]
    for number, token in enumerate("wx", start=1):
        primary.on_calls("t", sent(call(number, "append", token)))
        made.settle()
    primary.on_calls("t", sent(call(3, "relay", "y", ["other"])))
    made.settle()
    made.commit()
    made.settle()
    [(_, outgoing)] = made.outgoing
    made.outgoing.clear()
    primary.on_nested_outcome(outgoing.caller, outgoing.call, encode_outcome(Returned("y>0")))
    for number in (4, 5):
        primary.on_calls("t", sent(call(number, "append", f"z{number}")))
        made.settle()
    made.fail_over("b", is_crash=True)
    made.settle()
    execution = made.replicas["b"].execution
    assert execution is not None
    assert isinstance(execution.line.instance, Ledger)
    assert execution.is_idle
    assert execution.line.instance.tokens == ["w", "x", "y", "z4", "z5"]
    assert made.faults == []
