"""Decides whether a group may continue with other code than it was served by (E7). These are pure functions
of values.

A host restarted with new code must not switch a group to it while the other hosts still serve the old code:
they could not follow, and a mistake would spread to all of them. It may switch when a person says so, or when
the old code is gone: no host the group is placed on has it any more, and most have the new code.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from holdfast.authority.groups import GroupRecord, UpgradeWish
from holdfast.authority.sessions import Session
from holdfast.model.code import UNKNOWN, Code
from holdfast.model.ids import GroupId, HostId

NAMED_MAX: Final = 3
"""How many of the hosts with other code are named in a message; the rest are counted."""


def why_not_upgrade(
    record: GroupRecord, made_by: Code, here: Code, sessions: Mapping[HostId, Session]
) -> str:
    """Return why a primary with code *here* must wait when the group's code is *made_by*; empty if it may go
    on."""
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


class Wishes:
    """Tracks which requested upgrades are over: every host that had the requested code has other code again,
    so the request is withdrawn. *Without it:* the old code is put back, and a host that gets the new code
    months later by mistake switches the group to it.

    An upgrade may be requested before any host has the code. So it is over only if a host had the code, or
    the request already existed when this member started serving, and every host that the group is placed on
    reports other code.
    """

    def __init__(self) -> None:
        self._begun: dict[GroupId, UpgradeWish] = {}

    def on_served(self, record: GroupRecord) -> None:
        """Note that this member takes calls while an upgrade to other code is requested."""
        if record.upgrade is not None:
            self._begun[record.group] = record.upgrade

    def forget(self, group: GroupId) -> None:
        self._begun.pop(group, None)

    def is_over(self, record: GroupRecord, here: Code, sessions: Mapping[HostId, Session]) -> bool:
        """Whether the requested upgrade is over, as seen by the host that serves the group with the code
        *here*."""
        wish = record.upgrade
        if wish is None or wish.code.is_same(here):
            self._begun.pop(record.group, None)
            return False
        told = [sessions[host].codes.get(record.class_name) for host in record.placed_on if host in sessions]
        if any(each is not None and each.is_same(wish.code) for each in told):
            self._begun[record.group] = wish
            return False
        is_told = len(told) == len(record.placed_on) and None not in told
        return is_told and self._begun.get(record.group) == wish


def may_replay(record: GroupRecord, here: Code) -> bool:
    """Whether a person has ordered that the class on this host replays the records that other code made."""
    return record.upgrade is not None and record.upgrade.replays and record.upgrade.code.is_same(here)


def _hosts(hosts: Iterable[HostId]) -> str:
    names = sorted(hosts)
    if len(names) > NAMED_MAX:
        return f"{', '.join(names[:NAMED_MAX])} and {len(names) - NAMED_MAX} more"
    return " and ".join(", ".join(names).rsplit(", ", 1))


def _have(hosts: list[HostId]) -> str:
    return "has" if len(hosts) == 1 else "have"
