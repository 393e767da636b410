"""Helpers that give commands to the domains of :mod:`transcript` and return what is seen."""

from transcript import Domain

from holdfast.sim.scenarios.sequence import disk_damage

DETECTED = "run 1000ms"
"""By then every silent host has been taken for dead: a few times the grace."""


def told(domain: Domain, *commands: str) -> list[str]:
    """Run these commands and return everything they show."""
    return [line for command in commands for line in domain.do(command)]


def primary(domain: Domain) -> str:
    return disk_damage.views(domain.world)[0].primary


def listed(domain: Domain) -> list[str]:
    return sorted(member.host for member in disk_damage.views(domain.world)[0].members)
