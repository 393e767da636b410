"""The machines of the domain, as one process of a machine follows them at the authority.

A machine's agent enters it (:mod:`holdfast.agent.membership`). Its hosts wait until that is done, so that a
machine that was removed from the domain while it was away does not serve again (V7).
"""

import asyncio
from typing import Final

import structlog

from holdfast.authority import keys
from holdfast.authority.driver import insist
from holdfast.authority.machines import MachineRecord, list_machines
from holdfast.authority.recipe import Authority, Listing, perform
from holdfast.model.errors import Rejected
from holdfast.model.ids import HostId, Revision
from holdfast.node.layout import Description

POLL_S: Final = 0.1
"""How often a host asks whether its machine has joined: its agent starts together with it."""

log = structlog.get_logger("holdfast.machines")


class MachineGone(Rejected):
    """Raised when this machine is of the domain no more."""

    code = "machine_gone"


class DomainMachines:
    """The records of all machines. A domain on one machine has none, and nothing is asked then."""

    def __init__(self, authority: Authority, description: Description) -> None:
        self._authority = authority
        self._description = description
        self._known: list[MachineRecord] = []
        self.hosts: list[HostId] = list(description.hosts)
        """The hosts of all machines of the domain, in session or not. It is changed in place."""
        self.records: tuple[MachineRecord, ...] = ()
        """The machines that are of the domain, in the order of their names."""

    async def wait_admitted(self, host: HostId) -> None:
        """Wait until the authority names *host* as one of this machine. Raises :class:`MachineGone`."""
        description, has_said = self._description, False
        while description.machine:
            await self._list()
            own = next((each for each in self._known if each.machine == description.machine), None)
            if own is not None and (own.is_removed or own.token != description.token):
                raise MachineGone(
                    f"machine {description.machine} was removed from domain {description.domain}"
                )
            if own is not None and host in own.hosts and own.agent == description.agent:
                return
            if not has_said:
                has_said = True
                log.info("waits until its machine has joined", host=host, machine=description.machine)
            await asyncio.sleep(POLL_S)

    async def follow(self) -> None:
        """Follow the machines until cancelled. While the authority is away, the last known state stays."""
        if not self._description.machine:
            await asyncio.Event().wait()
        while True:
            revision = await self._list()
            # Machines change rarely: whatever changed, all are listed again.
            async for _ in self._authority.watch(keys.MACHINES, Revision(revision + 1)):
                break

    async def _list(self) -> Revision:
        listing: Listing[MachineRecord] = await insist(
            lambda: perform(self._authority, list_machines()), Listing
        )
        self._known = [seen.value for seen in listing.items]
        self.records = tuple(each for each in self._known if not each.is_removed)
        named = {host: None for each in self.records for host in each.hosts}
        self.hosts[:] = list({**dict.fromkeys(self._description.hosts), **named})
        return listing.revision
