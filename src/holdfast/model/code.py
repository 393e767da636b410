"""Which code made something: a class as it was at one time (E7)."""

from typing import Final

import msgspec

DIGEST_SHOWN: Final = 8
"""So many characters of a digest tell two apart for people."""


class Code(msgspec.Struct, frozen=True, array_like=True):
    """A class as its sources were. Two are the same code if their digests are equal, whatever the class
    declares: only what was compared can be relied on."""

    version: str = ""
    """As the class declares it, for people and for the class itself."""
    digest: str = ""
    """Hexadecimal, of its sources, less comments, docstrings and layout. Empty: not known, and then the same
    only as what is not known either."""

    def is_same(self, other: "Code") -> bool:
        """Whether what one of them made may be executed again by the other."""
        return self.digest == other.digest

    def __str__(self) -> str:
        digest = self.digest[:DIGEST_SHOWN]
        if self.version and digest:
            return f"{self.version} ({digest})"
        return self.version or digest or "unknown"


UNKNOWN: Final = Code()
