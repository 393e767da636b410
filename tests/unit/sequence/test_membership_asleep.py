"""A primary whose loop was blocked drops nobody for messages that it could not read (M1, decision 0016)."""

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
NOW = 100 * SECOND


def member(name: str) -> ViewMember:
    return ViewMember(
        host=HostId(name), store=StoreId(f"disk-{name}"), incarnation=Incarnation(1), opening=Opening(1)
    )


A, B, C = member("a"), member("b"), member("c")
VIEW = View(group=GroupId(1), epoch=Epoch(3), primary=A.host, members=(A, B, C), nonce=Nonce("n"))


def dropped(*, awake_since: int) -> list[str]:
    """The members that A drops at NOW, when B has owed it an answer for longer than allowed and C owes
    nothing."""
    found: list[str] = []
    followers = ProgressOfAll(lambda: None)
    for each in (B, C):
        followers.add(Progress(each, Position(9), Position(9), acknowledged=Position(9), heard_at=NOW))
    late = followers.get(B)
    assert late is not None
    late.owing_since = NOW - 2 * SILENCE_NS
    state = SimpleNamespace(
        me=A,
        now=NOW,
        config=SequenceConfig(),
        standing=ViewState(A, Seen("views/1", VIEW, Revision(5))),
        ports=SimpleNamespace(leases=SimpleNamespace(awake_since=lambda: awake_since)),
        is_dead=lambda _: False,
        leaving={},
        is_leaving=lambda _: False,
        note=lambda _, **told: found.append(told["host"]),
        propose=lambda *_, **__: None,
    )
    submission = SimpleNamespace(
        followers=followers, acknowledged_by=lambda _: Position(9), is_steady=lambda: False
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
    assert dropped(awake_since=awake_since) == expected
