"""What tests tell the domains of :mod:`transcript`, and what they see of them."""

from transcript import Domain

from holdfast.sim.scenarios.sequence import disk_damage

DETECTED = "run 1000ms"
"""By then whoever is silent has been taken for dead: a few times the grace."""


def told(domain: Domain, *commands: str) -> list[str]:
    """Everything that is seen of these commands."""
    return [line for command in commands for line in domain.do(command)]


def primary(domain: Domain) -> str:
    return disk_damage.views(domain.world)[0].primary


def listed(domain: Domain) -> list[str]:
    return sorted(member.host for member in disk_damage.views(domain.world)[0].members)
