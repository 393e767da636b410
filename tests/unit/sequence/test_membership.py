"""Whom a primary drops: nobody for messages that it could not read (M1, decision 0016), and a backup whose
log is full while others have room (D4)."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from holdfast.authority.recipe import Seen
from holdfast.authority.views import View, ViewChange, ViewMember
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
from holdfast.sequence.membership import Membership
from holdfast.sequence.progress import Progress, ProgressOfAll
from holdfast.sequence.view_state import ViewState

SILENCE_NS = SequenceConfig().silence_ns
FULL = SequenceConfig().full_log_bytes
SHORT = SequenceConfig().hold_bytes
NOW = 100 * SECOND


def member(name: str) -> ViewMember:
    return ViewMember(
        host=HostId(name), store=StoreId(f"disk-{name}"), incarnation=Incarnation(1), opening=Opening(1)
    )


A, B, C = member("a"), member("b"), member("c")
VIEW = View(group=GroupId(1), epoch=Epoch(3), primary=A.host, members=(A, B, C), nonce=Nonce("n"))


def sweep(
    *,
    awake_since: int = 0,
    owing_since: int | None = None,
    log_bytes: int = 0,
    own_bytes: int = 0,
    answer: str = "abc",
) -> list[str]:
    """The members that A drops at NOW. B has owed it an answer since then, and has a log of that length; C
    owes nothing and has a short one. *answer*: who is heard."""
    found: list[str] = []
    followers = ProgressOfAll()
    for each in (B, C):
        followers.add(Progress(each, Position(9), Position(9), acknowledged=Position(9), heard_at=NOW))
    late = followers.get(B)
    assert late is not None
    late.owing_since, late.log_bytes = owing_since, log_bytes
    state = SimpleNamespace(
        me=A,
        now=NOW,
        config=SequenceConfig(),
        standing=ViewState(A, Seen("views/1", VIEW, Revision(5))),
        store=SimpleNamespace(live_bytes=own_bytes),
        ports=SimpleNamespace(leases=SimpleNamespace(awake_since=lambda: awake_since)),
        is_dead=lambda _: False,
        leaving={},
        is_leaving=lambda _: False,
        note=lambda _, **told: found.append(told["host"]),
        propose=lambda *_, **__: None,
    )
    submission = SimpleNamespace(
        followers=followers,
        acknowledged_by=lambda _: Position(9),
        is_answering=lambda member: member.host in answer,
    )

    def ask(change: ViewChange) -> None:
        pass

    Membership(cast(Any, state), cast(Any, submission), ask).sweep()
    return found


@pytest.mark.parametrize(
    ("awake_since", "expected"),
    [
        pytest.param(0, ["b"], id="awake all the time"),
        pytest.param(NOW - SILENCE_NS, ["b"], id="awake for as long as anybody may owe"),
        pytest.param(NOW - SILENCE_NS + 1, [], id="not for so long yet"),
        pytest.param(NOW, [], id="asleep until now"),
    ],
)
def test_silence_counts_from_when_one_can_hear(awake_since: int, expected: list[str]) -> None:
    """What the backup sent while the loop was blocked is still unread."""
    assert sweep(awake_since=awake_since, owing_since=NOW - 2 * SILENCE_NS) == expected


@pytest.mark.parametrize(
    ("log_bytes", "own_bytes", "answer", "expected"),
    [
        pytest.param(FULL + 1, 0, "abc", ["b"], id="full, and nobody else"),
        pytest.param(FULL, 0, "abc", [], id="not full yet"),
        pytest.param(FULL + 1, SHORT, "abc", ["b"], id="ours is short enough"),
        pytest.param(FULL + 1, SHORT + 1, "abc", [], id="ours is long too"),
        pytest.param(FULL + 1, 0, "ab", [], id="needed, because another is silent"),
    ],
)
def test_a_backup_whose_log_is_full_is_dropped_if_it_can_be_spared(
    log_bytes: int, own_bytes: int, answer: str, expected: list[str]
) -> None:
    """It can make no checkpoints, and every call is refused for its sake."""
    assert sweep(log_bytes=log_bytes, own_bytes=own_bytes, answer=answer) == expected
