"""The identity of a class's code at one time, by a digest of its sources (E7)."""

from typing import Final

import msgspec

DIGEST_SHOWN: Final = 8
"""How many characters of a digest people see; they are enough to tell two apart."""


class Code(msgspec.Struct, frozen=True, array_like=True):
    """The code of a class at one time. Two are the same code if their digests are equal, whatever version the
    class declares: only what was compared can be relied on."""

    version: str = ""
    """The version that the class declares, for people and for the class itself."""
    digest: str = ""
    """The hexadecimal digest of the sources, without comments, docstrings and layout. Empty if unknown; then
    it equals only another unknown one."""

    def is_same(self, other: "Code") -> bool:
        """Whether one code may execute again what the other has executed."""
        return self.digest == other.digest

    def __str__(self) -> str:
        digest = self.digest[:DIGEST_SHOWN]
        if self.version and digest:
            return f"{self.version} ({digest})"
        return self.version or digest or "unknown"


UNKNOWN: Final = Code()
