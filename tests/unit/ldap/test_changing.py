"""When a change is answered: on one disk, or on two (``acknowledge=2``)."""

from collections.abc import Callable

import pytest
from directory_replica import SUFFIX, person
from ldap_session import Client, Door

from holdfast.clock.vector import Vector
from holdfast.directory.replication.acknowledging import Acknowledgements
from holdfast.directory.results import ResultCode
from holdfast.ldap.controls import ACKNOWLEDGE
from holdfast.ldap.messages import Control, Result
from holdfast.model.csn import Csn
from holdfast.model.errors import HoldfastError
from holdfast.model.ids import SECOND

ONE, TWO = Control(ACKNOWLEDGE, True, b"1"), Control(ACKNOWLEDGE, True, b"2")


class Other:
    """Another store, which confirms when the test says so."""

    def __init__(self, *, is_asked: bool = False, most: int = 10) -> None:
        self.is_asked = is_asked
        self.acknowledgements = Acknowledgements(wait_ns=2 * SECOND, waiting_max=most)
        self.newest: Csn | None = None

    def check_room(self) -> None:
        self.acknowledgements.check_room()

    def wait(self, csn: Csn, answer: Callable[[HoldfastError | None], None]) -> None:
        self.newest = csn
        self.acknowledgements.wait(csn, 0, answer)

    def confirm(self) -> None:
        assert self.newest is not None
        self.acknowledgements.on_second_store(Vector.of("g", [self.newest]))


def bound(door: Door) -> Client:
    client = door.client()
    client.bind()
    return client


def results(client: Client) -> list[Result]:
    return [each.operation.result for each in client.answers()]  # type: ignore[union-attr]


def test_a_change_waits_for_the_second_store_that_its_client_asks_for() -> None:
    """It is answered when another store has it, and not when it is on this disk."""
    other = Other()
    door = Door(second_store=other)
    client = bound(door)
    client.send(person("ada"), TWO)
    door.settle()
    assert results(client) == []
    other.confirm()
    assert [each.code for each in results(client)] == [ResultCode.SUCCESS]
    assert [each.code for each in (client.result(person("bob")).result,)] == [ResultCode.SUCCESS]


def test_a_change_that_nobody_confirms_is_committed_here_only() -> None:
    """The client gets an error that says exactly that, once; the entry is there."""
    other = Other()
    door = Door(second_store=other)
    client = bound(door)
    client.send(person("ada"), TWO)
    door.settle()
    other.acknowledgements.on_time(2 * SECOND)
    (result,) = results(client)
    assert result.code == ResultCode.OTHER
    assert result.diagnostic.startswith("committed here only: ")
    other.confirm()
    assert results(client) == []
    assert client.result(person("ada")).result.code == ResultCode.ENTRY_ALREADY_EXISTS


def test_a_directory_may_ask_for_two_stores_of_every_change() -> None:
    """Then a client that can do without says so."""
    other = Other(is_asked=True)
    door = Door(second_store=other)
    client = bound(door)
    client.send(person("ada"))
    door.settle()
    assert results(client) == []
    assert client.result(person("bob"), ONE).result.code == ResultCode.SUCCESS
    other.confirm()
    assert [each.code for each in results(client)] == [ResultCode.SUCCESS]


def test_what_could_not_wait_is_not_begun() -> None:
    other = Other(most=1)
    door = Door(second_store=other)
    client = bound(door)
    client.send(person("ada"), TWO)
    door.settle()
    assert client.result(person("bob"), TWO).result.code == ResultCode.BUSY
    door.settle()
    assert client.result(person("bob")).result.code == ResultCode.SUCCESS


@pytest.mark.parametrize(
    ("control", "code"),
    [
        (TWO, ResultCode.UNWILLING_TO_PERFORM),
        (Control(ACKNOWLEDGE, True, b"3"), ResultCode.PROTOCOL_ERROR),
        (Control(ACKNOWLEDGE, True, None), ResultCode.PROTOCOL_ERROR),
        (ONE, ResultCode.SUCCESS),
    ],
)
def test_one_master_alone_has_no_second_store(control: Control, code: ResultCode) -> None:
    door = Door()
    assert bound(door).result(person("ada"), control).result.code == code
    assert SUFFIX in person("ada").dn
