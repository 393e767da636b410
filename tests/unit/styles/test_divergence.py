"""A member whose object differs gives it up, and does not lead until it has its primary's state (E8)."""

import random
from typing import ClassVar

import msgspec
import pytest
from fake_group import FakeGroup
from group_classes import Spy
from style_groups import ALL, CONFIG, group, write

from holdfast.model.errors import Unavailable
from holdfast.model.ids import SECOND, Position
from holdfast.sequence.role import Rank
from holdfast.storage.record import ORIGIN
from holdfast.styles.divergence import TIMES_MAX, WITHIN_NS, Absence, Diverged


class Swayed(Spy):
    """Its answers depend on something that is not in its state."""

    is_otherwise: ClassVar[bool] = False

    def write(self, line: str) -> int:
        return super().write(line) + 100 * self.is_otherwise


REPLAYS = msgspec.structs.replace(CONFIG, sent_state_bytes_max=1)
"""No state is small enough to be sent, so backups replay."""


def ranks(made: FakeGroup) -> dict[str, Rank]:
    return {name: replica.fitness().rank for name, replica in made.replicas.items()}


def spoil(made: FakeGroup, name: str) -> None:
    """Change the object of that host without a record."""
    execution = made.replicas[name].execution
    assert execution is not None
    execution.line.instance.lines.append("a bit has flipped")  # type: ignore[attr-defined]  # of the journal


def interval(made: FakeGroup) -> None:
    made.clock.time_ns += made.config.checkpoint_interval_ns
    made.settle()
    made.settle()


def give_state(made: FakeGroup, to: str) -> Position:
    """Do what the sequence does for a member that wants a state."""
    replica, member = made.replicas[to], made.members[to]
    fitness = replica.fitness()
    assert fitness.wants_state
    kept = made.replicas[made.primary].capture(fitness.found_at)
    assert kept is not None
    assert kept.position >= fitness.found_at
    member.checkpoint = kept
    replica.install(kept)
    replica.on_committed(member.committed)
    made.settle()
    return kept.position


@pytest.mark.parametrize("style", ["warm", "active"])
def test_a_backup_that_differs_gives_up_its_object_and_takes_the_primarys(style: str) -> None:
    made = group(style, config=REPLAYS)
    write(made, 1)
    interval(made)
    if style == "warm":
        made.replicas["b"].keep_up()
    spoil(made, "b")
    before = made.members["b"].checkpoint
    write(made, 2)
    interval(made)
    assert ranks(made) == {"a": Rank.NEAR, "b": Rank.UNFIT, "c": Rank.NEAR}
    assert made.replicas["b"].execution is None
    assert [(name, kind) for name, kind, _ in made.faults] == [("b", "divergence")]
    assert made.members["b"].checkpoint == before, "what it captured is nobody's checkpoint"
    assert made.members["c"].checkpoint != before, "but what was found equal is"
    with pytest.raises(Unavailable, match="no object here: its object differs"):
        made.replicas["b"].on_stale_queries("token", "client", [])  # type: ignore[arg-type]  # an id
    give_state(made, "b")
    assert ranks(made)["b"] in (Rank.NEAR, Rank.FAR)
    write(made, 3)
    interval(made)
    made.fail_over("b", is_crash=True)
    made.settle()
    assert made.replicas["b"].is_ready
    execution = made.replicas["b"].execution
    assert execution is not None
    assert "a bit has flipped" not in execution.line.instance.lines  # type: ignore[attr-defined]


