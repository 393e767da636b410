"""A repeated Idempotency-Key is one request, judged by the group's own table (X1 to X4)."""

import asyncio
import heapq
from dataclasses import dataclass
from itertools import count
from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.admin.client_rights import ClientRights
from holdfast.admin.request_owners import door_client
from holdfast.calling.config import CallPolicy
from holdfast.model.calls import CallOutcomeUnknown, RequestId
from holdfast.model.ids import GroupId, Position
from holdfast.sequence.retention import NEVER, Fresh, Repeated, Retention, Verdict
from holdfast.web.about_calls import AskOutcome, ask_outcome
from holdfast.web.calls import KEEP_S, SLACK_S, WINDOW_S, HttpCalls, keyed
from holdfast.web.problems import Refusal

GROUP = GroupId(7)
DOOR = door_client()
NOW_S = 1_700_000_000
SKEW_S = SLACK_S // 2
"""Two hosts differ by no more than the slack."""


def test_the_same_key_is_the_same_id_at_every_host() -> None:
    """The id depends only on the key, the group and the group's time."""
    assert keyed("shop", GROUP, "k", NOW_S) == keyed("shop", GROUP, "k", NOW_S)


@pytest.mark.parametrize(
    "other", [("ops", GROUP, "k"), ("shop", GroupId(8), "k"), ("shop", GROUP, "l"), ("shop\0k", GROUP, "")]
)
def test_another_caller_group_or_key_is_another_request(other: tuple[str, GroupId, str]) -> None:
    """One caller's key can neither be repeated nor asked about by another."""
    assert keyed(*other, NOW_S).request.client != keyed("shop", GROUP, "k", NOW_S).request.client


@given(st.text("abc", min_size=1, max_size=3), st.integers(0, 3 * WINDOW_S), st.integers(0, KEEP_S))
def test_a_key_repeated_in_time_meets_its_first_id(key: str, first_s: int, later_s: int) -> None:
    """Within KEEP_S the first id is the one used now, or the one asked for first; it has not expired."""
    first = keyed("shop", GROUP, key, NOW_S + first_s).request
    again = keyed("shop", GROUP, key, NOW_S + first_s + later_s)
    assert first in (again.request, again.before)
    assert first.expiration_s > NOW_S + first_s + later_s + SLACK_S


@given(st.text("abc", min_size=1, max_size=3), st.integers(0, WINDOW_S), st.integers(0, WINDOW_S))
def test_an_id_has_one_expiration(key: str, one_s: int, other_s: int) -> None:
    """FTC-93: every copy of a request carries the same expiration."""
    one, other = keyed("shop", GROUP, key, NOW_S + one_s), keyed("shop", GROUP, key, NOW_S + other_s)
    assert (one.request.client == other.request.client) == (one.request == other.request)


class Group:
    """A group's table, how often the one call has run, and what is still on its way to it."""

    def __init__(self) -> None:
        self._table = Retention()
        self._late: list[tuple[int, int, RequestId, bool]] = []
        self.runs = 0

    def at(self, time_s: int) -> None:
        """Advance to *time_s*: what was due by now arrives, and nobody waits for its answer any more."""
        while self._late and self._late[0][0] <= time_s:
            late_s, _, request, is_question = heapq.heappop(self._late)
            self._table.advance(late_s)
            self._take(request, is_question)
        self._table.advance(time_s)

    def send(self, request: RequestId, is_question: bool, fate: "Fate") -> Verdict | None:
        """Send a copy that arrives now, or later, or both; returns the answer given now."""
        if fate.again_s:
            again_s = self._table.time_s + fate.again_s
            heapq.heappush(self._late, (again_s, len(self._late), request, is_question))
        return None if fate.is_lost else self._take(request, is_question)

    def _take(self, request: RequestId, is_question: bool) -> Verdict:
        number, expiration_s = request.request, request.expiration_s
        if is_question:
            return self._table.settle(*number, expiration_s)
        verdict = self._table.judge(*number, expiration_s)
        if isinstance(verdict, Fresh):
            self.runs += 1
            self._table.begin(*number, Position(self.runs), expiration_s)
            self._table.finish(*number, b"first")
        return verdict


@dataclass(frozen=True)
class Fate:
    """What happens to a message: whether it is lost now, and how late a copy arrives (0 for no copy)."""

    is_lost: bool
    again_s: int


