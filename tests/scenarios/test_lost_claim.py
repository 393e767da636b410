"""A backup whose claim came second follows the winner as soon as it learns that."""

from dataclasses import replace

import msgspec
from transcript import GROUP, Domain

from holdfast.model.ids import MILLISECOND, Epoch
from holdfast.sequence.role import Role
from holdfast.sim.scenarios.authority.server import AUTHORITY
from holdfast.sim.scenarios.sequence.host import CONFIG

BOTH_CLAIM = (
    f"cut {AUTHORITY} > c",
    "cut b > c",
    "kill a",
    "prove a 1",
    f"run {2 * CONFIG.turn_ns // MILLISECOND}ms",
)
"""b claims at once; c, which hears nothing, claims when b has had its turn. The answer to c is lost."""


def test_what_the_winner_said_meanwhile_is_not_forgotten() -> None:
    """b and c claim; b wins and sends to c, which may not answer before it knows the outcome of its own
    claim. Then it must answer without being asked again: until it does, the group serves nobody."""
    domain = Domain()
    for command in ("group of 3", "append a op1", "run 500ms", *BOTH_CLAIM):
        domain.do(command)
    for command in ("heal", f"cut {AUTHORITY} > c", f"run {2 * CONFIG.resend_ns // MILLISECOND}ms"):
        domain.do(command)
    winner, loser = (domain.world.nodes[name].core.members[GROUP] for name in ("b", "c"))
    assert (winner.role, winner.is_serving, loser.role) == (Role.PRIMARY, False, Role.CLAIMING)
    domain.do("heal")
    for _ in range(10_000):
        if loser.role is not Role.CLAIMING:
            break
        domain.do("run 1ms")
    assert loser.role is Role.BACKUP
    patience_ms = CONFIG.ask_ns // MILLISECOND // 2
    domain.do(f"run {patience_ms}ms")
    assert winner.is_serving


def test_a_view_heard_of_before_the_answer_is_not_forgotten() -> None:
    """The answer to c's claim was in transit when c was dropped: c must not take the older view, which lists
    it, for the newest, or nobody ever tells it to come back."""
    domain = Domain()
    for command in ("group of 3", "run 500ms", *BOTH_CLAIM):
        domain.do(command)
    winner, loser = (domain.world.nodes[name].core.members[GROUP] for name in ("b", "c"))
    won = winner.standing.seen
    assert won is not None
    assert loser.role is Role.CLAIMING
    members = tuple(member for member in won.value.members if member.host != "c")
    later = msgspec.structs.replace(won.value, epoch=Epoch(won.value.epoch + 5), members=members)
    loser.on_view(replace(won, value=later))
    domain.do("heal")
    for _ in range(10_000):
        if loser.role is not Role.CLAIMING:
            break
        domain.do("run 1ms")
    assert (loser.role, loser.standing.epoch) == (Role.LEARNER, later.epoch)
