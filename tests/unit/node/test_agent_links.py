"""A host's links to agents: it reports to its own, believes agents only, and counts each death once (K2)."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from random import Random

import msgspec
from net_world import secret_of

from holdfast.authority.sessions import Session
from holdfast.model.ids import SECOND, HostId, Incarnation, Nonce
from holdfast.net import (
    Address,
    Connection,
    ConnectionSettings,
    DomainSecret,
    Kind,
    PeerIdentity,
    Reason,
    Role,
    Server,
    serve,
)
from holdfast.net.credentials import SECRET_BYTES
from holdfast.net.frame import encode_frame
from holdfast.net.handshake import AGENT_ADMITS, encode_welcome
from holdfast.node.agent_links import AgentLinks
from holdfast.node.messages import HostDied, HostReport, Subscribe, ToAgent

WAIT_S = 60.0
HERE = Address("127.0.0.1", 0)
DIED = HostDied(host=HostId("b"), incarnation=Incarnation(3), proof="waitpid", how="was ended by SIGKILL")


class FakeAgent:
    """Listens as *role*; reports one death, twice, to every subscriber."""

    def __init__(self, role: Role = Role.AGENT, id: str = "agent1") -> None:
        self.endpoint = ConnectionSettings(PeerIdentity("d", role, id), credentials=secret_of("d"))
        self.reports: list[HostReport] = []
        self.connections: list[Connection] = []

    async def start(self) -> Server:
        return await serve(HERE, self._on_connection, self.endpoint, admits=AGENT_ADMITS)

    def _on_connection(self, connection: Connection) -> "FakeAgent":
        self.connections.append(connection)
        return self

    def on_frame(self, connection: Connection, kind: Kind, payload: bytes) -> None:
        match msgspec.msgpack.decode(payload, type=ToAgent):
            case Subscribe():
                for _ in range(2):
                    connection.send(Kind.AGENT_REPORT, msgspec.msgpack.encode(DIED))
            case HostReport() as report:
                self.reports.append(report)

    def on_closed(self, connection: Connection, reason: Reason) -> None:
        self.connections.remove(connection)


def report() -> HostReport:
    return HostReport(
        host=HostId("a"),
        incarnation=Incarnation(1),
        pid=1,
        address="127.0.0.1:1",
        store="s",
        opening=1,
        log_bytes=0,
        in_session=True,
        peers=(),
    )


def agents_of(own: Server) -> AgentLinks:
    endpoint = ConnectionSettings(PeerIdentity("d", Role.HOST, "a", 1), credentials=secret_of("d"))
    return AgentLinks(str(own.address), endpoint, random=Random(1), report=report)


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(WAIT_S):
        while not holds():
            await asyncio.sleep(0.005)


def test_a_host_reports_to_its_agent_and_counts_each_death_once() -> None:
    async def story() -> None:
        agent = FakeAgent()
        server = await agent.start()
        agents = agents_of(server)
        agents.set_peers({HostId("b"): session("b", str(server.address), incarnation=3)})
        await until(lambda: bool(agent.reports) and bool(agents.deaths))
        agents.report_now()
        await until(lambda: len(agent.reports) == 2)
        assert [(death.host, death.incarnation) for death in agents.deaths] == [("b", 3)]
        await agents.close()
        await server.close()

    asyncio.run(story())


def test_a_death_that_is_repeated_is_no_other_and_a_later_one_is() -> None:
    """An agent repeats what it knows with its age; a second death of one process means that the first report
    was false, and counts (K7)."""

    async def story() -> None:
        server = await FakeAgent().start()
        told: list[int] = []
        endpoint = ConnectionSettings(PeerIdentity("d", Role.HOST, "a", 1), credentials=secret_of("d"))
        agents = AgentLinks(
            str(server.address),
            endpoint,
            random=Random(1),
            report=report,
            on_death=lambda host, incarnation, age_ns: told.append(age_ns),
        )
        by = (str(server.address), "agent1")
        agents.set_peers({HostId("c"): session("c", str(server.address), incarnation=3)})
        first = msgspec.structs.replace(DIED, host=HostId("c"), age_ns=60 * SECOND)
        agents.on_told(first, by)
        agents.on_told(first, by)
        assert told == [60 * SECOND]
        agents.on_told(msgspec.structs.replace(first, age_ns=0), by)
        assert told == [60 * SECOND, 0]
        await agents.close()
        await server.close()

    asyncio.run(story())


def test_who_is_no_agent_is_not_believed() -> None:
    """Ports are reused: whatever listens where an agent was may claim any role but an agent's."""

    async def story() -> None:
        impostor = FakeAgent(Role.HOST)
        server = await impostor.start()
        agents = agents_of(server)
        await asyncio.sleep(0.2)
        assert not agents.deaths
        assert not impostor.reports
        await agents.close()
        await server.close()

    asyncio.run(story())


