"""A repeated Idempotency-Key is one request, judged by the group's own table (X1 to X4)."""

from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.model.calls import RequestId
from holdfast.model.ids import GroupId, Position
from holdfast.sequence.retention import Fresh, InProgress, Refused, Repeated, Retention
from holdfast.web.keying import KEEP_S, SLACK_S, WINDOW_S, keyed

GROUP = GroupId(7)
NOW_S = 1_700_000_000
SKEW_S = SLACK_S // 2
"""Two hosts differ by no more than the slack."""


def test_the_same_key_is_the_same_id_at_every_host() -> None:
    """Nothing but the key, the group and the group's time goes into it."""
    assert keyed("shop", GROUP, "k", NOW_S) == keyed("shop", GROUP, "k", NOW_S)


@pytest.mark.parametrize(
    "other", [("ops", GROUP, "k"), ("shop", GroupId(8), "k"), ("shop", GROUP, "l"), ("shop\0k", GROUP, "")]
)
def test_another_caller_group_or_key_is_another_request(other: tuple[str, GroupId, str]) -> None:
    """One caller's key can neither be repeated nor be asked for by another's."""
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


@dataclass
class Group:
    """A group's table, and how often the one call has run. *time_s* only grows."""

    retention: Retention
    runs: int = 0

    def at(self, time_s: int) -> "Group":
        self.retention.advance(max(time_s, self.retention.time_s))
        return self

    def settle(self, request: RequestId) -> bool:
        """Whether it has run."""
        verdict = self.retention.settle(*request.request, request.expiration_s)
        assert isinstance(verdict, Repeated | Refused)
        return isinstance(verdict, Repeated)

    def call(self, request: RequestId) -> bool:
        """Whether it has run, now or before."""
        verdict = self.retention.judge(*request.request, request.expiration_s)
        assert not isinstance(verdict, InProgress)
        if isinstance(verdict, Fresh):
            self.runs += 1
            self.retention.begin(*request.request, Position(self.runs), request.expiration_s)
            self.retention.finish(*request.request, b"first")
        return isinstance(verdict, Fresh | Repeated)


@given(
    st.integers(0, WINDOW_S),
    st.lists(
        st.tuples(
            st.integers(0, KEEP_S - SLACK_S),
            st.integers(-SKEW_S, SKEW_S),
            st.sampled_from([0, 60, 900, 7200]),
        ),
        min_size=1,
        max_size=6,
    ),
)
def test_repetitions_run_once_however_copies_are_held_up(
    start_s: int, repetitions: list[tuple[int, int, int]]
) -> None:
    """Hosts send the call at some time, by clocks that differ a little; each copy reaches the group then and,
    perhaps, once more: hours later, from a host that was paused. It runs once."""
    group = Group(Retention())
    begun = NOW_S + start_s
    arrivals: list[tuple[int, int, RequestId, bool]] = []
    for number, (later_s, skew_s, held_up_s) in enumerate(repetitions):
        sent_s = begun + later_s
        ids = keyed("shop", GROUP, "k", sent_s + skew_s)
        for delay_s in {0, held_up_s}:
            if ids.before is not None:
                arrivals.append((sent_s + delay_s, number, ids.before, True))
            arrivals.append((sent_s + delay_s, number, ids.request, False))
            if ids.after is not None:
                arrivals.append((sent_s + delay_s, number, ids.after, False))
    served: set[tuple[int, int]] = set()
    for arrives_s, number, request, is_settling in sorted(arrivals, key=lambda each: (each[0], each[1])):
        if (number, arrives_s) in served:
            continue  # the copy before it was answered: a door goes on only when a request never runs
        table = group.at(arrives_s)
        if table.settle(request) if is_settling else table.call(request):
            served.add((number, arrives_s))
    assert group.runs == 1
