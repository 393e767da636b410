"""Whose log a primary counts before it takes calls: the longest, unless nothing can be done about it (D4).
And who may be fetching its state (O3, E8)."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from holdfast.authority.recipe import Seen
from holdfast.authority.views import View, ViewMember
from holdfast.model.ids import (
    SECOND,
    Epoch,
    GroupId,
    HostId,
    Incarnation,
    Nonce,
    Opening,
    Position,
    Revision,
    StoreId,
)
from holdfast.sequence.config import SequenceConfig
from holdfast.sequence.messages import Lacking
from holdfast.sequence.progress import Progress
from holdfast.sequence.role import Rank
from holdfast.sequence.submission import Submission
from holdfast.sequence.view_state import ViewState

CONFIG = SequenceConfig(min_in_sync=2)
FULL, SHORT = CONFIG.full_log_bytes + 1, CONFIG.hold_bytes
NOW = 100 * SECOND


def member(name: str) -> ViewMember:
    return ViewMember(
        host=HostId(name), store=StoreId(f"disk-{name}"), incarnation=Incarnation(1), opening=Opening(1)
    )


A, B, C = member("a"), member("b"), member("c")


def submission_of(listed: tuple[ViewMember, ...] = (A, B, C), own_bytes: int = 0) -> Submission:
    """That of A, which is primary at NOW."""
    view = View(group=GroupId(1), epoch=Epoch(3), primary=A.host, members=listed, nonce=Nonce("n"))
    state = SimpleNamespace(
        me=A,
        now=NOW,
        config=CONFIG,
        standing=ViewState(A, Seen("views/1", view, Revision(5))),
        store=SimpleNamespace(live_bytes=lambda: own_bytes),
    )
    submission = Submission(cast(Any, state), lambda: None, lambda: None)
    for each in listed[1:]:
        submission.followers.add(Progress(each, Position(9), Position(9), log_bytes=1))
    return submission


def longest_log(
    *, full_since: int | None, own_bytes: int = 0, listed: tuple[ViewMember, ...] = (A, B, C)
) -> int:
    """The longest log that A counts at NOW, where that of B is full since then."""
    submission = submission_of(listed, own_bytes)
    full = submission.followers.get(B)
    assert full is not None
    full.log_bytes, full.full_since = FULL, full_since
    return submission.longest_log()


LONG_AGO = NOW - CONFIG.silence_ns


@pytest.mark.parametrize(
    ("full_since", "own_bytes", "listed", "expected"),
    [
        pytest.param(LONG_AGO, 0, (A, B, C), 1, id="full for long, and nobody else"),
        pytest.param(LONG_AGO + 1, 0, (A, B, C), FULL, id="not for so long yet"),
        pytest.param(LONG_AGO, SHORT, (A, B, C), 1, id="ours is short enough"),
        pytest.param(LONG_AGO, SHORT + 1, (A, B, C), FULL, id="ours is long too"),
        pytest.param(LONG_AGO, 0, (A, B), FULL, id="it cannot be spared"),
    ],
)
def test_a_backup_whose_log_stays_full_no_longer_counts_if_it_can_be_spared(
    full_since: int, own_bytes: int, listed: tuple[ViewMember, ...], expected: int
) -> None:
    """It can make no checkpoints, and every call would be refused for its sake."""
    assert longest_log(full_since=full_since, own_bytes=own_bytes, listed=listed) == expected


@pytest.mark.parametrize(
    ("rank", "is_asked"),
    [(Rank.FAR, False), (Rank.UNABLE, True), (Rank.UNFIT, True)],
    ids=lambda each: str(each),
)
def test_a_state_stays_on_offer_for_whoever_says_that_it_has_no_object(rank: Rank, is_asked: bool) -> None:
    """Also for one that could lead without it, such as a member whose annex has its object renewed (W10).
    *Without it:* what it fetches is withdrawn at every sweep, and it begins again each time."""
    submission = submission_of()
    told = Lacking(GroupId(1), Epoch(3), B.store, B.incarnation, int(rank), "why", True, Position(9))
    assert submission.on_lacking(B.host, told)
    assert submission.is_asked_for_state is is_asked
