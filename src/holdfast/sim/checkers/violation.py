"""What a checker reports."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Violation:
    """One broken rule. No violations means that the rule held, never that it could not be checked."""

    rule: str
    """Stable short name, such as ``linearizable`` or ``exactly-once.lost``; tests and counts rely on it."""
    message: str
    """For the person who debugs it: what was seen, who saw it, what would have been right."""

    def __str__(self) -> str:
        return f"{self.rule}: {self.message}"
