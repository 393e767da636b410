"""Masters that were handed the same changes hold the same bytes, in any order, however purged."""

import random

from directory_judge import judged
from directory_steps import History, Step
from hypothesis import given, settings
from hypothesis import strategies as st

VERBS = History().verbs
steps = st.lists(
    st.tuples(st.integers(0, 2), st.integers(0, VERBS - 1), st.integers(0, 7), st.integers(0, 7)), max_size=40
)


@given(steps, st.integers(0, 1000))
@settings(max_examples=100, derandomize=True)
def test_random_histories_converge(moves: list[Step], seed: int) -> None:
    history = History()
    history.run(moves)
    judged(history, seed)


def test_long_random_histories_converge(rounds) -> None:
    """Longer ones than are worth shrinking."""
    for seed in range(rounds(short=12, long=3000)):
        rng = random.Random(seed)
        history = History()
        history.run(
            [(rng.randrange(3), rng.randrange(VERBS), rng.randrange(8), rng.randrange(8)) for _ in range(120)]
        )
        judged(history, seed)
