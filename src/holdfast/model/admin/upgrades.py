"""What may be ordered about the code of groups, and how it is told (E7)."""

from typing import Annotated, Final

from msgspec import Meta, Struct

from holdfast.model.code import Code
from holdfast.model.reference import Name

DIGEST_CHARACTERS_MAX: Final = 128
VERSION_CHARACTERS_MAX: Final = 100


class CodeInfo(Struct, frozen=True, kw_only=True):
    """The code of a class. An interface: scripts read it, so it changes only by adding."""

    version: str
    digest: str

    @staticmethod
    def of(code: Code) -> "CodeInfo":
        return CodeInfo(version=code.version, digest=code.digest)

    @property
    def code(self) -> Code:
        return Code(self.version, self.digest)


class CodeChangeInfo(Struct, frozen=True, kw_only=True):
    """A group went on with other code. An interface: changes by adding."""

    at_ns: int
    from_code: str
    to_code: str
    position: int


class UpgradeGroup(Struct, frozen=True, kw_only=True, tag="upgrade"):
    """Let the group go on with that code as soon as a host that has it serves. From an admin."""

    name: Name
    version: Annotated[str, Meta(max_length=VERSION_CHARACTERS_MAX)]
    digest: Annotated[str, Meta(min_length=1, max_length=DIGEST_CHARACTERS_MAX)]
    replays: bool = False
    """Also what other code made, and nobody can replay any more, is replayed by it: what was acknowledged may
    change."""


class WithdrawUpgrade(Struct, frozen=True, kw_only=True, tag="withdraw_upgrade"):
    """Let that not be wished any more. From an admin."""

    name: Name


class TryUpgrade(Struct, frozen=True, kw_only=True, tag="try_upgrade"):
    """What would the code that is in the application's directory now make of the group's state? To a host
    that has a member of it; nothing is changed. From an admin."""

    name: Name


class UpgradeTried(Struct, frozen=True, kw_only=True, tag="upgrade_tried"):
    """In words, for people; empty where there is nothing to say."""

    code: CodeInfo
    """The class as it is in the directory now."""
    from_code: CodeInfo
    """As the host has it."""
    position: int
    """Of the state on which it was tried."""
    refused: str
    """Why the group would not go on with it."""
    says: tuple[str, ...]
    """What would differ."""


CodeOrder = UpgradeGroup | WithdrawUpgrade | TryUpgrade
