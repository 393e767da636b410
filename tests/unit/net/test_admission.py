"""Every server names the roles it admits: for each kind of frame, each order and each HTTP endpoint."""

import asyncio
from types import SimpleNamespace
from typing import Any, get_args

import msgspec
import pytest
from net_world import SECRET, World, run

from holdfast.admin.dispatch import AdminDispatch
from holdfast.admin.fault_injection import PartitionFilter
from holdfast.admin.permissions import ADMINS, EVERYBODY, PROGRAMS, ROLES, check_permitted
from holdfast.model.admin.groups import Order, OrderRefused, Question
from holdfast.model.errors import InvalidRequest
from holdfast.model.ids import HostId
from holdfast.net import Connection, ConnectionSettings, Kind, NotConnected, PeerIdentity, Reason, Role, Why
from holdfast.net.frame import FIRST_APPLICATION_KIND
from holdfast.net.handshake import (
    AGENT_ADMITS,
    AUTHORITY_ADMITS,
    HEARTBEAT_ADMITS,
    HOST_ADMITS,
    roles_in,
)
from holdfast.node.services.directory_service import ADMITS as DIRECTORY_ADMITS
from holdfast.node.streams.door import ADMITS as STREAM_ADMITS
from holdfast.shipping.service import SHIPPING_ADMITS
from holdfast.web.door import ENDPOINTS
from holdfast.web.settings import Grade

SERVERS = {
    "authority": AUTHORITY_ADMITS,
    "agent": AGENT_ADMITS,
    "heart": HEARTBEAT_ADMITS,
    "host": HOST_ADMITS,
    "files": SHIPPING_ADMITS,
    "directory": DIRECTORY_ADMITS,
    "streams": STREAM_ADMITS,
}
ANSWERS = {
    Kind.AUTHORITY_ANSWER,
    Kind.HEARTBEAT_ANSWER,
    Kind.AGENT_ANSWER,
    Kind.STATUS_REPLY,
    Kind.CALL_ANSWER,
    Kind.GROUP_ANSWER,
    Kind.SHIPPING_ANSWER,
    Kind.DIRECTORY_ANSWER,
    Kind.OUTPUT,
}
"""Kinds that servers send and accept from nobody."""
UNUSED = {Kind.AUTHORITY_WATCH, Kind.AUTHORITY_EVENT, Kind.AUTHORITY_UNWATCH, Kind.AGENT_ORDER}


def test_every_kind_of_frame_is_somebodys_to_send() -> None:
    """A kind that no table names is refused everywhere: adding a kind means saying who may send it."""
    named = {kind for admits in SERVERS.values() for kind in admits}
    assert named | ANSWERS | UNUSED == {kind for kind in Kind if kind >= FIRST_APPLICATION_KIND}
    assert not named & (ANSWERS | UNUSED)
    assert all(roles for admits in SERVERS.values() for roles in admits.values())


def test_a_clients_certificate_opens_neither_the_authority_nor_what_hosts_tell_each_other() -> None:
    assert roles_in(AUTHORITY_ADMITS) == {Role.HOST, Role.AGENT, Role.ADMIN}
    assert roles_in(AGENT_ADMITS) == {Role.HOST, Role.AGENT, Role.ADMIN}
    assert roles_in(HEARTBEAT_ADMITS) == {Role.HOST}
    assert roles_in(SHIPPING_ADMITS) == {Role.HOST}
    assert {kind for kind, roles in HOST_ADMITS.items() if Role.CLIENT in roles} == {
        Kind.CALL,
        Kind.GROUP_ORDER,
    }
    assert Role.AUTHORITY not in set().union(*map(roles_in, SERVERS.values()))


class Taken:
    """Records the kinds that come through, and how the connection ended."""

    def __init__(self, *, answers: bool) -> None:
        self._answers = answers
        self.kinds: list[Kind] = []
        self.ended: asyncio.Future[Reason] = asyncio.get_running_loop().create_future()

    def on_frame(self, connection: Connection, kind: Kind, payload: bytes) -> None:
        self.kinds.append(kind)
        if self._answers:
            connection.send(kind, payload)

    def on_closed(self, connection: Connection, reason: Reason) -> None:
        self.ended.set_result(reason)