@pytest.mark.parametrize("style", ["cold", "warm"])
def test_a_new_primary_that_replays_otherwise_does_not_serve(
    style: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The recorded replies remain valid, and its object would not be the one that gave them."""
    made = group(style, Swayed)
    write(made, 1)
    made.settle()
    monkeypatch.setattr(Swayed, "is_otherwise", True)
    made.fail_over("b", is_crash=True)
    made.settle()
    monkeypatch.setattr(Swayed, "is_otherwise", False)
    replica = made.replicas["b"]
    assert not replica.is_ready
    assert replica.fitness().rank is Rank.UNFIT
    assert made.passed_on
    assert made.passed_on[-1][0] == "b"
    with pytest.raises(Unavailable, match="differs from the one that answered"):
        write(made, 2)
    made.fail_over("c", is_crash=False)
    made.settle()
    assert made.replicas["c"].is_ready
    give_state(made, "b")
    assert replica.fitness().rank < Rank.UNABLE


@pytest.mark.parametrize("style", ["cold", "warm"])
def test_a_person_may_go_on_from_one_that_differs(style: str, monkeypatch: pytest.MonkeyPatch) -> None:
    made = group(style, Swayed)
    write(made, 1)
    made.settle()
    monkeypatch.setattr(Swayed, "is_otherwise", True)
    made.fail_over("b", is_crash=True)
    made.settle()
    assert not made.replicas["b"].is_ready
    made.replicas["b"].on_forced()
    made.settle()
    monkeypatch.setattr(Swayed, "is_otherwise", False)
    assert made.replicas["b"].is_ready
    assert made.members["b"].checkpoint is not None, "nobody has to replay what came out otherwise"


def test_a_primary_offers_only_what_helps() -> None:
    """A state from before the difference would only show it again."""
    made = group("warm", config=REPLAYS)
    write(made, 1)
    interval(made)
    primary = made.replicas["a"]
    far = Position(made.members["a"].tail + 10)
    assert primary.capture(far) is None
    assert made.replicas["b"].capture(Position(1)) is None, "only who has answered"
    kept = primary.capture(Position(1))
    assert kept is not None
    assert primary.capture(ORIGIN.position) is not None


def test_who_differs_again_and_again_stays_without() -> None:
    made = group("warm")
    absence = Absence(made.clock)
    for _ in range(TIMES_MAX - 1):
        absence.differs(Diverged("an outcome", Position(7)))
        assert absence.now is not None
        assert absence.now.wants_state
        absence.took_state(Position(6))
        assert absence.is_absent, "that one does not help"
        absence.took_state(Position(7))
        assert not absence.is_absent
    made.clock.time_ns += 60 * SECOND
    absence.differs(Diverged("an outcome", Position(8)))
    assert absence.now is not None
    assert not absence.now.wants_state
    assert "start the host anew" in absence.why
    absence.took_state(Position(9))
    assert absence.is_absent


def test_now_and_then_is_not_again_and_again() -> None:
    made = group("warm")
    absence = Absence(made.clock)
    rng = random.Random(7)
    for _ in range(3 * TIMES_MAX):
        absence.differs(Diverged("an outcome", Position(7)))
        assert absence.now is not None
        assert absence.now.wants_state
        absence.took_state(Position(7))
        made.clock.time_ns += WITHIN_NS // 2 + rng.randint(1, SECOND)


@pytest.mark.parametrize("style", ALL)
def test_a_host_may_withhold_the_object_for_a_reason_of_its_own(style: str) -> None:
    made = group(style)
    write(made, 1)
    made.settle()
    made.replicas["b"].readiness.go_without("the group's code is x, here is y")
    made.settle()
    fitness = made.replicas["b"].fitness()
    assert (fitness.rank, fitness.why) == (Rank.UNFIT, "the group's code is x, here is y")
    assert not fitness.wants_state
    write(made, 2)
    made.settle()
    assert made.replicas["b"].execution is None
    made.replicas["b"].readiness.go_on_with()
    made.settle()
    assert ranks(made)["b"] < Rank.UNABLE
    made.fail_over("b", is_crash=True)
    made.settle()
    assert made.replicas["b"].is_ready


@pytest.mark.parametrize("style", ["warm", "active"])
def test_what_was_kept_since_the_last_equal_digest_is_void(style: str) -> None:
    """This is a former primary: nobody has compared what it kept as primary."""
    made = group(style, config=REPLAYS)
    write(made, 1)
    interval(made)
    kept = made.members["a"].checkpoint
    assert kept is not None
    voided: list[Position] = []
    object.__setattr__(made.ports["a"], "void_checkpoints", voided.append)
    made.fail_over("b", is_crash=False)
    made.settle()
    if style == "warm":
        made.replicas["a"].keep_up()
    spoil(made, "a")
    write(made, 2)
    interval(made)
    assert ranks(made)["a"] is Rank.UNFIT
    assert voided == [0]
    assert kept.position > 0


@pytest.mark.parametrize("style", ALL)
def test_a_process_that_finds_its_checkpoints_void_has_no_object(style: str) -> None:
    made = group(style)
    write(made, 1)
    interval(made)
    write(made, 2)
    made.settle()
    replica = made.replicas["b"]
    replica.readiness.begin_void(Position(1))
    made.settle()
    assert replica.execution is None
    fitness = replica.fitness()
    assert (fitness.rank, fitness.wants_state, fitness.found_at) == (Rank.UNFIT, True, 1)
    give_state(made, "b")
    assert ranks(made)["b"] < Rank.UNABLE


def test_one_that_stays_without_takes_states_to_keep_its_log_short() -> None:
    """A full log acknowledges nothing (D4), so the member takes states, but makes no object from them."""
    made = group("warm")
    write(made, 1)
    made.settle()
    replica = made.replicas["b"]
    replica.readiness.go_without("its host has other code")
    made.settle()
    assert not replica.fitness().wants_state
    replica.tune(msgspec.structs.replace(CONFIG, long_log_bytes=1))
    assert replica.fitness().wants_state
    give_state(made, "b")
    assert replica.execution is None
    assert replica.fitness().rank is Rank.UNFIT


class Quiet(Spy):
    """Its state depends on something that no reply shows."""

    is_otherwise: ClassVar[bool] = False

    def __init__(self) -> None:
        super().__init__()
        self.written = 0

    def write(self, line: str) -> int:
        self.written += 1 + self.is_otherwise
        return super().write(line)


def written(made: FakeGroup, name: str) -> int:
    execution = made.replicas[name].execution
    assert execution is not None
    instance = execution.line.instance
    assert isinstance(instance, Quiet)
    return instance.written


COPIES = msgspec.structs.replace(REPLAYS, inline_state_bytes_max=0)
"""Every state is captured in a copy of the process, whose digest is known only when it ends."""


def test_what_a_copy_holds_of_an_object_that_never_answered_does_not_count(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """*Without it:* a cold backup differs while it captures, the primary dies before it tells its digest, and
    the backup serves with a new object, which does not differ. It keeps what it captured as its checkpoint;
    the next time it serves from there, an acknowledged call has another effect."""
    made = group("cold", Quiet, config=COPIES)
    write(made, 1)
    monkeypatch.setattr(Quiet, "is_otherwise", True)
    interval(made)
    made.copies["b"].end()
    assert made.members["b"].checkpoint is None, "the primary has told no digest yet"
    monkeypatch.setattr(Quiet, "is_otherwise", False)
    made.fail_over("b", is_crash=True)
    made.settle()
    assert made.replicas["b"].is_ready
    made.fail_over("c", is_crash=False)
    made.settle()
    made.fail_over("b", is_crash=False)
    made.settle()
    assert written(made, "b") == 1
    write(made, 2)
    interval(made)
    made.copies["b"].end()
    made.settle()
    assert made.members["b"].checkpoint is not None, "the next one counts"


def test_what_was_captured_of_an_object_that_a_state_replaced_does_not_count(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A warm backup's object is the primary's again as soon as a state comes; what it captured before is
    not."""
    made = group("warm", Quiet, config=COPIES)
    made.replicas["b"].tune(REPLAYS)
    write(made, 1)
    monkeypatch.setattr(Quiet, "is_otherwise", True)
    interval(made)
    assert (written(made, "a"), written(made, "b")) == (1, 2)
    monkeypatch.setattr(Quiet, "is_otherwise", False)
    made.replicas["a"].tune(msgspec.structs.replace(CONFIG, replay_budget_ns=1))
    write(made, 2)
    made.settle()
    made.replicas["b"].keep_up()
    assert (written(made, "a"), written(made, "b")) == (2, 2)
    made.fail_over("b", is_crash=True)
    made.settle()
    assert made.members["b"].checkpoint is None


def test_what_was_captured_of_the_object_that_serves_counts() -> None:
    made = group("warm", config=COPIES)
    write(made, 1)
    interval(made)
    made.copies["b"].end()
    assert made.members["b"].checkpoint is None
    made.fail_over("b", is_crash=True)
    made.settle()
    assert made.members["b"].checkpoint is not None
