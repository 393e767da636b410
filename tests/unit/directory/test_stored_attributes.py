"""Entries that were read from the store: attributes are decoded when they are asked for, and not before."""

import pytest
from directory_world import ANN, Master, base, value
from msgspec import DecodeError, Raw
from msgspec.msgpack import Encoder

from holdfast.directory.entry import EntryState, decoded_entry, encoded_entry, glanced_entry
from holdfast.directory.primitives import Primitive
from holdfast.directory.resolving import resolve
from holdfast.directory.stored_attributes import StoredAttributes

encoder = Encoder()


def ann() -> tuple[Master, EntryState]:
    a = Master(1)
    a.issue(base)
    for word in ("title", "description", "mail"):
        a.issue(lambda ask, word=word: ask.replace(ANN, word, [value("z"), value("a")]))
    return a, a.state.entries[ANN]


def changes(a: Master) -> list[Primitive]:
    issued = a.issue(lambda ask: ask.replace(ANN, "mail", [value("c"), value("b")]))
    return [*issued.changes, *a.issue(lambda ask: ask.remove_attribute(ANN, "title")).changes]


def test_changes_come_to_the_same_as_of_an_entry_that_is_decoded_whole() -> None:
    """The same state, and the same bytes, after each change."""
    a, entry = ann()
    row = encoded_entry(entry)
    whole, glanced = decoded_entry(row), glanced_entry(row)
    assert encoded_entry(glanced) == row
    for each in changes(a):
        whole, glanced = resolve(whole, each), resolve(glanced, each)
        assert isinstance(glanced.attributes, StoredAttributes)
        assert glanced == whole
        assert encoded_entry(glanced) == encoded_entry(whole)
    assert encoded_entry(glanced) != row
    assert glanced.bytes_most() >= sum(
        len(each.content) for values in glanced.values().values() for each in values
    )


def test_only_what_changed_differs() -> None:
    """Also when somebody has looked at the other attributes of one of the two meanwhile."""
    a, entry = ann()
    before = glanced_entry(encoded_entry(entry))
    after = before
    for each in changes(a):
        after = resolve(after, each)
    assert before.values()["description"]
    assert after.changed_words(before) == {"mail": None, "title": None}
    assert before.changed_words(before) == {}


def test_what_nobody_asks_for_is_not_decoded() -> None:
    """Bytes that cannot be read harm nobody who does not ask for them, and are written back as they are."""
    _, entry = ann()
    good = StoredAttributes.read(
        {"mail": Raw(encoder.encode(entry.attributes["mail"])), "title": Raw(b"\xc1")}
    )
    changed = good.replaced("description", entry.attributes["description"])
    assert changed["mail"] == entry.attributes["mail"]
    assert changed.get("nosuch") is None
    assert list(changed) == ["mail", "title", "description"]
    assert changed.raws()["title"] == Raw(b"\xc1")
    with pytest.raises(DecodeError):
        changed.get("title")
