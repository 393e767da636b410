"""Requests about the hosts of a domain, and their answers."""

from typing import Annotated, Final, Literal

from msgspec import Meta, Struct

from holdfast.model.ids import HostId, Incarnation
from holdfast.model.reference import MEMBERS_MAX

BUSY_S_MAX: Final = 15.0
"""Below what a client waits for an answer."""


class ListHosts(Struct, frozen=True, kw_only=True, tag="list_hosts"):
    """Asks which hosts exist, and how many members they have."""


class DrainHost(Struct, frozen=True, kw_only=True, tag="drain_host"):
    """Move all members off a host, or let it take members again. Requires an admin."""

    host: HostId
    is_draining: bool = True
    nonce: str = ""
    """Chosen by the requester: the same request sent again has no further effect."""


class RemoveHost(Struct, frozen=True, kw_only=True, tag="remove_host"):
    """Remove a host without members from the domain; with *is_lost*, its members are lost with it and are
    created anew elsewhere. Requires an admin."""

    host: HostId
    is_lost: bool = False


class ReturnHost(Struct, frozen=True, kw_only=True, tag="return_host"):
    """Let the name of a removed host be used again, by a host that begins with nothing. It changes nothing
    for a name that was not removed. Requires an admin."""

    host: HostId


class RestartHost(Struct, frozen=True, kw_only=True, tag="restart_host"):
    """To one host: end this process in an orderly way (K5); whoever supervises it starts the next. It has no
    effect on another process than *incarnation*, so it can be sent again. Requires an admin."""

    host: HostId
    incarnation: Incarnation


class Deafen(Struct, frozen=True, kw_only=True, tag="deafen"):
    """Ignore everything from these hosts, as if the network from there were cut; or accept it again. Requires
    an admin, and a domain that allows chaos. Ends with the process that received it."""

    hosts: Annotated[tuple[HostId, ...], Meta(max_length=MEMBERS_MAX)]
    is_deaf: bool = True


class KeepBusy(Struct, frozen=True, kw_only=True, tag="keep_busy"):
    """To one host: let a worker process of it be busy for a while (W4), as work that holds up a loop would
    be. Requires an admin, and a domain that allows chaos."""

    how: Literal["spin", "hold"]
    """`spin` computes, `hold` keeps its interpreter and lets no other thread of the worker run."""
    seconds: Annotated[float, Meta(gt=0, le=BUSY_S_MAX)]


class HostInfo(Struct, frozen=True, kw_only=True):
    """One host, as the authority knows it. Scripts read this interface: it changes only by additions."""

    host: HostId
    is_alive: bool
    is_draining: bool
    members: int
    """The number of groups that should have a member there."""
    primaries: int
    leaving: int
    """The number of groups whose member there has yet to leave."""
    location: str = ""
    incarnation: Incarnation | None = None
    """Its present process; None while it has none."""
    address: str = ""
    """Where clients and hosts reach that process."""
    agent_address: str = ""
    """Where the agent of its machine answers."""
    roles: tuple[str, ...] = ()
    """What it is for; empty while it has no process."""


class HostList(Struct, frozen=True, kw_only=True, tag="hosts"):
    hosts: tuple[HostInfo, ...]
    manager: HostId = HostId("")
    """The host that manages the domain; empty while none does."""
    term: int = 0
    """The term in which the manager was elected."""
    cas: int = 0
    """The CAS of the desired state that the answering host knows (T1)."""


class HostEnds(Struct, frozen=True, kw_only=True, tag="host_ends"):
    """The process that was told to end, or the one that runs in its place."""

    host: HostId
    incarnation: Incarnation


class KeptBusy(Struct, frozen=True, kw_only=True, tag="kept_busy"):
    """A worker was busy for so long, by its own clock."""

    host: HostId
    pid: int
    seconds: float


class Deafened(Struct, frozen=True, kw_only=True, tag="deafened"):
    """The hosts whose messages this host now ignores."""

    host: HostId
    deaf_to: tuple[HostId, ...]


HostOrder = ListHosts | DrainHost | RemoveHost | ReturnHost | RestartHost | Deafen | KeepBusy
HostAnswer = HostList | HostEnds | Deafened | KeptBusy