def repeat(group: Group, time_s: int, skew_s: int, fate: Fate) -> bool:
    """What a door does with a call under the key; returns whether it has an answer."""
    group.at(time_s)
    ids = keyed("shop", GROUP, "k", time_s + skew_s)
    if ids.before is not None:
        verdict = group.send(ids.before, True, fate)
        if verdict is None or isinstance(verdict, Repeated):
            return verdict is not None
    for request in (ids.request, ids.after):
        verdict = None if request is None else group.send(request, False, fate)
        if verdict is not NEVER:
            return isinstance(verdict, Fresh | Repeated)
    return False


fates = st.builds(Fate, st.booleans(), st.sampled_from([0, 60, 900, 1700, 7200]))


@given(
    st.integers(0, WINDOW_S),
    st.lists(st.tuples(st.integers(0, KEEP_S), st.integers(-SKEW_S, SKEW_S), fates), max_size=6),
)
def test_repetitions_run_once_whatever_is_lost_or_held_up(
    start_s: int, repetitions: list[tuple[int, int, Fate]]
) -> None:
    """Doors send the call at various times, by clocks that differ a little. What they send is lost, or also
    arrives hours later, from a host that was paused. It runs at most once, and exactly once if anyone has an
    answer."""
    group = Group()
    first_s = NOW_S + start_s
    tries = [(0, 0, Fate(False, 0)), *sorted(repetitions, key=lambda each: each[0])]
    answered = [repeat(group, first_s + later_s, skew_s, fate) for later_s, skew_s, fate in tries]
    assert answered[0]
    group.at(first_s + 10 * WINDOW_S)
    assert group.runs == 1


@given(
    st.integers(0, WINDOW_S),
    st.lists(st.tuples(st.integers(0, KEEP_S), st.integers(-SKEW_S, SKEW_S), fates), min_size=1, max_size=6),
)
def test_a_call_that_is_lost_at_first_runs_at_most_once(
    start_s: int, repetitions: list[tuple[int, int, Fate]]
) -> None:
    """As above, but nobody knows which copy will be the first to arrive."""
    group = Group()
    for later_s, skew_s, fate in sorted(repetitions, key=lambda each: each[0]):
        repeat(group, NOW_S + start_s + later_s, skew_s, fate)
    group.at(NOW_S + start_s + 10 * WINDOW_S)
    assert group.runs <= 1


class Forgetful:
    """A domain whose groups never say what became of a call."""

    def __init__(self) -> None:
        self._numbers = count(1)

    async def caller(self, group: str) -> "Forgetful":
        return self

    async def call_traced(self, *call: object, **trace: object) -> object:
        raise CallOutcomeUnknown(RequestId(GROUP, DOOR, next(self._numbers), NOW_S), waited_s=1.0)


def test_the_id_of_a_call_without_a_key_is_for_whom_it_was_told() -> None:
    """All callers of a door share one client, whose numbers count up (N4)."""
    calls = HttpCalls(cast(Any, Forgetful()), cast(Any, None))

    async def told(who: str) -> RequestId:
        with pytest.raises(CallOutcomeUnknown) as error:
            await calls.call(who, "g", "m", [], CallPolicy())
        return error.value.request_id

    ones, others = asyncio.run(told("anna")), asyncio.run(told("bert"))
    assert calls.is_told("anna", ones)
    assert not calls.is_told("anna", others)
    assert not calls.is_told("anna", others._replace(number=99))
    assert calls.is_told("anna", keyed("anna", GROUP, "k", NOW_S).request)
    assert not calls.is_told("anna", keyed("bert", GROUP, "k", NOW_S).request)


def test_an_outcome_is_told_over_http_to_whose_call_it_was() -> None:
    """Anna may see the group, but not what became of Bert's calls (N4); an admin may."""

    class Answering(Forgetful):
        async def outcome(self, request: RequestId) -> object:
            return "paid"

    records = {GROUP: SimpleNamespace(name="g")}
    context = SimpleNamespace(groups=SimpleNamespace(catalog=SimpleNamespace(records=records)))
    calls = HttpCalls(cast(Any, Answering()), cast(Any, context))
    site = cast(Any, SimpleNamespace(inside=SimpleNamespace(calls=calls)))

    def asked(grade: Any, of: str) -> object:
        about = AskOutcome(request_id=str(keyed(of, GROUP, "k", NOW_S).request))
        caller = ClientRights("anna", grade, {"g": ("*",)})
        reply = asyncio.run(ask_outcome(site, cast(Any, SimpleNamespace(body=about, caller=caller))))
        return cast(Any, reply.value).result

    assert asked("client", "anna") == asked("admin", "bert") == "paid"
    with pytest.raises(Refusal) as refused:
        asked("client", "bert")
    assert (refused.value.status, refused.value.problem.code) == (403, "forbidden")
