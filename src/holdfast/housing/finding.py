"""Finding a group at the authority: one may be so new that its record is still on its way to this host."""

from holdfast.authority.groups import GroupRecord, NoSuchName, find_group, read_group
from holdfast.authority.outcome import NoAnswer, Seen
from holdfast.authority.recipe import Recipe
from holdfast.authority.views import NoGroup, View, read_view
from holdfast.model.ids import GroupId

Found = tuple[GroupRecord, View] | GroupRecord | NoSuchName | NoGroup | NoAnswer
"""A record alone: the group is there, and has no members yet."""


def found_at_authority(name: str, group: GroupId) -> Recipe[Found]:
    """What the authority knows of the group of that *name*; or, without one, of that number."""
    record = yield from (find_group(name) if name else read_group(group))
    if not isinstance(record, Seen):
        return record
    view = yield from read_view(record.value.group)
    if isinstance(view, NoGroup) and not record.value.is_begun:
        return record.value
    return (record.value, view.value) if isinstance(view, Seen) else view
