"""A host's links to the agents of its domain.

The host reports to its own agent. The agents of its peers tell it when one of their hosts dies (K2).
"""

import asyncio
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import replace
from random import Random
from typing import Final

import msgspec
import structlog

from holdfast.authority.sessions import Session
from holdfast.execution.crash_attempts import Attempt
from holdfast.machine import MachineClock
from holdfast.model.ids import SECOND, HostId, Incarnation
from holdfast.net import Address, Connection, ConnectionSettings, Expected, Kind, Link, Reason, Role
from holdfast.node.messages import DeathHeard, HostDied, HostReport, Subscribe

DEATHS_KEPT: Final = 64
PROCESSES_KEPT: Final = 4096
"""How many processes to remember: one that died may have a successor in session before agents report it."""
REPORT_S: Final = 1.0
REPEATED_NS: Final = 10 * SECOND
"""Two reports of one process whose deaths are not further apart are of the same death: a report may wait this
long on its way, and its age says how long it was known before."""

AgentName = tuple[str, str]
"""Where an agent is reached, and its id. With TLS a certificate proves the id, so that an agent can speak for
the hosts of its own machine only (K2)."""

log = structlog.get_logger("holdfast.agents")
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(HostDied).decode


class AgentLinks:
    """Connections to every agent that this host knows, by address.

    *own* is where this host reaches its own agent, and *own_reached* where other machines do, if it differs.
    *report* builds what the host's own agent is told once a second. *on_death* is called once per death,
    with how long ago it was, *on_attempt* with the calls that a process was executing when it died, *on_died*
    with everything known of the death, and *on_hang* if the host ended itself because its loop hung.
    """

    def __init__(
        self,
        own: str,
        endpoint: ConnectionSettings,
        *,
        own_reached: str = "",
        random: Random,
        report: Callable[[], HostReport],
        on_death: Callable[[HostId, Incarnation, int], None] = lambda host, incarnation, age_ns: None,
        on_attempt: Callable[[HostId, Incarnation, Attempt], None] = lambda *_: None,
        on_hang: Callable[[HostDied], None] = lambda died: None,
        on_died: Callable[[HostDied], None] = lambda _: None,
    ) -> None:
        self._own = own
        self._own_reached = own_reached or own
        self._endpoint = replace(endpoint, expected=Expected(roles=frozenset({Role.AGENT})))
        self._random = random
        self.report = report
        self._on_death = on_death
        self._on_attempt = on_attempt
        self._on_hang = on_hang
        self._on_died = on_died
        self._links: dict[str, Link] = {}
        self._agent_of: dict[tuple[HostId, Incarnation], AgentName] = {}
        """The processes lately seen in session, with the agent that each session named."""
        self._closing: set[asyncio.Task[None]] = set()
        self._clock = MachineClock()
        self.deaths: deque[DeathHeard] = deque(maxlen=DEATHS_KEPT)
        """The newest deaths that agents have told this host of, each once."""
        self._died_at: dict[tuple[HostId, Incarnation], int] = {}
        self._unquoted: dict[tuple[HostId, Incarnation], None] = {}
        """Those of them whose last words the agent has announced; it keeps them until it has told them."""
        self._follow({own})

    def set_peers(self, sessions: Mapping[HostId, Session]) -> None:
        """Connect to the agents of exactly these hosts, and always to this host's own agent."""
        for host, session in sessions.items():
            self._agent_of[host, session.incarnation] = (session.agent_address, session.agent)
        while len(self._agent_of) > PROCESSES_KEPT:
            del self._agent_of[next(iter(self._agent_of))]
        named = {each.agent_address for each in sessions.values() if each.agent_address}
        self._follow({self._own, *(named - {self._own_reached})})

    async def report_always(self) -> None:
        """Report this host's condition to its own agent once a second, until cancelled."""
        while True:
            self.report_now()
            await asyncio.sleep(REPORT_S)

    def report_now(self) -> None:
        self._links[self._own].send(Kind.AGENT_REPORT, _encode(self.report()))

    async def close(self) -> None:
        await asyncio.gather(*(link.close() for link in self._links.values()), *self._closing)

    def on_told(self, died: HostDied, by: AgentName) -> None:
        """Handle a death reported by the agent *by*. Only the dead host's own agent can know (K2)."""
        for attempt in died.during:
            # This comes first, so that the next primary knows of the attempt. Any agent may say it: the
            # only effect is that the call is watched more closely.
            self._on_attempt(died.host, died.incarnation, attempt)
        if self._agent_of.get((died.host, died.incarnation)) != by:
            return
        now = self._clock.now()
        process = (died.host, died.incarnation)
        is_news = self._is_news(died, now - died.age_ns)
        if is_news:
            self.deaths.append(DeathHeard(host=died.host, incarnation=died.incarnation, at_ns=now))
            log.info("an agent reports a death", host=died.host, incarnation=died.incarnation, how=died.how)
            self._on_death(died.host, died.incarnation, died.age_ns)
        if died.will_be_quoted:
            self._unquoted[process] = None
            while len(self._unquoted) > DEATHS_KEPT:
                del self._unquoted[next(iter(self._unquoted))]
            return
        was_unquoted = process in self._unquoted
        self._unquoted.pop(process, None)
        if is_news or was_unquoted:
            self._on_died(died)
            if died.is_hang:
                self._on_hang(died)

    def _is_news(self, died: HostDied, died_at: int) -> bool:
        """Whether this is a death that was not reported yet. The same process may be reported dead again
        later: then the first report was false, and this one may be true (K7)."""
        process = (died.host, died.incarnation)
        known_at = self._died_at.get(process)
        if known_at is not None and died_at - known_at <= REPEATED_NS:
            return False
        self._died_at[process] = died_at
        while len(self._died_at) > DEATHS_KEPT:
            del self._died_at[next(iter(self._died_at))]
        return True

    def _follow(self, addresses: set[str]) -> None:
        for address in sorted(set(self._links) - addresses):
            task = asyncio.get_running_loop().create_task(self._links.pop(address).close())
            self._closing.add(task)
            task.add_done_callback(self._closing.discard)
        for address in sorted(addresses - set(self._links)):
            self._links[address] = self._link(address)

    def _link(self, address: str) -> Link:
        known_as = self._own_reached if address == self._own else address
        where, receiver = Address.parse(address), _AgentReceiver(known_as, self)
        return Link(f"agent at {address}", lambda: where, receiver.on_up, self._endpoint, random=self._random)


class _AgentReceiver:
    """Receives what one agent sends."""

    def __init__(self, address: str, agents: AgentLinks) -> None:
        self._address = address
        self._agents = agents

    def on_up(self, connection: Connection) -> "_AgentReceiver":
        # The connection can send only after this method has returned its receiver.
        asyncio.get_running_loop().call_soon(self._introduce, connection)
        return self

    def on_frame(self, connection: Connection, kind: Kind, payload: bytes) -> None:
        if kind is not Kind.AGENT_REPORT:
            raise msgspec.ValidationError(f"an agent sends a host no {kind.name}")
        self._agents.on_told(_decode(payload), (self._address, connection.peer.id))

    def on_closed(self, connection: Connection, reason: Reason) -> None:
        return None

    def _introduce(self, connection: Connection) -> None:
        connection.send(Kind.AGENT_REPORT, _encode(Subscribe()))
        connection.send(Kind.AGENT_REPORT, _encode(self._agents.report()))
