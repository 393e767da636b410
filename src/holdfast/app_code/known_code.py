"""The code of this host's group classes: stored before a member runs, and announced to other hosts (E7).

:class:`KnownCode` does this for one host. The functions say which hosts have which code of a group.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from itertools import islice
from typing import Final

import msgspec
import structlog

from holdfast.app_code.copies import CODE, SPARE_MAX, CodeCopies
from holdfast.app_code.finder import BadClass
from holdfast.app_code.loader import definition_of, load_code
from holdfast.authority.groups import GroupRecord
from holdfast.authority.sessions import Session
from holdfast.execution.definition import Definition
from holdfast.execution.saved_state import head_of
from holdfast.model.admin.groups import GroupInfo
from holdfast.model.admin.upgrades import CodeInfo
from holdfast.model.code import UNKNOWN, Code
from holdfast.model.errors import HoldfastError
from holdfast.model.ids import GroupId, HostId
from holdfast.sequence.ports import Kept, chunks_of
from holdfast.storage.volume import translated


def codes_of(record: GroupRecord, sessions: Mapping[HostId, Session]) -> dict[HostId, CodeInfo]:
    """The code of the group's class on each host that is to have a member, as announced so far."""
    found = {}
    for host in record.placed_on:
        code = sessions[host].codes.get(record.class_name) if host in sessions else None
        if code is not None:
            found[host] = CodeInfo.of(code)
    return found


def other_code(
    records: Mapping[GroupId, GroupRecord], codes: Mapping[str, Code], host: HostId
) -> Iterator[GroupRecord]:
    """The groups with a member on *host* that are served by other code than *host* has (*codes*)."""
    for record in records.values():
        here = codes.get(record.class_name)
        if here is None or here.is_same(record.code) or record.code == UNKNOWN:
            continue
        if host in record.placed_on:
            yield record


def code_says(info: GroupInfo) -> Iterator[str]:
    """Messages about a group whose hosts do not all have its code, also while no host serves the group."""
    own = info.code.code if info.code is not None else None
    if info.upgrade is not None:
        yield f"{info.upgrade.code} is wished for" + (f"; the group's code is {own}" if own else "")
    if own is None:
        return
    for host, code in info.codes.items():
        if not code.code.is_same(own):
            again = f" (both call themselves {own.version!r})" if code.version == own.version != "" else ""
            yield f"{host} has code {code.code}; the group's is {own}{again}"


ANNOUNCED_MAX: Final = 1_000
"""The most classes that a host announces: its session is one value at the authority."""
REPORTED_MAX: Final = 100
"""The most groups that one report considers."""
OTHER_CODE: Final = "other_code"
"""The kind of fault of a host whose class differs from the one that serves its group."""

log = structlog.get_logger("holdfast.codes")


class KnownCode:
    """The class code of one host.

    *announce* tells the other hosts, *fail* reports a failed disk (D1), *on_fault* reports classes that
    changed while their version did not.
    """

    def __init__(
        self,
        host: HostId,
        copies: CodeCopies,
        *,
        announce: Callable[[Mapping[str, Code]], None],
        fail: Callable[[HoldfastError], None],
        on_fault: Callable[[GroupId, str, str], None],
    ) -> None:
        self.host = host
        self._copies = copies
        self._announce = announce
        self._fail = fail
        self._on_fault = on_fault
        self.codes: dict[str, Code] = {}
        """The code of the classes of groups defined here, by class name."""
        self._seen: dict[GroupId, str] = {}
        self._told: dict[GroupId, str] = {}

    def define(self, record: GroupRecord) -> Definition:
        """Return what :func:`.loader.definition_of` returns, and raise as it does.

        The class's sources are stored first, so that no record it makes can be acknowledged before.
        """
        definition = definition_of(record, self.host)
        name = record.class_name
        if name not in self.codes:
            self._keep(name)
            if len(self.codes) < ANNOUNCED_MAX:
                self.codes[name] = definition.code
                self._announce(self.codes)
        if is_changed_under(record.code, definition.code):
            said = f"{name} is another than before, and its version is still {record.code.version!r}"
            log.warning(said, group=record.group, was=record.code.digest, now=definition.code.digest)
            self._on_fault(record.group, OTHER_CODE, said)
        return definition

    def look(self, records: Mapping[GroupId, GroupRecord]) -> None:
        """Report groups that are served by other code than this host has.

        A group is reported only if that was so at the last look as well: it is so for a short time during
        every upgrade.
        """
        seen = {}
        for record in islice(other_code(records, self.codes, self.host), REPORTED_MAX):
            here = self.codes[record.class_name]
            seen[record.group] = f"the code of {record.name} is {record.code}; {self.host} has {here}"
        for group, said in seen.items():
            if self._seen.get(group) == said and self._told.get(group) != said:
                self._told[group] = said
                self._on_fault(group, OTHER_CODE, said)
        self._told = {group: said for group, said in self._told.items() if group in seen}
        self._seen = seen

    def prune(
        self, records: Mapping[GroupId, GroupRecord], kept: Callable[[GroupRecord], Kept | None]
    ) -> None:
        """Remove copies that no group needs, except the last few (:data:`.copies.SPARE_MAX`).

        *kept* returns the newest checkpoint of a group here. What follows the checkpoint was made by the
        checkpoint's code, or by code that was here since, which is among the last few.
        """
        if len(self._copies.listed()) <= SPARE_MAX:
            return
        needed = {each.digest for each in self.codes.values()}
        for record in records.values():
            needed.add(record.code.digest)
            if self.host in record.placed_on and record.class_name in self.codes:
                needed.update(_code_of(kept(record)))
        try:
            for digest in self._copies.prune(needed):
                log.info("a copy of older code is let go", digest=digest)
        except OSError as error:
            log.warning("copies of older code could not be let go", why=str(error))

    def _keep(self, name: str) -> None:
        found = load_code(name)[1]
        try:
            if self._copies.keep(found):
                log.info("code is kept", name=name, code=str(found.code), modules=len(found.modules))
        except OSError as error:
            # Code that is not stored could not be replayed: as bad as a log that cannot be written.
            failure = translated(error, CODE)
            self._fail(failure)
            raise BadClass(f"the sources of {name} could not be kept: {failure}") from None


def _code_of(kept: Kept | None) -> Iterator[str]:
    """The digest of the code that made a checkpoint; nothing when it cannot be read."""
    with suppress(HoldfastError, msgspec.DecodeError):
        if kept is not None and kept.size:
            yield head_of(chunks_of(kept)).code.digest


def is_changed_under(was: Code, now: Code) -> bool:
    """Whether the class changed although its declared version is the same."""
    return bool(was.version) and was.version == now.version and not was.is_same(now)
