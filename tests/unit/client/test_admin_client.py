"""Orders go to the first host that can execute them."""

import asyncio

import pytest
from net_world import secret_of

from holdfast.client import admin_client
from holdfast.client.admin_client import AboutGroups, order
from holdfast.model.admin.groups import (
    STARTING,
    CreateGroup,
    DeleteGroup,
    GroupList,
    ListGroups,
    OrderAnswer,
    OrderRefused,
    encode_order,
)
from holdfast.model.errors import InvalidRequest, OutcomeUnknown, Unavailable
from holdfast.net import (
    Address,
    Connection,
    ConnectionSettings,
    Kind,
    PeerIdentity,
    Reason,
    Role,
    Server,
    serve,
    split_number,
    with_number,
)
from holdfast.net.handshake import HOST_ADMITS

ANY_PORT = Address("127.0.0.1", 0)
BUSY = OrderRefused(code=STARTING, text="host1 is still starting", is_final=False)
NOTHING = GroupList(groups=())
LIST = ListGroups()


class Host:
    """Gives every order the same answer; None means no answer."""

    def __init__(self, answer: OrderAnswer | None) -> None:
        self._answer = answer
        self.asked = 0

    def on_frame(self, connection: Connection, kind: Kind, payload: bytes) -> None:
        self.asked += 1
        number, _ = split_number(payload)
        if self._answer is None:
            return
        connection.send(Kind.GROUP_ANSWER, with_number(number, encode_order(self._answer)))

    def on_closed(self, connection: Connection, reason: Reason) -> None:
        return None

    async def listen(self) -> Server:
        return await serve(
            ANY_PORT,
            lambda _: self,
            ConnectionSettings(PeerIdentity("d", Role.HOST, "h"), credentials=secret_of("d")),
            admits=HOST_ADMITS,
        )


async def ordered(*hosts: Host, wanted: AboutGroups = LIST) -> object:
    servers = [await host.listen() for host in hosts]
    try:
        endpoint = ConnectionSettings(PeerIdentity("d", Role.ADMIN, "test"), credentials=secret_of("d"))
        return await order([server.address for server in servers], endpoint, wanted)
    finally:
        for server in servers:
            await server.close()


def test_a_host_that_is_still_starting_is_passed_over() -> None:
    """The first host refused at once and did nothing: the next one executes the order."""
    starting, ready = Host(BUSY), Host(NOTHING)
    assert asyncio.run(ordered(starting, ready)) == ()
    assert (starting.asked, ready.asked) == (1, 1)


@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        (CreateGroup(name="", class_name="a:B"), "name: Expected `str` of length >= 1"),
        (CreateGroup(name="x", class_name="a:B", replicas=-1), "replicas: Expected `int` >= 0"),
        (CreateGroup(name="x", class_name="a:B", replicas=1 << 70), "can't serialize ints"),
        (CreateGroup(name="half \ud800", class_name="a:B"), "surrogates not allowed"),
        (DeleteGroup(name="x" * 101), "name: Expected `str` of length <= 100"),
    ],
)
def test_an_order_that_no_host_could_read_is_not_sent(wanted: AboutGroups, said: str) -> None:
    """Sending the order would cost the connection, and nobody could say whether it was carried out."""
    host = Host(NOTHING)
    with pytest.raises(InvalidRequest, match=said):
        asyncio.run(ordered(host, wanted=wanted))
    assert host.asked == 0


def test_when_all_hosts_are_starting_that_is_what_is_said() -> None:
    with pytest.raises(Unavailable, match="host1 is still starting"):
        asyncio.run(ordered(Host(BUSY), Host(BUSY)))


def test_a_question_that_a_host_does_not_answer_is_asked_of_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    """The host may be cut off from the authority. An order that changes something is not repeated."""
    monkeypatch.setattr(admin_client, "ASK_S", 0.05)
    silent, ready = Host(None), Host(NOTHING)
    assert asyncio.run(ordered(silent, ready)) == ()
    monkeypatch.setattr(admin_client, "ORDER_S", 0.05)
    with pytest.raises(OutcomeUnknown):
        asyncio.run(ordered(silent, ready, wanted=DeleteGroup(name="ledger")))
    assert (silent.asked, ready.asked) == (2, 1)


class Dying(Host):
    """Ends the connection as soon as it is asked."""

    def on_frame(self, connection: Connection, kind: Kind, payload: bytes) -> None:
        self.asked += 1
        connection.close()


@pytest.mark.parametrize(
    ("wanted", "helps"),
    [(LIST, "ask again"), (DeleteGroup(name="g"), "may have been done; look before you order it again")],
)
def test_a_host_that_ends_as_it_is_asked_is_told_in_words_of_who_asked(
    wanted: AboutGroups, helps: str
) -> None:
    """The message does not mention the names of frames."""
    with pytest.raises(OutcomeUnknown) as caught:
        asyncio.run(ordered(Dying(None), wanted=wanted))
    said = str(caught.value)
    assert "ended before it answered" in said
    assert said.endswith(helps)
    assert "GROUP_ORDER" not in said
