"""How much the LDAP door does for one client, and for all together."""

from dataclasses import dataclass, fields, replace
from typing import Final

from holdfast.ldap.messages import ANONYMOUS_BYTES_MAX, MESSAGE_BYTES_MAX
from holdfast.model.errors import InvalidRequest

OWN_FILES: Final = 128
"""What a directory's process has open besides its clients: the store, the clock, the loop, replication."""


@dataclass(frozen=True, slots=True)
class DoorLimits:
    """Bounds of the door. Each is at least 1; what exceeds one is refused, slowed down or disconnected."""

    connections: int = 12_000
    """How many clients may be connected; one more is told that the server is busy, and left. Ten thousand
    that say nothing keep nobody out."""
    message_bytes: int = MESSAGE_BYTES_MAX
    """How long a request of a client that has bound may be."""
    anonymous_message_bytes: int = ANONYMOUS_BYTES_MAX
    """The same for one that has not."""
    outstanding: int = 256
    """How many operations of one connection may be under way; further ones wait in its socket."""
    searches: int = 768
    """How many searches may be under way in all, each of which holds a snapshot; more are told "busy"."""
    pages: int = 200
    """How many paged searches may wait for their client in all, each of which holds a snapshot."""
    pages_each: int = 4
    """The same for one connection; the oldest is given up for a new one."""
    page_idle_s: int = 300
    """How long a paged search waits for its client."""
    size: int = 10_000
    """How many entries a search may return to those who are no administrators, if it is not paged."""
    sorted: int = 50_000
    """How many entries a search may sort."""
    time_s: int = 60
    """How long a search may take."""
    idle_s: int = 900
    """How long a client may say nothing before it is disconnected."""
    slow_s: int = 60
    """How long a client may not read its answers before it is disconnected."""
    buffer_bytes: int = 1 << 18
    """How many bytes of answers may wait for a client to read them before its operations wait."""

    def fitting(self, open_files: int) -> "DoorLimits":
        """These limits for a process that may open so many files: whoever comes when there are none left
        cannot even be told that the server is busy."""
        most = max(1, open_files - OWN_FILES)
        return self if self.connections <= most else replace(self, connections=most)

    def validate(self) -> None:
        wrong = [
            f"{each.name} is {getattr(self, each.name)}"
            for each in fields(self)
            if getattr(self, each.name) < 1
        ]
        if wrong:
            raise InvalidRequest(f"limits of the LDAP door are at least 1: {', '.join(wrong)}")


DEFAULT: Final = DoorLimits()
