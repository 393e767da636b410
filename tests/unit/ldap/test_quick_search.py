"""Searches answered at one go: the same bytes as by the usual way, for anything that anyone may send."""

import random

import pytest
from directory_replica import modify, person, rename
from ldap_session import Client, Door, Wire
from ldap_twins import EVERYTHING, HIDDEN, MANAGED, NOT_PLAIN, PEOPLE, PLAIN, Twins, search

from holdfast.directory.operations import AddRequest, Attribute, SearchRequest
from holdfast.ldap.encoding import encode, operation_bytes
from holdfast.ldap.messages import SUCCESS, Message, SearchResultDone, SearchResultEntry
from holdfast.ldap.quick_search import QuickSearches
from holdfast.ldap.session import WRITE_BYTES, Session

CHANGED = 400
_DONE = operation_bytes(SearchResultDone(SUCCESS))


@pytest.fixture(scope="module")
def twins() -> Twins:
    return Twins()


@pytest.mark.parametrize("request_", PLAIN)
@pytest.mark.parametrize("is_bound", [False, True])
def test_plain_searches_are_answered_at_one_go(twins: Twins, request_: SearchRequest, is_bound: bool) -> None:
    """The second time, too: then the form is known."""
    data = encode(Message(7, request_)) + encode(Message(8, request_))
    quick, usual, answered = twins.answers(data, is_bound=is_bound)
    assert quick == usual
    assert answered == 2


@pytest.mark.parametrize("request_", [*NOT_PLAIN, *HIDDEN])
def test_what_is_not_plain_takes_the_usual_way(twins: Twins, request_: SearchRequest) -> None:
    quick, usual, answered = twins.answers(encode(Message(7, request_)))
    assert quick == usual != b""
    assert answered == 0


def test_administrators_see_what_is_theirs(twins: Twins) -> None:
    """What is hidden from strangers is plain for those who may see it, and so are their attributes."""
    for request_ in (*HIDDEN, search("(uid=ada)", attributes=("lastModifiedCSN",))):
        quick, usual, answered = twins.answers(encode(Message(7, request_)), is_bound=True)
        assert (quick, answered) == (usual, 1)
    assert b"lastModifiedCSN" in quick


def test_controls_are_never_passed_over(twins: Twins) -> None:
    quick, usual, answered = twins.answers(MANAGED)
    assert (quick, answered) == (usual, 0)


def test_a_number_that_is_under_way_is_noticed() -> None:
    """The usual way ends the connection, whatever the search is."""
    door = Door()
    client = door.client()
    client.bind()
    client.send(person("a"), number=9)
    client.send(search("(uid=a)"), number=9)
    assert client.wire.is_closed


def test_any_bytes_are_answered_alike(twins: Twins) -> None:
    """Cut, joined and changed messages, after the forms of the sound ones are known."""
    dice = random.Random("quick searches")
    sound = b"".join(EVERYTHING)
    for _ in range(CHANGED):
        made = bytearray(dice.choice(EVERYTHING))
        for _ in range(dice.randint(1, 3)):
            at = dice.randrange(len(made))
            made[at : at + dice.randint(0, 2)] = dice.choice(
                (b"", bytes([dice.randrange(256)]), made[at : at + 4])
            )
        data = dice.choice((b"", PLAIN_BYTES)) + bytes(made) + dice.choice((b"", sound[:200]))
        quick, usual, _ = twins.answers(data)
        assert quick == usual, data.hex()


PLAIN_BYTES = b"".join(encode(Message(number, each)) for number, each in enumerate(PLAIN, start=100))


def test_every_change_of_one_byte_is_answered_alike(twins: Twins) -> None:
    """Of a search whose form is known: lengths, tags, numbers, all that the form does not hold."""
    known = encode(Message(7, search("(uid=ada)", attributes=("cn",))))
    for at in range(len(known)):
        for other in (0, 1, 4, 0x7F, 0x80, 0x81, 0xA3, 0xFF, known[at] ^ 1):
            data = known + known[:at] + bytes([other]) + known[at + 1 :]
            quick, usual, _ = twins.answers(data)
            assert quick == usual, (at, other)


def test_a_commit_is_seen_by_the_next_search() -> None:
    door = Door()
    client = door.client()
    client.bind()

    def shown() -> list[str]:
        found = [each.operation for each in client.ask(search("(uid=a)"))]
        return [each.dn for each in found if isinstance(each, SearchResultEntry)]

    assert shown() == []
    door.master.do(person("a"))
    assert shown() == [f"uid=a,{PEOPLE}"]
    door.master.do(modify(f"uid=a,{PEOPLE}", ("add", "uid", "b")))
    door.master.do(rename(f"uid=a,{PEOPLE}", "uid=b"))
    assert shown() == []


def test_of_an_answered_entry_its_bytes_are_kept_and_no_more() -> None:
    """A large directory is answered from what little memory an answer takes."""
    door = Door()
    client = door.client()
    client.bind()
    for each in ("a", "b"):
        client.ask(person(each))
    cache = door.master.replica.cache
    kept = len(cache.views)
    for _ in range(2):
        assert len(client.ask(search("(uid=b)", base=PEOPLE))) == 2
    assert len(cache.views) == kept
    assert [len(each.encoded) for each in cache.faces.values() if each.encoded] == [1]
    assert all(each.view is None for each in cache.faces.values())
    client.ask(modify(f"uid=b,{PEOPLE}", ("replace", "description", "changed")))
    assert not any(each.encoded for each in cache.faces.values())


def test_no_snapshot_is_held_between_turns() -> None:
    """A snapshot that stays open makes the store keep what changes replace."""
    door = Door()
    client = door.client()
    client.send(search("(uid=a)"))
    client.send(search("(uid=a)"))
    image = door.master.image
    before = image.maps
    door.master.do(person("a"))
    assert image.maps is before, "nobody reads, so nothing is copied"


def test_forms_are_bounded() -> None:
    door = Door()
    quick = QuickSearches(door.service, forms_max=3)
    client = Client(door, quick=quick)
    for number in range(10):
        client.send(search("(uid=a)", attributes=(f"a{number}",)))
        assert quick.forms <= 3
    assert quick.forms == 1


class SlowWire(Wire):
    """A client that does not read: each write is the last until it does."""

    session: Session

    def write(self, data: bytes) -> None:
        super().write(data)
        self.session.is_paused = True


def test_what_a_client_does_not_read_is_not_looked_for() -> None:
    """However many searches arrive together, the answers of a few wait, and the rest of the searches do."""
    door = Door()
    large = person("large")
    photo = Attribute("jpegPhoto", (b"\xff\xd8" + b"x" * 50_000,))
    door.master.do(AddRequest(large.dn, (*large.attributes, photo)))
    wire = SlowWire()
    wire.session = session = Session(door.service, wire)
    session.receive(b"".join(encode(Message(number, search("(uid=large)"))) for number in range(1, 1001)))
    assert 0 < len(wire.written) < 2 * WRITE_BYTES
    assert not session.wants_input
    turns = 0
    while session.is_paused:
        session.is_paused = False
        session.work()
        turns += 1
    assert turns > 100
    assert wire.written.count(_DONE) == 1_000
