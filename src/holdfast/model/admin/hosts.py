"""What may be ordered about the hosts of a domain, and what is known of them."""

from typing import Annotated

from msgspec import Meta, Struct

from holdfast.model.ids import HostId
from holdfast.model.reference import MEMBERS_MAX


class ListHosts(Struct, frozen=True, kw_only=True, tag="list_hosts"):
    """Which hosts are there, and what do they house?"""


class DrainHost(Struct, frozen=True, kw_only=True, tag="drain_host"):
    """Let a host have no members, or let it take some again. From an admin."""

    host: HostId
    is_draining: bool = True
    nonce: str = ""
    """The order's own: given again with the same one, it is the same order."""


class RemoveHost(Struct, frozen=True, kw_only=True, tag="remove_host"):
    """Let a host that houses nothing be of the domain no more; *is_lost*: what it houses is lost with it, and
    is made anew elsewhere. From an admin."""

    host: HostId
    is_lost: bool = False


class Deafen(Struct, frozen=True, kw_only=True, tag="deafen"):
    """Take nothing from these hosts, as if the way from there were cut; or take it again. From an admin, and
    only where the domain allows chaos. Ends with the process that was told."""

    hosts: Annotated[tuple[HostId, ...], Meta(max_length=MEMBERS_MAX)]
    is_deaf: bool = True


class HostInfo(Struct, frozen=True, kw_only=True):
    """One host, as the authority knows it. An interface: scripts read it, so it changes only by adding."""

    host: HostId
    is_alive: bool
    is_draining: bool
    members: int
    """Groups that shall have a member there."""
    primaries: int
    leaving: int
    """Groups whose member there has still to leave."""
    location: str = ""


class HostList(Struct, frozen=True, kw_only=True, tag="hosts"):
    hosts: tuple[HostInfo, ...]
    manager: HostId = HostId("")
    """The host that manages the domain; empty while none does."""
    term: int = 0
    """In which it was elected."""
    cas: int = 0
    """Of the wishes that the answering host knows (T1)."""


class Deafened(Struct, frozen=True, kw_only=True, tag="deafened"):
    """To whom the host is deaf now."""

    host: HostId
    deaf_to: tuple[HostId, ...]
