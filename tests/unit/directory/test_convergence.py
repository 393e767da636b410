"""Masters that were handed the same changes hold the same bytes, in any order, however purged."""

import random

from directory_naive import Naive
from directory_steps import History, Step
from directory_world import Issued, Master, built, unaccounted
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.model.csn import Csn

VERBS = History().verbs
steps = st.lists(
    st.tuples(st.integers(0, 2), st.integers(0, VERBS - 1), st.integers(0, 7), st.integers(0, 7)), max_size=40
)


def seen_by(known: list[Issued]) -> list:
    return [change for each in known for change in each.changes]


def judged(history: History, seed: int) -> None:
    """All masters see what the naive judge says, and end with one state."""
    for master in history.masters:
        assert master.view() == Naive(seen_by(list(master.known.values()))).view(), master.replica
    rng = random.Random(seed)
    changes = seen_by(history.issued)
    expected = Naive(changes).view()
    end = max(each.csn for each in history.issued)
    newest = max(master.state.horizon for master in history.masters)
    unpurged = built(history.issued)
    shuffled = Master(8)
    for change in rng.sample(changes, len(changes)):
        shuffled.apply(change)
    assert shuffled.state.dump() == unpurged.state.dump(), "the order of arrival decided"
    for master in history.masters:
        for each in rng.sample(history.issued, len(history.issued)):
            if each.csn not in master.known or rng.random() < 0.3:
                master.take(each)
    for upto in (newest, end):
        dumps = set()
        for master in (*history.masters, unpurged, shuffled):
            if upto.timestamp:
                master.purge(Csn(upto.timestamp, 0, upto.replica), len(history.masters))
            assert master.view() == expected, f"after purging to {upto}"
            dumps.add(master.state.dump())
        assert len(dumps) == 1, f"states differ after purging to {upto}"
    assert not unaccounted(changes, expected)


@given(steps, st.integers(0, 1000))
@settings(max_examples=150, derandomize=True)
def test_random_histories_converge(moves: list[Step], seed: int) -> None:
    history = History()
    history.run(moves)
    judged(history, seed)


def test_long_random_histories_converge(rounds) -> None:
    """Longer ones than are worth shrinking."""
    for seed in range(rounds(short=25, long=3000)):
        rng = random.Random(seed)
        history = History()
        history.run(
            [(rng.randrange(3), rng.randrange(VERBS), rng.randrange(8), rng.randrange(8)) for _ in range(120)]
        )
        judged(history, seed)
