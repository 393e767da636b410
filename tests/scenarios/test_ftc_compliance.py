"""The compliance points: the whole life of a group, the same in every style that a point names (27.6).

The tests of each row cover the details; here each style must satisfy all points, one after the other, in one
group on the production host.
"""

from typing import Any

import pytest
from called_domain import CalledDomain
from telling import DETECTED, listed, primary, told
from transcript import GROUP, HOSTS

from holdfast.groups.hosted_group import HostedGroup
from holdfast.model.ids import SECOND
from holdfast.styles.config import StyleConfig

STYLE = StyleConfig(checkpoint_interval_ns=5 * SECOND)
CHECKPOINTED = "run 6000ms"
"""By then a checkpoint is due."""
TOKENS = ["one", "two", "three", "four", "five"]


def hosted(domain: CalledDomain, host: str) -> HostedGroup:
    found: HostedGroup = domain.world.nodes[host].core.groups.hosted[GROUP]
    return found


def objects(domain: CalledDomain) -> dict[str, list[str]]:
    """Return the content of the objects, by the hosts that have one."""
    executions: dict[str, Any] = {host: hosted(domain, host).replica.execution for host in HOSTS}
    return {host: each.line.instance.tokens for host, each in executions.items() if each is not None}


def holders(domain: CalledDomain, who: str) -> tuple[str, ...]:
    return HOSTS if who == "all" else (primary(domain),)


def appended(domain: CalledDomain, host: str, number: int, token: str) -> str:
    """Return the answer of *host* to the request of that number."""
    return told(domain, f"call {host} {number} append {token}")[-1]


def live(style: str, *, at_first: str, at_last: str) -> None:
    """Take a group through its life. However often and to whichever host a request is sent, it is executed
    once and has one reply. *at_first* and *at_last* are the hosts that have an object before the first
    checkpoint and after it."""
    domain = CalledDomain(STYLE)
    told(domain, f"groups {style}")
    assert [appended(domain, "a", 1, "one") for _ in range(2)] == ["a: one 1"] * 2
    told(domain, "run 1000ms")
    assert objects(domain) == {host: ["one"] for host in holders(domain, at_first)}

    told(domain, "kill a", DETECTED)  # the primary fails
    second = primary(domain)
    assert second != "a"
    assert appended(domain, second, 1, "one") == f"{second}: one 1"
    assert appended(domain, second, 2, "two") == f"{second}: two 2"
    told(domain, "start a", "await all")  # it returns
    assert listed(domain) == [*HOSTS]

    (third,) = {*HOSTS} - {"a", second}
    told(domain, f"kill {third}", f"wipe {third}")  # a member joins with nothing
    assert appended(domain, second, 3, "three") == f"{second}: three 3"
    told(domain, f"start {third}", "await all", f"hand over from {second} to {third}")
    assert primary(domain) == third
    assert appended(domain, third, 3, "three") == f"{third}: three 3"

    told(domain, CHECKPOINTED)
    assert appended(domain, third, 4, "four") == f"{third}: four 4"
    told(domain, "run 1000ms")
    assert objects(domain) == dict.fromkeys(holders(domain, at_last), TOKENS[:4])

    told(domain, "kill a b c", "run 500ms", "start a b c", "await all")  # all of them fail, and return
    for number, token in enumerate(TOKENS, 1):
        assert appended(domain, "primary", number, token).endswith(f": {token} {number}")
    assert objects(domain)[primary(domain)] == TOKENS


def check_stateless() -> None:
    """Check that every member answers for itself while it is there, and again when it has returned."""
    domain = CalledDomain()
    told(domain, "groups stateless")
    assert told(domain, "call a 1 echo x", "call b 2 echo y", "call c 3 echo z") == ["a: x", "b: y", "c: z"]
    told(domain, "kill a")
    assert told(domain, "call b 4 echo x", "call c 5 echo y") == ["b: x", "c: y"]
    told(domain, DETECTED)
    assert "a" not in listed(domain)
    told(domain, "start a", "await all")
    assert told(domain, "call a 6 echo z") == ["a: z"]


@pytest.mark.covers("FTC-126")
def test_what_was_called_before_makes_no_difference_to_a_stateless_group() -> None:
    """Any member answers, the primary or not; and a request that was answered runs again where it comes
    again, because nothing of it is kept."""
    domain = CalledDomain()
    told(domain, "groups stateless")
    assert told(domain, "call a 1 echo x", "call a 1 echo y") == ["a: x", "a: y"]
    assert told(domain, "call b 1 echo z", "call c 1 echo w") == ["b: z", "c: w"]


@pytest.mark.covers("FTC-319")
def test_passive_replication_is_there_in_whole() -> None:
    """A cold backup has no object until it is primary; a warm one has it from the first checkpoint on, equal
    to the primary's."""
    check_stateless()
    live("cold_passive", at_first="primary", at_last="primary")
    live("warm_passive", at_first="primary", at_last="all")


@pytest.mark.covers("FTC-320")
def test_active_replication_is_there_in_whole() -> None:
    """Every member executes every request as it is ordered."""
    check_stateless()
    live("active", at_first="all", at_last="all")
