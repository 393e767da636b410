"""Whether a group may go on with other code than it was served by: a decision about values (E7).

A host that was restarted with new code must not take a group along that the others still serve with the old
one: they could not follow, and if it was a mistake it would be everybody's. It may when a person says so, or
when the old code is gone: nobody who is placed has it any more, and most have the new one.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from holdfast.authority.groups import GroupRecord
from holdfast.authority.sessions import Session
from holdfast.model.code import UNKNOWN, Code
from holdfast.model.ids import HostId

NAMED_MAX: Final = 3
"""So many hosts are named, of those that have other code; the rest are counted."""


def why_not_upgrade(
    record: GroupRecord, made_by: Code, here: Code, sessions: Mapping[HostId, Session]
) -> str:
    """Why a primary whose class is *here* waits, where the group's code is *made_by*; empty: it may go on."""
    if made_by.is_same(here):
        return ""
    if record.upgrade is not None and record.upgrade.code.is_same(here):
        return ""
    placed = record.placed_on
    codes = {
        host: sessions[host].codes.get(record.class_name, UNKNOWN) for host in placed if host in sessions
    }
    with_old = [host for host, code in codes.items() if code.is_same(made_by)]
    if with_old:
        return f"{_hosts(with_old)} {_have(with_old)} {made_by}; here is {here}"
    with_new = [host for host, code in codes.items() if code.is_same(here)]
    if 2 * len(with_new) <= len(placed):
        return (
            f"the group was served by {made_by}; here is {here}, as on {len(with_new)} of {len(placed)} hosts"
        )
    return ""


def may_replay(record: GroupRecord, here: Code) -> bool:
    """Whether a person has ordered that the class as it is here replay what other code made."""
    return record.upgrade is not None and record.upgrade.replays and record.upgrade.code.is_same(here)


def _hosts(hosts: Iterable[HostId]) -> str:
    names = sorted(hosts)
    if len(names) > NAMED_MAX:
        return f"{', '.join(names[:NAMED_MAX])} and {len(names) - NAMED_MAX} more"
    return " and ".join(", ".join(names).rsplit(", ", 1))


def _have(hosts: list[HostId]) -> str:
    return "has" if len(hosts) == 1 else "have"
