"""The base classes of all errors; each class says what the caller may do next.

A broken invariant is not one of these errors: :func:`invariant` stops the replica.
"""

from typing import Any, ClassVar, Final


class HoldfastError(Exception):
    """Raised when something in Holdfast fails; the subclasses say what the caller may do about it."""

    code: ClassVar[str] = "error"
    exception: ClassVar[str] = ""
    """The name of this exception in the source (FTC section L), if it has one."""

    @property
    def about(self) -> dict[str, Any]:
        """The members of the source's exception, by name."""
        return {}


class Rejected(HoldfastError):
    """Raised when a request was not applied and may safely be tried elsewhere or again."""

    code = "rejected"


class Conflict(Rejected):
    """Raised when the state that the request was compared with has changed meanwhile."""

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
    """Raised when there is no group with that name or number."""

    code = "no_such_group"
    exception = "ObjectGroupNotFound"


class GroupExists(InvalidRequest):
    """Raised when a new group would get the name of an existing one."""

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
"""The errors that end a host, with a report, wherever they occur (D1, D2)."""


class EndsProcess(BaseException):
    """Raised when this process must end, or ends in a simulation. A method's own exceptions become its reply;
    these never do, although they pass through the method."""


class BrokenInvariant(EndsProcess):
    """Raised when the program contradicts itself; only the code that ends the process may catch it."""


def invariant(holds: bool, why: str) -> None:
    """Stop this replica unless *holds*; *why* explains what must hold. Unlike ``assert``, it survives
    ``-O``."""
    if not holds:
        raise BrokenInvariant(why)
