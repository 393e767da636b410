"""What must hold of masters that were handed the same changes."""

import random

from directory_naive import Naive
from directory_steps import History
from directory_world import Issued, Master, built, unaccounted

from holdfast.directory.primitives import Primitive
from holdfast.model.csn import Csn


def seen_by(known: list[Issued]) -> list[Primitive]:
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
