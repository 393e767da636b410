"""Where annexes of groups are entered."""

from annex_notes import Notes

from holdfast.app_code.annex_table import annexes_of
from holdfast.authority.groups import GroupRecord
from holdfast.model.ids import GroupId, Nonce

RECORD = GroupRecord(group=GroupId(1), class_name="c", style="active", members=(), nonce=Nonce("n"))


def test_a_group_has_the_annexes_that_are_made_for_it_and_no_others() -> None:
    found = annexes_of(RECORD, (lambda record: Notes(), lambda record: None))
    assert [each.name for each in found] == ["notes"]


def test_no_group_has_one_before_a_package_enters_it() -> None:
    assert annexes_of(RECORD) == ()
