"""The messages that agents, hosts and the command line exchange."""

from typing import Final, Literal

from msgspec import Struct

from holdfast.execution.crash_attempts import Attempt
from holdfast.model.host_parts import ServiceStatus, WorkersStatus
from holdfast.model.ids import MILLISECOND, HostId, Incarnation
from holdfast.node.heartbeats import PeerState
from holdfast.shipping.progress import ShippingStatus

Proof = Literal["waitpid", "lock"]
"""How an agent knows of a death: it waited for its own child, or it got the lock that the host held (K2)."""

ROLES: Final = "roles"
"""What the host is for, separated by commas, among the details of its report."""


class PeerReport(Struct, frozen=True, kw_only=True):
    """What one host hears of another."""

    host: HostId
    incarnation: Incarnation
    heard_ms: float | None
    """Milliseconds since its last heartbeat; None if it was never heard."""
    silent: bool
    hears_us: bool


def peer_report(state: PeerState) -> PeerReport:
    """What a host reports of a peer."""
    return PeerReport(
        host=state.host,
        incarnation=state.incarnation,
        heard_ms=None if state.heard_age_ns is None else round(state.heard_age_ns / MILLISECOND, 1),
        silent=state.is_silent,
        hears_us=state.hears_us,
    )


class HostDied(Struct, frozen=True, tag="host_died", kw_only=True):
    """An agent's message that exactly this incarnation of a host is gone, with the kind of proof."""

    host: HostId
    incarnation: Incarnation
    proof: Proof
    how: str
    during: tuple[Attempt, ...] = ()
    """What the host was executing when it ended, on its loop and beside it (E4)."""
    is_hang: bool = False
    """The host ended itself because its loop stood still (K3)."""
    is_crash: bool = False
    """The agent saw the host end, and the end was not orderly."""
    is_damaged: bool = False
    """The host ended because its stored data is not what it wrote."""
    will_be_quoted: bool = False
    """The same death is about to be told again, with what the host said last in *how*. Failovers begin with
    the first word; reports to people wait for the second."""
    age_ns: int = 0
    """How long ago the agent learned of it: agents repeat what they know to every host that connects (K7)."""


class DeathHeard(Struct, frozen=True, kw_only=True):
    """When a host heard of a death, by this machine's boot-time clock, so that processes can compare."""

    host: HostId
    incarnation: Incarnation
    at_ns: int


class HostReport(Struct, frozen=True, tag="host_report", kw_only=True):
    """What a host tells its agent, once a second and when asked."""

    host: HostId
    incarnation: Incarnation
    pid: int
    address: str
    store: str
    opening: int
    log_bytes: int
    in_session: bool
    """Whether the authority holds this host's session."""
    peers: tuple[PeerReport, ...]
    deaths: tuple[DeathHeard, ...] = ()
    """The newest deaths that the host was told of."""
    deaf_to: tuple[HostId, ...] = ()
    """Hosts from which it accepts nothing, because an admin said so (`holdfast chaos cut`)."""
    without_object: tuple[tuple[str, str], ...] = ()
    """The first few groups whose member here has no object, with the reason (O3, E8)."""
    details: dict[str, str] = {}
    """The details of the host's session, such as the addresses of its doors and where it is; and its roles.
    """
    checkpoints_failed: tuple[tuple[str, str], ...] = ()
    """The first few groups whose member here failed its last checkpoint, with the reason (PROTOCOL E9)."""
    other_code: tuple[str, ...] = ()
    """The first few groups whose class differs here from the code that serves them, in words (E7)."""
    loop_late_ms: float = 0.0
    """By how much one turn of its loop in a hundred was late, in the last twenty seconds."""
    services: tuple[ServiceStatus, ...] = ()
    workers: WorkersStatus = WorkersStatus()
    shipping: ShippingStatus | None = None
    """What it ships; None if its shipping does not run."""


class ShippingReport(Struct, frozen=True, kw_only=True):
    """What `holdfast shipping status` shows of one host. Scripts read it, so it changes only by additions."""

    host: HostId
    state: str
    """`runs`, `starting`, `failed`, `stopped`, `gone`, `unknown`."""
    why: str = ""
    address: str = ""
    """Where other hosts fetch files from it."""
    status: ShippingStatus | None = None


class HostStatus(Struct, frozen=True, kw_only=True):
    """One host, as its agent sees it."""

    id: HostId
    alive: bool
    """The host runs, is in session with the authority, and has reported to its agent."""
    incarnation: Incarnation | None
    pid: int | None
    address: str | None
    restarts: int
    uptime_s: float | None
    state: str
    """`alive`, `starting`, `restarting`, `stopped`, in words for people."""
    last_exit: str | None
    """How its last process ended, with the reason that the process itself gave."""
    report: HostReport | None = None


class AuthorityStatus(Struct, frozen=True, kw_only=True):
    """The authority, as the agent sees it."""

    kind: Literal["sqlite", "etcd", "unknown"]
    alive: bool
    """The authority's process runs, and a host is in session with it or no host has reported yet."""
    pid: int | None
    address: str
    restarts: int
    last_exit: str | None


class AgentStatus(Struct, frozen=True, kw_only=True):
    pid: int
    address: str
    uptime_s: float


class MachineHost(Struct, frozen=True, kw_only=True):
    """A host of a machine, as the authority knows it."""

    id: HostId
    alive: bool
    """The host is in session."""
    address: str


class MachineStatus(Struct, frozen=True, kw_only=True):
    """One machine of a domain on several, as the authority knows it."""

    machine: str
    location: str
    agent_address: str
    hosts: tuple[MachineHost, ...]
    serves_authority: bool = False
    """Whether the domain's embedded authority is on this machine."""
    insecure: bool = False
    """Whether it sends plain TCP to other machines."""


class DomainStatus(Struct, frozen=True, tag="domain_status", kw_only=True):
    """What `holdfast status` shows. Scripts read it, so it changes only by additions."""

    domain: str
    hosts: tuple[HostStatus, ...]
    authority: AuthorityStatus
    agent: AgentStatus | None
    """None if no agent answers; the rest is then derived from the processes' locks."""
    url: str = ""
    """The URL that clients connect to, as `holdfast status` shows it; empty if no host is alive."""
    machine: str = ""
    """The name of the machine whose hosts these are; empty for a domain on one machine."""
    machines: tuple[MachineStatus, ...] = ()
    """All machines of a domain on several, this one included."""
    not_admitted: str = ""
    """Why the domain does not let this machine join, in words; empty if it does."""
    dangers: tuple[str, ...] = ()
    """What somebody should change before it is too late, in words."""


class Subscribe(Struct, frozen=True, tag="subscribe"):
    """Asks an agent to report deaths to a host of any machine. The agent reports recent deaths at once."""


ToAgent = HostReport | Subscribe
"""What a host sends to an agent. The agent answers a Subscribe with every HostDied."""
