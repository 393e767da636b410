"""The error family: each class says what the caller may do next.

A broken invariant is not an error of this family: :func:`invariant` stops the replica.
"""

from typing import Any, ClassVar, Final


class HoldfastError(Exception):
    """Raised when something in Holdfast fails; the subclasses say what may be done about it."""

    code: ClassVar[str] = "error"
    exception: ClassVar[str] = ""
    """What the source calls it (FTC section L), where it has a name for it."""

    @property
    def about(self) -> dict[str, Any]:
        """The members that the source's exception has, by their names."""
        return {}


class Rejected(HoldfastError):
    """Raised when a request was not applied and may safely be tried elsewhere or again."""

    code = "rejected"


class Conflict(Rejected):
    """Raised when what the request was compared with has changed meanwhile."""

    code = "conflict"


class Overloaded(Rejected):
    """Raised when a bound (queue, window, connections) is reached; try again later."""

    code = "overloaded"


class OutcomeUnknown(HoldfastError):
    """Raised when a request may or may not have been applied; retry only with the same id."""

    code = "outcome_unknown"

    def __init__(self, request: str, *, waited_s: float) -> None:
        super().__init__(f"{request}: no answer within {waited_s:g} s; it may have been applied")
        self.request = request
        self.waited_s = waited_s


class Unavailable(HoldfastError):
    """Raised when nobody can serve the request now; wait."""

    code = "unavailable"


class InvalidRequest(HoldfastError):
    """Raised when a request will never succeed as written."""

    code = "invalid_request"


class NoSuchGroup(InvalidRequest):
    """Raised when there is no group of that name or number."""

    code = "no_such_group"
    exception = "ObjectGroupNotFound"


class GroupExists(InvalidRequest):
    """Raised when a group is to be made whose name another has."""

    code = "group_exists"


class Corruption(HoldfastError):
    """Raised when stored bytes are not what was written; this replica must stop."""

    code = "corruption"

    def __init__(self, message: str, *, file: str, offset: int, expected: object, found: object) -> None:
        super().__init__(f"{message}: {file} at byte {offset}: expected {expected}, found {found}")
        self.file = file
        self.offset = offset
        self.expected = expected
        self.found = found


class NoSpace(HoldfastError):
    """Raised when the disk is full; the write did not happen and the member stops (D1)."""

    code = "no_space"


class DiskFailed(HoldfastError):
    """Raised when the disk fails a read or write; the member stops (D1)."""

    code = "disk_failed"


DISK_ERRORS: Final = (Corruption, NoSpace, DiskFailed)
"""What ends a host, loudly, wherever it is met (D1, D2)."""


class EndsProcess(BaseException):
    """Raised when this process must not go on, or does not in a simulation. A method's own exceptions are its
    reply; these never are, though they come up through it."""


class BrokenInvariant(EndsProcess):
    """Raised when the program contradicts itself; not to be caught short of ending the process."""


def invariant(holds: bool, why: str) -> None:
    """Stop this replica unless *holds*; *why* says why it must. Unlike ``assert``, it survives ``-O``."""
    if not holds:
        raise BrokenInvariant(why)
