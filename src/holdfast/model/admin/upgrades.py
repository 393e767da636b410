"""Requests about the code of groups, and their answers (E7)."""

from typing import Annotated, Final

from msgspec import Meta, Struct

from holdfast.model.code import Code
from holdfast.model.reference import Name

DIGEST_CHARACTERS_MAX: Final = 128
VERSION_CHARACTERS_MAX: Final = 100


class CodeInfo(Struct, frozen=True, kw_only=True):
    """The code of a class. Scripts read this interface: it changes only by additions."""

    version: str
    digest: str

    @staticmethod
    def of(code: Code) -> "CodeInfo":
        return CodeInfo(version=code.version, digest=code.digest)

    @property
    def code(self) -> Code:
        return Code(self.version, self.digest)


class CodeChangeInfo(Struct, frozen=True, kw_only=True):
    """A change of the code with which a group continued. An interface: it changes only by additions."""

    at_ns: int
    from_code: str
    to_code: str
    position: int


class UpgradeGroup(Struct, frozen=True, kw_only=True, tag="upgrade"):
    """Let the group continue with that code as soon as a host that has it serves. Requires an admin."""

    name: Name
    version: Annotated[str, Meta(max_length=VERSION_CHARACTERS_MAX)]
    digest: Annotated[str, Meta(min_length=1, max_length=DIGEST_CHARACTERS_MAX)]
    replays: bool = False
    """Also replay, with that code, what other code has made and nobody can replay any more; acknowledged
    results may change."""


class WithdrawUpgrade(Struct, frozen=True, kw_only=True, tag="withdraw_upgrade"):
    """Withdraw the request for an upgrade. Requires an admin."""

    name: Name


class TryUpgrade(Struct, frozen=True, kw_only=True, tag="try_upgrade"):
    """Asks what the code that is in the application's directory now would do with the group's state. To a
    host that has a member of it; changes nothing. Requires an admin."""

    name: Name
    replays: bool = False
    """Whether that code would also replay what older code has made, so that older code is not tried."""


class UpgradeTried(Struct, frozen=True, kw_only=True, tag="upgrade_tried"):
    """The result of trying an upgrade, in words for people; empty where there is nothing to say."""

    code: CodeInfo
    """The code of the class as it is in the directory now."""
    from_code: CodeInfo
    """The code that made what the group holds."""
    position: int
    """The position of the state on which it was tried."""
    refused: str
    """Why the group would not continue with it."""
    says: tuple[str, ...]
    """What would differ."""


CodeOrder = UpgradeGroup | WithdrawUpgrade | TryUpgrade
