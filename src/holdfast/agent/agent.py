"""The agent: it starts, watches and restarts the processes of one machine, and proves their deaths.

Its report that a host is dead lets others claim that host's groups at once. So it reports a death only with
proof (K2), and names exactly the incarnation that ended. An agent that is restarted finds its hosts running
and supervises them although it did not start them.
"""

import asyncio
import os
import signal
import sys
from typing import Final

import msgspec
import structlog

from holdfast.agent.known_deaths import KnownDeaths
from holdfast.agent.membership import MachineMembership
from holdfast.agent.process import Death, ProcessState, SupervisedProcess
from holdfast.authority.move.place import Place
from holdfast.execution.crash_attempts import Attempt
from holdfast.machine import MachineClock
from holdfast.model.errors import InvalidRequest, Unavailable
from holdfast.model.ids import SECOND, HostId, Incarnation
from holdfast.model.versions import Decoder, LaterKind
from holdfast.net import (
    Address,
    Connection,
    Kind,
    Reason,
    Role,
    Server,
    serve,
    split_number,
    with_number,
)
from holdfast.net.handshake import AGENT_ADMITS
from holdfast.node.crash_note import read_slot
from holdfast.node.endpoints import endpoint_of
from holdfast.node.layout import Description, Layout
from holdfast.node.messages import (
    AgentStatus,
    AuthorityStatus,
    DomainStatus,
    HostDied,
    HostReport,
    HostStatus,
    Subscribe,
    ToAgent,
)
from holdfast.node.session import connect_authority

REPORT_FRESH_NS: Final = 5 * SECOND
"""A host that has not reported for so long is not shown as alive, though its process may run."""

log = structlog.get_logger("holdfast.agent")
_encode = msgspec.msgpack.Encoder().encode
_messages: Final[Decoder[ToAgent]] = Decoder(ToAgent)


