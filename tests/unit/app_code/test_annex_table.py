"""Where annexes of groups are entered."""

from annex_notes import Notes
from msgspec.structs import replace

from holdfast.app_code.annex_table import annexes_of
from holdfast.authority.groups import GroupRecord
from holdfast.model.ids import GroupId, Nonce
from holdfast.streams.message import StreamMessage

RECORD = GroupRecord(group=GroupId(1), class_name="c", style="active", members=(), nonce=Nonce("n"))


def test_a_group_has_the_annexes_that_are_made_for_it_and_no_others() -> None:
    found = annexes_of(RECORD, object, (lambda record, cls: Notes(), lambda record, cls: None))
    assert [each.name for each in found] == ["notes"]


class Book:
    def on_message(self, message: StreamMessage) -> None: ...


class Namesake:
    def on_message(self, message: str) -> None: ...


def test_an_active_group_has_streams_if_its_class_takes_messages_of_streams() -> None:
    assert [each.name for each in annexes_of(RECORD, Book)] == ["streams"]
    assert annexes_of(RECORD, Namesake) == ()
    assert annexes_of(replace(RECORD, style="warm_passive"), Book) == ()
