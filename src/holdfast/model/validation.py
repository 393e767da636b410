"""The one contract by which settings are checked: every config struct has ``validate() -> list[Problem]``.

It names every problem, each with the field that is wrong and what would be right, so that whoever shows them
can say where the value came from. Nobody stops at the first.
"""

from collections.abc import Iterable
from typing import Protocol, TypeAlias

from holdfast.model.errors import InvalidRequest

Problem: TypeAlias = tuple[str, str]
"""The name of a field, and what would be right: ("window", "must be at least 1")."""


class Validated(Protocol):
    """Settings that can be checked."""

    def validate(self) -> list[Problem]: ...


def below(config: object, least: float, names: Iterable[str]) -> list[Problem]:
    """The problems of those of the named fields that are less than *least*."""
    text = f"must be at least {least:g}"
    return [(name, text) for name in names if getattr(config, name) < least]


def insist_valid(config: Validated, what: str) -> None:
    """Raise ``InvalidRequest`` that names every problem, if there is one."""
    problems = config.validate()
    if problems:
        raise InvalidRequest(f"{what}: " + "; ".join(f"{name} {text}" for name, text in problems))