def test_a_forged_agent_is_not_believed() -> None:
    """Who squats an agent's port and does not know the domain's secret proves no death: neither one that
    speaks properly, nor one that skips what it cannot prove and says at once that a host is dead."""

    async def skip(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        welcome = encode_welcome(PeerIdentity("d", Role.AGENT, "agent1"), 2, 1 << 20, 15_000, bytes(16), at)
        said = ((Kind.WELCOME, welcome), (Kind.PROOF, bytes(32)), (Kind.READY, b""))
        told = msgspec.msgpack.encode(DIED)
        writer.write(b"".join(encode_frame(*each) for each in (*said, (Kind.AGENT_REPORT, told))))
        writer.write_eof()
        heard.append(await reader.read())
        writer.close()

    async def story() -> None:
        nonlocal at
        forged = FakeAgent()
        forged.endpoint = replace(forged.endpoint, credentials=DomainSecret("d", bytes(SECRET_BYTES)))
        server = await forged.start()
        blunt = await asyncio.start_server(skip, "127.0.0.1", 0)
        at = str(Address(*blunt.sockets[0].getsockname()))
        agents = agents_of(server)
        for each, address in (("b", str(server.address)), ("b", at)):
            agents.set_peers({HostId(each): session(each, address, incarnation=3)})
            await asyncio.sleep(0.3)
        await until(lambda: bool(heard))
        assert not agents.deaths
        assert not forged.reports
        assert all(b"secret" in each for each in heard)
        await agents.close()
        await server.close()
        blunt.close()
        await blunt.wait_closed()

    at, heard = "", list[bytes]()
    asyncio.run(story())


def test_a_death_counts_with_its_first_word_and_is_reported_with_its_last() -> None:
    """Failovers do not wait for what people read; people read it once."""
    deaths, hangs, reported = list[Incarnation](), list[str](), list[str]()

    async def story() -> None:
        server = await FakeAgent().start()
        agents = AgentLinks(
            str(server.address),
            ConnectionSettings(PeerIdentity("d", Role.HOST, "a", 1), credentials=secret_of("d")),
            random=Random(1),
            report=report,
            on_death=lambda host, incarnation, age_ns: deaths.append(incarnation),
            on_hang=lambda died: hangs.append(died.how),
            on_died=lambda died: reported.append(died.how),
        )
        agents.set_peers({HostId("b"): session("b", str(server.address), incarnation=7)})
        first = msgspec.structs.replace(
            DIED, incarnation=Incarnation(7), how="exited", is_hang=True, will_be_quoted=True
        )
        by = (str(server.address), "agent1")
        agents.on_told(first, by)
        assert (deaths, hangs, reported) == ([7], [], [])
        for _ in range(2):
            agents.on_told(msgspec.structs.replace(first, how="exited: stuck", will_be_quoted=False), by)
        assert (deaths, hangs, reported) == ([7], ["exited: stuck"], ["exited: stuck"])
        await agents.close()
        await server.close()

    asyncio.run(story())


def test_only_a_hosts_own_agent_is_believed_and_only_of_the_process_in_session() -> None:
    """K2: another machine's agent cannot have waited for it, and an earlier process is not this one."""

    async def story() -> None:
        agent = FakeAgent()
        server = await agent.start()
        here = str(server.address)
        for where, named, incarnation in (
            ("127.0.0.1:1", "agent1", 3),
            (here, "agent1", 4),
            (here, "agent1", 2),
            (here, "agent2", 3),
        ):
            agents = agents_of(server)
            agents.set_peers({HostId("b"): session("b", where, incarnation=incarnation, named=named)})
            await until(lambda: bool(agent.reports))
            await asyncio.sleep(0.1)
            assert not agents.deaths
            await agents.close()
            agent.reports.clear()
        await server.close()

    asyncio.run(story())


def test_an_agent_of_another_name_at_the_right_address_is_not_believed() -> None:
    """Addresses are given to other machines; with TLS, nobody but the agent has its certificate (K2)."""

    async def story() -> None:
        stranger = FakeAgent(id="agent9")
        server = await stranger.start()
        agents = agents_of(server)
        agents.set_peers({HostId("b"): session("b", str(server.address), incarnation=3)})
        await until(lambda: bool(stranger.reports))
        await asyncio.sleep(0.1)
        assert not agents.deaths
        await agents.close()
        await server.close()

    asyncio.run(story())


def test_the_agents_of_peers_are_followed_while_there_are_such_peers() -> None:
    async def story() -> None:
        own, other = FakeAgent(), FakeAgent()
        own_server, other_server = await own.start(), await other.start()
        agents = agents_of(own_server)
        agents.set_peers(
            {HostId("b"): session("b", str(other_server.address)), HostId("c"): session("c", "")}
        )
        await until(lambda: bool(own.connections) and bool(other.connections))
        agents.set_peers({})
        await until(lambda: not other.connections)
        assert own.connections
        await agents.close()
        await own_server.close()
        await other_server.close()

    asyncio.run(story())


def session(host: str, agent: str, *, incarnation: int = 1, named: str = "agent1") -> Session:
    return Session(
        host=HostId(host),
        incarnation=Incarnation(incarnation),
        address="127.0.0.1:1",
        nonce=Nonce("n"),
        agent_address=agent,
        agent=named,
    )
