"""What a host says of its own parts: its services, and its worker processes."""

from msgspec import Struct


class ServiceStatus(Struct, frozen=True, kw_only=True):
    """A service of a host, such as shipping."""

    name: str
    state: str
    """`starting`, `runs`, `failed` or `stopped`."""
    why: str = ""
    """Why it failed."""


class WorkersStatus(Struct, frozen=True, kw_only=True):
    """A host's workers at this moment, and what they did since it began (W4)."""

    running: tuple[tuple[str, int], ...] = ()
    """The kind and pid of each process."""
    busy: int = 0
    waiting: int = 0
    """How many jobs wait for a process."""
    done: int = 0
    failed: int = 0
    ended: int = 0
    """How many processes ended in the middle of a job, by themselves or because it took too long."""
    refused: int = 0
    """How many jobs were refused: too many waited, or the job had ended two processes."""
