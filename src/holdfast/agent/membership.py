"""A machine's place in its domain, kept by its agent: it joins, says where it is now, and sees the others."""

import asyncio
from collections.abc import Mapping
from typing import Final

import structlog

from holdfast.authority.driver import insist
from holdfast.authority.machines import MachineRecord, NotAdmitted, join_machine
from holdfast.authority.recipe import Authority, Seen, perform
from holdfast.authority.sessions import Session
from holdfast.machine.real_ports import fresh_nonce
from holdfast.model.ids import HostId
from holdfast.net import Address
from holdfast.node.layout import Description
from holdfast.node.machines import DomainMachines
from holdfast.node.messages import MachineHost, MachineStatus
from holdfast.node.session import SessionPeers

RETRY_S: Final = 5.0
"""How often a machine that was not admitted asks again: somebody may have made room for it."""

log = structlog.get_logger("holdfast.machines")


def record_of(description: Description) -> MachineRecord:
    """What the authority shall know of the machine of *description*."""
    return MachineRecord(
        machine=description.machine,
        token=description.token,
        agent=description.agent,
        agent_address=str(description.reached(Address.parse(description.agent_address))),
        hosts=description.hosts,
        location=description.location,
        serves_authority=description.authority_listens is not None,
        insecure=description.insecure,
    )


async def join(authority: Authority, description: Description) -> MachineRecord | NotAdmitted:
    """Enter the machine at the authority, however long that takes to answer."""
    nonce = fresh_nonce()
    outcome = await insist(
        lambda: perform(authority, join_machine(record_of(description), nonce=nonce)), Seen, NotAdmitted
    )
    if isinstance(outcome, NotAdmitted):
        return outcome
    entered: MachineRecord = outcome.value
    return entered


class MachineMembership:
    """Enters this machine, again whenever its description changes, and follows the domain's machines."""

    def __init__(self, authority: Authority, description: Description) -> None:
        self._authority = authority
        self._description = description
        self._machines = DomainMachines(authority, description)
        self._peers = SessionPeers(authority, self._on_sessions)
        self._sessions: Mapping[HostId, Session] = {}
        self._changed = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self.problem = ""
        """Why the machine is not of the domain, in words; empty if it is, or nothing was heard yet."""

    def start(self) -> None:
        loop = asyncio.get_running_loop()
        work = (self._stay_joined(), self._machines.follow(), self._peers.follow())
        self._tasks = [loop.create_task(each) for each in work]

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._authority.close()

    def on_description(self, description: Description) -> None:
        """Tell the authority what the machine is like now."""
        self._description = description
        self._changed.set()

    def statuses(self) -> tuple[MachineStatus, ...]:
        """All machines of the domain, as the authority knows them."""
        return tuple(self._status(each) for each in self._machines.records)

    def _status(self, record: MachineRecord) -> MachineStatus:
        return MachineStatus(
            machine=record.machine,
            location=record.location,
            agent_address=record.agent_address,
            serves_authority=record.serves_authority,
            insecure=record.insecure,
            hosts=tuple(
                MachineHost(
                    id=host,
                    alive=host in self._sessions,
                    address=self._sessions[host].address if host in self._sessions else "",
                )
                for host in record.hosts
            ),
        )

    def _on_sessions(self, sessions: Mapping[HostId, Session]) -> None:
        self._sessions = sessions

    async def _stay_joined(self) -> None:
        while True:
            self._changed.clear()
            outcome = await join(self._authority, self._description)
            why = outcome.why if isinstance(outcome, NotAdmitted) else ""
            if why and why != self.problem:
                log.error("this machine is not admitted", machine=self._description.machine, why=why)
            self.problem = why
            try:
                async with asyncio.timeout(RETRY_S if why else None):
                    await self._changed.wait()
            except TimeoutError:
                continue
