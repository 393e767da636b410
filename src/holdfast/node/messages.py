"""What agents, hosts and the command line tell each other."""

from typing import Literal

from msgspec import Struct

from holdfast.execution.crash_attempts import Attempt
from holdfast.model.ids import HostId, Incarnation

Proof = Literal["waitpid", "lock"]
"""How an agent knows: it waited for its own child, or it got the lock that the host held (K2)."""


class PeerReport(Struct, frozen=True, kw_only=True):
    """What one host hears of another."""

    host: HostId
    incarnation: Incarnation
    heard_ms: float | None
    """Since its last heartbeat; None when it was never heard."""
    silent: bool
    hears_us: bool


class HostDied(Struct, frozen=True, tag="host_died", kw_only=True):
    """An agent's word, with proof, that exactly this incarnation of a host is gone."""

    host: HostId
    incarnation: Incarnation
    proof: Proof
    how: str
    during: Attempt | None = None
    """What it was executing when it ended (E4)."""
    is_hang: bool = False
    """It ended itself because its loop stood still (K3)."""
    is_crash: bool = False
    """The agent saw it end, and otherwise than in order."""
    is_damaged: bool = False
    """It ended because what it had stored is not what it wrote."""


class DeathHeard(Struct, frozen=True, kw_only=True):
    """When a host got an agent's word; by this machine's boot-time clock, so that processes can compare."""

    host: HostId
    incarnation: Incarnation
    at_ns: int


class HostReport(Struct, frozen=True, tag="host_report", kw_only=True):
    """A host to its agent, once a second and when asked."""

    host: HostId
    incarnation: Incarnation
    pid: int
    address: str
    store: str
    opening: int
    log_bytes: int
    in_session: bool
    """The authority holds this host's session."""
    peers: tuple[PeerReport, ...]
    deaths: tuple[DeathHeard, ...] = ()
    """The newest deaths it was told of."""
    deaf_to: tuple[HostId, ...] = ()
    """Hosts from which it takes nothing, because an admin said so (`holdfast chaos cut`)."""
    without_object: tuple[tuple[str, str], ...] = ()
    """Groups whose member here has no object, and why (O3, E8); the first of them."""
    details: dict[str, str] = {}
    """Of its session: where its doors are, among other things."""
    checkpoints_failed: tuple[tuple[str, str], ...] = ()
    """Groups of whose member here the last checkpoint failed, and why (PROTOCOL E9); the first of them."""
    other_code: tuple[str, ...] = ()
    """Of groups here whose class is another than they are served by, in words; the first few (E7)."""


class HostStatus(Struct, frozen=True, kw_only=True):
    """One host, as its agent sees it."""

    id: HostId
    alive: bool
    """It runs, is in session with the authority, and has reported to its agent."""
    incarnation: Incarnation | None
    pid: int | None
    address: str | None
    restarts: int
    uptime_s: float | None
    state: str
    """`alive`, `starting`, `restarting`, `stopped`, in words for people."""
    last_exit: str | None
    """How its last process ended, and why in that process's own words."""
    report: HostReport | None = None


class AuthorityStatus(Struct, frozen=True, kw_only=True):
    """The authority, as the agent sees it."""

    kind: Literal["sqlite", "etcd"]
    alive: bool
    """Its process runs, and a host is in session with it; or none has reported yet."""
    pid: int | None
    address: str
    restarts: int
    last_exit: str | None


class AgentStatus(Struct, frozen=True, kw_only=True):
    pid: int
    address: str
    uptime_s: float


class DomainStatus(Struct, frozen=True, tag="domain_status", kw_only=True):
    """What `holdfast status` shows. An interface: scripts read it, so it changes only by adding."""

    domain: str
    hosts: tuple[HostStatus, ...]
    authority: AuthorityStatus
    agent: AgentStatus | None
    """None when no agent answers; the rest is then what the processes' locks tell."""
    url: str = ""
    """What clients connect to, as `holdfast status` says it; empty when no host lives."""


class Subscribe(Struct, frozen=True, tag="subscribe"):
    """From a host of any machine to an agent: tell me of deaths. Those seen lately are told at once."""


ToAgent = HostReport | Subscribe
"""What a host sends its agent, which answers a Subscribe with every HostDied."""