class Agent:
    """Supervises the processes that a domain's description names on this machine."""

    def __init__(self, layout: Layout, description: Description) -> None:
        self._layout = layout
        self._description = description
        self._clock = MachineClock()
        self._started_at = self._clock.now()
        self._hosts = {host: self._host_process(host) for host in description.hosts}
        self._authority = self._authority_process()
        self._endpoint = endpoint_of(layout, description, Role.AGENT, description.agent)
        self._membership: MachineMembership | None = None
        self._reports: dict[HostId, tuple[int, HostReport]] = {}
        self._deaths = KnownDeaths(self._clock)
        self._subscribers: dict[Connection, None] = {}
        self._stop = asyncio.Event()
        self._leaving: dict[asyncio.Task[None], None] = {}
        """Tasks that stop hosts which were removed from the domain."""

    async def run(self) -> None:
        """Serve and supervise until SIGTERM or SIGINT; then stop everything in order."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._stop.set)
        server = await self._listen()
        if self._authority is not None:
            self._authority.start()
        if self._description.machine:
            authority = connect_authority(self._description, self._endpoint, self._layout)
            self._membership = MachineMembership(authority, self._description)
            self._membership.start()
        for process in self._hosts.values():
            process.start()
        loop.add_signal_handler(signal.SIGHUP, self._reload_description)
        log.info("agent serves", address=str(server.address), hosts=len(self._hosts))
        await self._stop.wait()
        await asyncio.gather(*self._leaving)
        await asyncio.gather(*(process.stop() for process in self._hosts.values()))
        if self._membership is not None:
            await self._membership.close()
        # The authority stops last, because hosts close their sessions with it.
        if self._authority is not None:
            await self._authority.stop()
        await server.close()

    def _reload_description(self) -> None:
        """Read the description again: stop the hosts that it no longer names for good, start new ones."""
        try:
            description = self._layout.read()
        except InvalidRequest as error:
            log.error("the domain's description cannot be read", why=str(error))
            return
        hosts = description.hosts
        if self._authority is None and description.authority_listens is not None:
            # The domain is about to move to this machine's embedded authority (A8).
            log.info("authority is added", address=str(description.authority_listens))
            self._description = msgspec.structs.replace(
                self._description, authority_address=description.authority_address, serves_authority=True
            )
            self._authority = self._authority_process()
            if self._authority is not None:
                self._authority.start()
        if self._membership is not None:
            self._membership.on_description(msgspec.structs.replace(self._description, hosts=hosts))
        for host in [each for each in self._hosts if each not in hosts]:
            log.info("host is removed", host=host)
            task = asyncio.get_running_loop().create_task(self._stop_host(host))
            self._leaving[task] = None
            task.add_done_callback(lambda done: self._leaving.pop(done))

        for host in [each for each in hosts if each not in self._hosts]:
            log.info("host is added", host=host)
            self._hosts[host] = process = self._host_process(host)
            process.start()

    async def _stop_host(self, host: HostId) -> None:
        await self._hosts[host].stop()
        self._hosts.pop(host, None)

    async def _listen(self) -> Server:
        address = Address.parse(self._description.agent_address)
        try:
            return await serve(address, lambda _: self, self._endpoint, admits=AGENT_ADMITS)
        except Unavailable as error:
            # Hosts that outlived an agent look for the next one at this address, so another port would not
            # do.
            error.add_note(self._other_address())
            raise

    def _other_address(self) -> str:
        where = self._layout.directory
        if self._description.machine:  # others know it by its address: no start takes another
            return (
                "end what listens there, or if that is no address of this machine, say which is: "
                f"`holdfast machine set --listen ADDRESS --dir {where}`"
            )
        return (
            "end what listens there, or stop the hosts that look for their agent there: "
            f"`holdfast down --dir {where}`; the next start takes another port"
        )

    # --- connections

    def on_frame(self, connection: Connection, kind: Kind, payload: bytes) -> None:
        if kind is Kind.STATUS_REQUEST:
            number, _ = split_number(payload)
            connection.send(Kind.STATUS_REPLY, with_number(number, _encode(self.status())))
            return
        try:
            message = _messages.decode(payload)
        except LaterKind as later:
            log.info("a later version is not understood", peer=str(connection.peer), why=str(later))
            return
        match message:
            case HostReport() as report:
                if report.host != connection.peer.id:
                    raise msgspec.ValidationError(f"{connection.peer} reports as {report.host}")
                self._reports[report.host] = (self._clock.now(), report)
            case Subscribe():
                self._subscribers[connection] = None
                for death in self._deaths.repeated():
                    connection.send(Kind.AGENT_REPORT, _encode(death))

    def on_closed(self, connection: Connection, reason: Reason) -> None:
        self._subscribers.pop(connection, None)

    # --- deaths

    def _on_host_death(self, process: SupervisedProcess, death: Death) -> None:
        host = HostId(process.name)
        if death.incarnation is not None:
            died = HostDied(
                host=host,
                incarnation=death.incarnation,
                proof=death.proof,
                how=death.how,
                during=self._during(host, death.incarnation),
                is_hang=death.is_hang,
                is_crash=death.is_crash,
                is_damaged=death.is_damaged,
                will_be_quoted=death.will_be_quoted,
            )
            self._deaths.add(died)
            payload = _encode(died)
            for connection in tuple(self._subscribers):  # a send closes connections that are too slow
                connection.send(Kind.AGENT_REPORT, payload)
        if death.will_be_quoted:
            return
        self._reports.pop(host, None)
        log.info("host ended", host=host, incarnation=death.incarnation, proof=death.proof, how=death.how)

    def _during(self, host: HostId, incarnation: Incarnation) -> tuple[Attempt, ...]:
        """What that process was executing when it ended (E4)."""
        found = read_slot(self._layout.host(host))
        return found[1] if found is not None and found[0] == incarnation else ()

    def _on_authority_death(self, process: SupervisedProcess, death: Death) -> None:
        log.warning("authority ended", how=death.how)

    # --- status

    def status(self) -> DomainStatus:
        return DomainStatus(
            domain=self._description.domain,
            hosts=tuple(self._host_status(host, process) for host, process in self._hosts.items()),
            authority=self._authority_status(),
            agent=AgentStatus(
                pid=os.getpid(),
                address=self._description.agent_address,
                uptime_s=round((self._clock.now() - self._started_at) / SECOND, 3),
            ),
            machine=self._description.machine,
            machines=self._membership.statuses() if self._membership is not None else (),
            not_admitted=self._membership.problem if self._membership is not None else "",
            dangers=dangers(self._description, is_on_etcd=self._place().kind == "etcd"),
        )

    def _host_status(self, host: HostId, process: SupervisedProcess) -> HostStatus:
        report = self._fresh_report(host, process)
        is_alive = process.is_running and report is not None and report.in_session
        return HostStatus(
            id=host,
            alive=is_alive,
            incarnation=report.incarnation if report else None,
            pid=process.pid,
            address=report.address if report else None,
            restarts=process.restarts.count,
            uptime_s=None if process.uptime_s is None else round(process.uptime_s, 3),
            state=_state_in_words(process, report),
            last_exit=process.last_exit,
            report=report,
        )

    def _fresh_report(self, host: HostId, process: SupervisedProcess) -> HostReport | None:
        at, report = self._reports.get(host, (0, None))
        if report is None or report.pid != process.pid or self._clock.now() - at > REPORT_FRESH_NS:
            return None
        return report

    def _authority_status(self) -> AuthorityStatus:
        process = self._authority
        place = self._place()
        if process is None or place.kind == "etcd":  # or it is on another machine
            return AuthorityStatus(
                kind=place.kind,
                alive=self._hosts_in_session() > 0,
                pid=None,
                address=place.where,
                restarts=0,
                last_exit=None,
            )
        return AuthorityStatus(
            kind="sqlite",
            # A running process may still not answer; the hosts that need it know.
            alive=process.is_running and self._hosts_in_session(if_none_reports=1) > 0,
            pid=process.pid,
            address=self._description.authority_address or "",
            restarts=process.restarts.count,
            last_exit=process.last_exit,
        )

    def _place(self) -> Place:
        try:
            return self._layout.authority_place(self._description)
        except InvalidRequest:
            return self._description.first_place

    def _hosts_in_session(self, *, if_none_reports: int = 0) -> int:
        found = [self._fresh_report(host, process) for host, process in self._hosts.items()]
        reports = [report for report in found if report is not None]
        return sum(report.in_session for report in reports) if reports else if_none_reports

    # --- supervised processes

    def _host_process(self, host: HostId) -> SupervisedProcess:
        directory = self._layout.host(host)
        return SupervisedProcess(
            host,
            directory=directory,
            command=[*_PROGRAM, "host", "--dir", str(self._layout.directory), "--id", host],
            output=self._layout.output(host),
            clock=self._clock,
            on_death=self._on_host_death,
        )

    def _authority_process(self) -> SupervisedProcess | None:
        description = self._description
        listens = description.authority_listens
        if listens is None:
            return None
        directory = self._layout.authority
        options = ["--certs", description.certs] if description.certs else []
        options += ["--insecure"] if description.insecure else []
        options += ["--secret-dir", str(self._layout.directory)]
        return SupervisedProcess(
            "authority",
            directory=directory,
            command=[
                *(*_PROGRAM, "authority", "serve", "--dir", str(directory), "--listen", str(listens)),
                *("--domain", description.domain, *options),
            ],
            output=self._layout.output("authority"),
            clock=self._clock,
            on_death=self._on_authority_death,
        )


def dangers(description: Description, *, is_on_etcd: bool = False) -> tuple[str, ...]:
    """What is not as it should be on the machine of *description*, in words. *is_on_etcd* says that the
    authority has moved to an etcd since the machine joined."""
    found = []
    if description.insecure and not description.certs and not description.here.is_loopback:
        found.append(
            "INSECURE: this machine talks to others by plain TCP; whoever is on the way can read and change "
            "everything. `holdfast machine set --certs DIR` ends that"
        )
    if description.machine and description.authority_address is not None and not is_on_etcd:
        where = "this machine" if description.serves_authority else f"{description.authority_address}"
        found.append(
            f"the authority is embedded, on {where} alone: while that machine is down no group fails over, "
            "and if its disk is lost the domain is lost with it. An etcd on three machines is the way out: "
            "`holdfast authority move --to etcd://HOST,HOST,HOST`"
        )
    return tuple(found)


_PROGRAM: Final = (sys.executable, "-P", "-m", "holdfast")
"""Without the directory in which the domain was started among the places that code comes from: whoever may
write there is not therefore trusted, and a file named like a module of Python's would keep hosts from
starting."""


def _state_in_words(process: SupervisedProcess, report: HostReport | None) -> str:
    if process.state is ProcessState.WAITING:
        return "restarting"
    if process.state is ProcessState.STOPPED:
        return "stopped"
    if report is None:
        return "starting" if (process.uptime_s or 0) * SECOND < REPORT_FRESH_NS else "not answering"
    return "alive" if report.in_session else "without the authority"
