"""How far a fetch is: its phases in their order, and what it counts; and what a host says of its shipping."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from msgspec import Struct

SHOWN_MAX: Final = 100
"""The most offers, and the most manifests, that a status names."""


class Phase(StrEnum):
    """What a fetch is doing. A check that finds damage goes back to fetching."""

    OPENING = "opening"
    SEARCHING = "searching"
    FETCHING = "fetching"
    CHECKING = "checking"
    NAMING = "naming"
    DONE = "done"
    FAILED = "failed"


@dataclass(slots=True)
class Progress:
    """How far a fetch is, in bytes where nothing else is said."""

    total: int
    phase: Phase = Phase.OPENING
    found: int = 0
    """What was here already, in whatever file."""
    received: int = 0
    repeated: int = 0
    """What came although it was here by then."""
    damaged: int = 0
    """The number of chunks that had the wrong hash, on the way or on the disk."""
    damage: str = ""
    """The last of them, with its file and offset."""
    attempts: int = 0
    """How many sources in a row gave nothing."""
    problem: str = ""
    """Why the last source was left."""


class FetchStatus(Struct, frozen=True, kw_only=True):
    """How far a fetch is, for people."""

    subject: str
    manifest: str
    phase: str
    total_bytes: int
    found_bytes: int
    received_bytes: int
    damaged_chunks: int
    damage: str
    """The last of them, with its file and offset."""
    problem: str
    """Why the last source was left."""


class ShippingStatus(Struct, frozen=True, kw_only=True):
    """What a host ships at this moment."""

    is_open: bool = False
    """Whether it can fetch and offer."""
    offered: tuple[str, ...] = ()
    """What it offers: subject, position and id."""
    sent_bytes: int = 0
    """Since its process began."""
    counting: tuple[str, ...] = ()
    """The ids of the manifests that count on its shelf."""
    fetching: FetchStatus | None = None
    waiting: int = 0
    """How many fetches wait for their turn."""
    problem: str = ""
    """Why it fetches nothing any more; empty if it can."""
