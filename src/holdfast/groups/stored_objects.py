"""The stored objects of one host: which groups have one, and how states with files are received (W7, W8)."""

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from typing import Final

from holdfast.authority.groups import DISK, GroupRecord
from holdfast.execution.definition import Definition
from holdfast.execution.saved_state import is_of_files
from holdfast.execution.stored import Stored
from holdfast.groups.ports import FilesPort, Journal
from holdfast.groups.stored_object import StoredObject
from holdfast.model.errors import HoldfastError, InvalidRequest
from holdfast.model.ids import GroupId, HostId
from holdfast.model.ports import Clock
from holdfast.model.properties import Style
from holdfast.sequence.ports import Kept, Received
from holdfast.styles.by_name import style_named

RECEIVED_BYTES_MAX: Final = 256 << 20
"""The largest checkpoint of a stored object that is taken: replies, timers and a manifest."""


class StoredObjects:
    """The stored objects of one host."""

    def __init__(
        self,
        files: FilesPort | None,
        clock: Clock,
        journal: Journal,
        soon: Callable[[Callable[[], None]], None],
        others: Callable[[GroupId], Iterable[HostId]],
        on_damage: Callable[[GroupId, str], None],
    ) -> None:
        """*others* are the other hosts that a group has members on. *on_damage* is told of a group whose
        files are damaged, and how."""
        self._others = others
        self._files = files
        self._clock = clock
        self._journal = journal
        self._soon = soon
        self._on_damage = on_damage
        self._objects: dict[GroupId, StoredObject] = {}

    def of(self, group: GroupId) -> StoredObject | None:
        return self._objects.get(group)

    def furnish(self, record: GroupRecord, definition: Definition) -> Definition:
        """Give the object of a stored class its files. Raises ``InvalidRequest`` for a group that cannot have
        any."""
        if not definition.is_stored:
            return definition
        check_may_be_stored(record)
        if self._files is None:
            raise InvalidRequest("this host keeps no files of objects")
        schema = definition.cls.schema if issubclass(definition.cls, Stored) else ""
        group = record.group
        damaged = partial(self._on_damage, group)
        known = self._objects.pop(group, None)
        if known is not None:
            known.close()
        stored = StoredObject(group, schema, self._files, self._clock, self._soon, damaged)
        self._objects[group] = stored
        return replace(definition, files=stored)

    def offers(self, group: GroupId, kept: Kept | None) -> bool:
        stored = self._objects.get(group)
        return stored is None or stored.offers(kept)

    def for_others(self, group: GroupId, kept: Kept | None) -> Kept | None:
        stored = self._objects.get(group)
        return stored.for_others(kept) if stored is not None else kept

    def receiving(self, group: GroupId, received: Received) -> Received:
        """Receive a state, and the files that it stands on, if it is of a stored object."""
        return FilesReceiver(received, partial(self._fetch, group))

    def _fetch(self, group: GroupId, state: bytes, then: Callable[[HoldfastError | None], None]) -> None:
        stored = self._objects.get(group)
        if stored is None:
            then(InvalidRequest("the class of its object is not here, which says what its files are"))
            return

        def ended(error: HoldfastError | None) -> None:
            if error is not None:
                self._journal.warning("files of an object were not fetched", group=group, why=str(error))
            then(error)

        stored.fetch(state, list(self._others(group)), ended)

    def close(self, group: GroupId) -> None:
        stored = self._objects.pop(group, None)
        if stored is not None:
            stored.close()

    def forget(self, group: GroupId) -> None:
        stored = self._objects.get(group)
        if stored is not None:
            stored.forget()


def check_may_be_stored(record: GroupRecord) -> None:
    """Raise ``InvalidRequest`` unless every member of the group executes what is final, on disk: a database
    is never taken back, and survives its process."""
    if style_named(record.style) is not Style.ACTIVE or record.durability != DISK:
        said = f"not {record.style} with durability {record.durability}"
        raise InvalidRequest(f"a group of a stored class is active, with durability disk; {said}")


class FilesReceiver:
    """Receives a state (:class:`holdfast.sequence.ports.Received`); one whose object is in files counts when
    they are here, too (W8). *Without it:* C is sent a checkpoint, acknowledges all that follows, and is
    listed; A and B burn; C has a manifest, and nothing that it names."""

    def __init__(
        self,
        received: Received,
        fetch: Callable[[bytes, Callable[[HoldfastError | None], None]], None],
    ) -> None:
        self._received = received
        self._fetch = fetch
        self._state: bytearray | None = None
        self._is_begun = False

    @property
    def unsynced_bytes(self) -> int:
        return self._received.unsynced_bytes

    def when_synced(self, then: Callable[[], None]) -> None:
        self._received.when_synced(then)

    def write(self, data: bytes) -> None:
        if not self._is_begun:
            self._is_begun = True
            self._state = bytearray() if is_of_files(data) else None
        if self._state is not None:
            self._state += data[: RECEIVED_BYTES_MAX - len(self._state)]
        self._received.write(data)

    def finish(self, then: Callable[[Kept], None], failed: Callable[[], None]) -> None:
        if self._state is None:
            self._received.finish(then, failed)
            return

        def fetched(error: HoldfastError | None) -> None:
            if error is None:
                self._received.finish(then, failed)
            else:
                self._received.abandon()
                failed()

        self._fetch(bytes(self._state), fetched)

    def abandon(self) -> None:
        self._received.abandon()
