"""What is said of the code of a group: who has which (E7)."""

from collections.abc import Iterator, Mapping

from holdfast.authority.groups import GroupRecord
from holdfast.authority.sessions import Session
from holdfast.model.code import UNKNOWN, Code
from holdfast.model.code_orders import CodeInfo
from holdfast.model.ids import GroupId, HostId
from holdfast.model.orders import GroupInfo


def codes_of(record: GroupRecord, sessions: Mapping[HostId, Session]) -> dict[HostId, CodeInfo]:
    """The group's class as the hosts have it that shall have members, as far as they have told."""
    found = {}
    for host in record.placed_on:
        code = sessions[host].codes.get(record.class_name) if host in sessions else None
        if code is not None:
            found[host] = CodeInfo.of(code)
    return found


def other_code(
    records: Mapping[GroupId, GroupRecord], codes: Mapping[str, Code], host: HostId
) -> Iterator[GroupRecord]:
    """Of the groups with a member on *host*, where their classes are *codes*: those that are served by
    others."""
    for record in records.values():
        here = codes.get(record.class_name)
        if here is None or here.is_same(record.code) or record.code == UNKNOWN:
            continue
        if host in record.placed_on:
            yield record


def code_says(info: GroupInfo) -> Iterator[str]:
    """What there is to say of a group whose hosts do not all have the code it is served by."""
    served = info.code.code if info.code is not None else None
    if info.upgrade is not None:
        wished = info.upgrade.code
        yield f"{wished} is wished for" + (f"; it was last served by {served}" if served is not None else "")
    if served is None:
        return
    for host, code in info.codes.items():
        if not code.code.is_same(served):
            again = (
                f" (both call themselves {served.version!r})" if code.version == served.version != "" else ""
            )
            yield f"{host} has code {code.code}; the group is served by {served}{again}"
