"""Tests a host's history of a group: which views it saw, and the steps of its own claims."""

from holdfast.authority.history import Chapter, Steps, Unkept
from holdfast.authority.views import Cause, View, ViewMember, Why
from holdfast.groups.group_history import FIRST_ANSWER_NS, GROUND_NS, VIEWS_KEPT, GroupHistory
from holdfast.model.ids import Epoch, GroupId, HostId, Incarnation, Nonce, Opening, StoreId

A, B = HostId("a"), HostId("b")
ME = ViewMember(host=A, store=StoreId("s"), incarnation=Incarnation(3), opening=Opening(1))


class Hands:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.at = 100

    def now(self) -> int:
        return self.at

    def wall(self) -> int:
        return self.at


class Heard:
    """A trace that remembers."""

    def __init__(self) -> None:
        self.notes: list[tuple[str, dict[str, object]]] = []

    def note(self, kind: str, **fields: object) -> None:
        self.notes.append((kind, fields))


class Story:
    """A group history, and how often it had news."""

    def __init__(self) -> None:
        self.clock = Hands()
        self.news = 0
        self.trace = Heard()
        self.history = GroupHistory(self.trace, self.clock, self._on_news, ME)

    def _on_news(self) -> None:
        self.news += 1

    def note(self, at: int, kind: str, **fields: object) -> None:
        self.clock.at = at
        self.history.note(kind, **fields)


def view(epoch: int, primary: HostId = A) -> View:
    return View(
        group=GroupId(1),
        epoch=Epoch(epoch),
        primary=primary,
        members=(),
        nonce=Nonce(f"n{epoch}"),
        cause=Cause(why=Why.DEAD),
    )


def test_the_steps_of_a_claim_count_from_the_word_of_the_death() -> None:
    story = Story()
    story.history.on_view(view(1))
    story.history.on_ground(view(1), A, 105, 30)
    story.note(110, "claim", epoch=2)
    story.note(120, "won", epoch=2)
    story.history.on_view(view(2, B))
    story.note(130, "serving", epoch=2)
    story.note(140, "replayed", operations=7)
    story.note(150, "taken_up", position=9)
    steps = Steps(claimed_ns=15, committed_ns=25, ready_ns=45, replayed=7, silent_ns=30)
    assert story.history.chapters() == (Chapter.of(view(1)), Chapter.of(view(2, B), steps))
    assert story.news == 2


def test_the_first_answer_after_a_fail_over_is_told_once() -> None:
    """It is not told if it comes so late that no caller was waiting, or if an object became ready without a
    claim."""
    for at, told in ((170, [20]), (150 + FIRST_ANSWER_NS, [])):
        story = Story()
        story.history.on_view(view(1))
        story.note(110, "claim", epoch=2)
        story.note(120, "won", epoch=2)
        story.note(150, "taken_up", position=9)
        story.note(at, "answered")
        story.note(at + 1, "answered")
        story.note(at + 2, "taken_up", position=10)
        story.note(at + 3, "answered")
        assert [fields["after_ns"] for kind, fields in story.trace.notes if kind == "first_answer"] == told


def test_the_death_of_a_backup_begins_no_fail_over() -> None:
    """A claim that comes much later is measured from its own start."""
    story = Story()
    story.history.on_view(view(1))
    story.history.on_ground(view(1), B, 100)
    story.note(500, "claim", epoch=2)
    story.note(510, "won", epoch=2)
    story.history.on_view(view(2, B))
    assert story.history.chapters()[-1].steps == Steps(claimed_ns=10)


def test_a_silence_of_long_ago_is_not_where_a_fail_over_begins() -> None:
    """The primary came back, and dies much later."""
    story = Story()
    story.history.on_view(view(1))
    story.history.on_ground(view(1), A, 100)
    died = 100 + 2 * GROUND_NS
    story.history.on_ground(view(1), A, died)
    story.note(died + 5, "claim", epoch=2)
    story.note(died + 20, "won", epoch=2)
    story.history.on_view(view(2, B))
    assert story.history.chapters()[-1].steps == Steps(claimed_ns=20)


def test_a_change_of_members_is_news_without_steps() -> None:
    """This holds even if the change comes before the claim that made this member primary has ended."""
    story = Story()
    story.note(110, "claim", epoch=2)
    story.note(120, "won", epoch=2)
    story.note(130, "won", epoch=3)
    story.note(140, "serving", epoch=3)
    story.note(150, "taken_up", position=1)
    story.note(160, "won", epoch=4)
    for epoch in (2, 3, 4):
        story.history.on_view(view(epoch))
    claimed, added, dropped = story.history.chapters()
    assert claimed.steps == Steps(claimed_ns=10, committed_ns=30, ready_ns=40)
    assert (added.steps, dropped.steps) == (None, None)


def test_an_object_that_is_made_again_without_a_claim_changes_nothing() -> None:
    story = Story()
    story.note(110, "claim", epoch=2)
    story.note(120, "won", epoch=2)
    story.note(150, "taken_up", position=1)
    story.history.on_view(view(2))
    before = story.history.chapters()
    story.note(900, "replayed", operations=1000)
    story.note(950, "taken_up", position=1)
    assert story.history.chapters() == before


def test_a_checkpoint_that_failed_is_news_until_one_is_made() -> None:
    story = Story()
    assert story.history.unkept is None, "what its host's last process said stands"
    story.note(5, "checkpoint_failed", why="Held.at holds a float")
    process = Incarnation(3)
    why = "Held.at holds a float"
    assert story.history.unkept == Unkept(host=A, why=why, at_ns=story.clock.wall(), incarnation=process)
    story.note(6, "checkpoints_well")
    assert story.history.unkept == Unkept(host=A, why="", at_ns=story.clock.wall(), incarnation=process)
    assert story.news == 2


def test_only_the_latest_views_are_kept() -> None:
    story = Story()
    for epoch in range(1, VIEWS_KEPT + 5):
        story.history.on_view(view(epoch))
    assert [each.epoch for each in story.history.chapters()] == list(range(5, VIEWS_KEPT + 5))


def test_how_long_a_failover_took_is_noted_once_it_serves() -> None:
    """The note feeds histograms. An object that becomes ready again without a claim is no failover."""
    heard, clock = Heard(), Hands()
    history = GroupHistory(heard, clock, lambda: None, ME)
    for at, kind in ((110, "claim"), (120, "won"), (130, "serving"), (150, "taken_up"), (190, "taken_up")):
        clock.at = at
        history.note(kind, epoch=2)
    told = [fields for kind, fields in heard.notes if kind == "failed_over"]
    assert told == [{"claimed_ns": 10, "committed_ns": 20, "ready_ns": 40, "silent_ns": None}]