@pytest.mark.parametrize("server", SERVERS)
@pytest.mark.parametrize("role", Role)
def test_a_server_takes_from_each_role_what_it_names_and_nothing_else(server: str, role: Role) -> None:
    admits = SERVERS[server]

    async def attempt(world: World, kind: Kind) -> None:
        there = Taken(answers=True)
        listening = await world.serve(lambda _: there, admits=admits)
        here = Taken(answers=False)
        endpoint = ConnectionSettings(PeerIdentity("test", role, "peer"), credentials=SECRET)
        if role not in roles_in(admits):
            with pytest.raises(NotConnected, match=f"role {role} is not admitted here"):
                await world.connect(listening, lambda _: here, endpoint)
            return
        connection = await world.connect(listening, lambda _: here, endpoint)
        connection.send(kind, b"x")
        if role in admits.get(kind, ()):
            while not here.kinds:
                await asyncio.sleep(0.001)
            assert there.kinds == [kind]
        else:
            assert (await here.ended).why is Why.MALFORMED
            assert f"a {role} may not send {kind.name} here" in (await there.ended).message
            assert there.kinds == []

    async def main(world: World) -> None:
        for kind in Kind:
            if kind >= FIRST_APPLICATION_KIND:
                await attempt(world, kind)

    run(main)


# --- orders


def test_every_order_names_its_roles() -> None:
    assert set(ROLES) == set(get_args(Order))
    assert {order for order, roles in ROLES.items() if roles == EVERYBODY} == set(get_args(Question))
    assert set(ROLES.values()) == {EVERYBODY, PROGRAMS, ADMINS}


@pytest.mark.parametrize("order", ROLES, ids=lambda order: order.__name__)
def test_an_order_is_refused_to_every_role_that_it_does_not_name(order: type[Order]) -> None:
    """The refusal comes before the order is examined: none of its values is valid here."""
    host: Any = SimpleNamespace(me=SimpleNamespace(host=HostId("a")), recovery=None, catalog=None, domain="")
    nothing: Any = None
    administering = AdminDispatch(
        host, nothing, nothing, nothing, PartitionFilter(), nothing, nothing, (), nothing, allows_chaos=True
    )
    make: Any = order
    given = make(**{field.name: "" for field in msgspec.structs.fields(order) if field.required})
    for role in Role:
        if role in ROLES[order]:
            check_permitted(given, role)
            continue
        answer = asyncio.run(administering.do(given, role))
        assert isinstance(answer, OrderRefused)
        assert answer.is_final
        assert f"not for a {role.value}" in answer.text


def test_an_order_that_nobody_is_named_for_is_refused_to_everybody() -> None:
    unnamed: Any = object()
    for role in Role:
        with pytest.raises(InvalidRequest, match="for nobody to order"):
            check_permitted(unnamed, role)


# --- HTTP

OPEN_TO_ALL = {"/healthz", "/openapi.json", "/docs"}
FOR_CLIENTS = {"/v1/groups/{name}/calls/{method}", "/v1/outcomes"}
"""The handler checks who may call which group."""
FOR_READERS = {"/cluster/index"}
"""Endpoints of which one command only reads; the handler checks the others."""
NOT_WRITTEN_DOWN = {"/v1/faults", "/cluster/heartbeat"}
"""Requests that programs make all the time."""


def test_every_http_endpoint_names_a_grade_or_is_known_to_be_open() -> None:
    for endpoint in ENDPOINTS:
        is_open = endpoint.method == "GET" and endpoint.path in OPEN_TO_ALL
        assert is_open if endpoint.grade is None else endpoint.grade in get_args(Grade), endpoint.path


def test_what_changes_the_domain_over_http_is_for_admins_and_written_down() -> None:
    for endpoint in ENDPOINTS:
        if endpoint.method == "GET" or endpoint.path in FOR_CLIENTS:
            continue
        assert endpoint.grade == ("reader" if endpoint.path in FOR_READERS else "admin"), endpoint.path
        assert endpoint.is_audited is (endpoint.path not in NOT_WRITTEN_DOWN), endpoint.path
