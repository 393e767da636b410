"""Serves the outputs of this host's groups to destinations (LOSS-13, O5).

A destination has a connection to each member and says up to which output it has them. The member that leads
serves it; another does if it is asked to. Outputs leave once they are committed. A destination that does not
read is not waited for: it is left where it is, and asks again when it can.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from holdfast.execution.outputs import Output, OutputId
from holdfast.groups.host_groups import HostGroups
from holdfast.groups.hosted_group import HostedGroup
from holdfast.model.errors import InvalidRequest
from holdfast.model.ids import GroupId
from holdfast.net import Address, Connection, Kind
from holdfast.net.udp import UdpSocket
from holdfast.streams.collecting import (
    BATCH_BYTES_MAX,
    BATCH_OUTPUTS_MAX,
    OutputAsk,
    OutputBatch,
    encode_output,
)
from holdfast.streams.datagram import tag_of
from holdfast.styles.replica import Replica

LOOK_S: Final = 0.005
"""How often outputs are looked for while there are destinations."""
ALIVE_TURNS: Final = 50
"""After so many looks without anything new a destination is told that all is well."""


@dataclass(slots=True)
class _Served:
    ask: OutputAsk
    group: GroupId
    last: OutputId | None
    to: tuple[str, int] | None
    quiet: int = ALIVE_TURNS
    was_serving: bool = False


class OutputServer:
    """The destinations that one host serves. *udp* returns the socket for those that want datagrams."""

    def __init__(self, groups: HostGroups, udp: Callable[[], UdpSocket | None]) -> None:
        self._groups = groups
        self._udp = udp
        self._served: dict[Connection, _Served] = {}
        self._looking: asyncio.TimerHandle | None = None

    def take(self, connection: Connection, ask: OutputAsk) -> None:
        """Serve a destination from where it is. Raises ``InvalidRequest``."""
        group = self._groups.catalog.find(ask.group)
        if group is None:
            raise InvalidRequest(f"there is no group {ask.group!r}")
        to = None
        if ask.udp:
            address = Address.parse(ask.udp)
            if len(ask.secret) < 32:
                raise InvalidRequest("outputs by UDP are sealed: give a secret of 32 bytes")
            to = (address.host, address.port)
        self._served[connection] = _Served(ask, group, ask.after, to)
        if self._looking is None:
            self._look()

    def on_closed(self, connection: Connection) -> None:
        self._served.pop(connection, None)

    def close(self) -> None:
        self._served.clear()
        if self._looking is not None:
            self._looking.cancel()

    def _look(self) -> None:
        self._looking = None
        for connection, each in list(self._served.items()):
            if connection.is_writable:
                self._serve(connection, each)
        if self._served:
            self._looking = asyncio.get_running_loop().call_later(LOOK_S, self._look)

    def _serve(self, connection: Connection, served: _Served) -> None:
        hosted = self._groups.hosted.get(served.group)
        execution = (
            hosted.style.execution if hosted is not None and isinstance(hosted.style, Replica) else None
        )
        is_leader = hosted is not None and hosted.is_ready
        serves = execution is not None and (is_leader or served.ask.is_any)
        outputs: list[Output] = []
        lacks = None
        if serves and hosted is not None and execution is not None:
            outputs, is_gap = execution.outputs.after(served.last, hosted.member.committed)
            lacks = execution.outputs.since if is_gap else None
        served.quiet += 1
        if not outputs and serves == served.was_serving and served.quiet < ALIVE_TURNS:
            return
        served.quiet, served.was_serving = 0, serves
        self._send(connection, served, hosted, outputs, lacks, is_leader=is_leader, serves=serves)

    def _send(
        self,
        connection: Connection,
        served: _Served,
        hosted: HostedGroup | None,
        outputs: list[Output],
        lacks: OutputId | None,
        *,
        is_leader: bool,
        serves: bool,
    ) -> None:
        epoch = 0 if hosted is None or hosted.view is None else hosted.view.epoch
        for part in _parts(outputs):
            batch = OutputBatch(served.ask.group, epoch, is_leader, serves, served.last, tuple(part), lacks)
            if part:
                served.last = part[-1].id
            data, wire = encode_output(batch), self._udp()
            if served.to is None:
                connection.send(Kind.OUTPUT, data)
            elif wire is not None:
                wire.send(served.to, data + tag_of(served.ask.secret, data))


def _parts(outputs: list[Output]) -> list[list[Output]]:
    """*outputs* in pieces that fit into a datagram; one empty piece if there are none."""
    made: list[list[Output]] = [[]]
    size = 0
    for each in outputs:
        more = len(each.payload) + 2 * len(each.topic) + 40
        if made[-1] and (size + more > BATCH_BYTES_MAX or len(made[-1]) == BATCH_OUTPUTS_MAX):
            made.append([])
            size = 0
        made[-1].append(each)
        size += more
    return made
