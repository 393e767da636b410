"""What the domain knows of a stream: to which group it is bound, its number on the wire, and the keys of its
sources.

Numbers come from a counter and are never used again, so that a source that was forgotten somewhere cannot
feed another stream. A record also has the highest incarnation that was given to a source: each life of a
source gets a higher one, whatever its clock says.
"""

from collections.abc import Callable
from typing import Final

import msgspec

from holdfast.authority import keys
from holdfast.authority.contract import Applied, Delete
from holdfast.authority.recipe import (
    ATTEMPTS_MAX,
    Contended,
    Guard,
    InDoubt,
    Listing,
    Recipe,
    Seen,
    answering,
    change,
    edited,
    put,
    read,
    read_all,
)
from holdfast.model.errors import Overloaded
from holdfast.model.ids import GroupId, Nonce

KEYS_MAX: Final = 256
"""How many sources of one stream may have a key."""


class SourceKey(msgspec.Struct, frozen=True, kw_only=True):
    """The key of one source of a stream."""

    source: str
    secret: str
    """Hexadecimal digits."""


class StreamRecord(msgspec.Struct, frozen=True, kw_only=True, tag="stream"):
    """One stream of the domain."""

    name: str
    number: int
    group: GroupId
    nonce: Nonce
    source: str = ""
    """The name of a source that has no key."""
    levels: int = 2
    exact: bool = True
    cumulative: bool = False
    created: bool = True
    back: bool = False
    before: bool = False
    """What its messages say of those before them (``streams.encoding``)."""
    is_open: bool = False
    """Whether datagrams without a key are taken."""
    is_paced: bool = True
    """Whether sources must wait for credit."""
    multicast: str = ""
    """The multicast group that its members join, as ``address:port``; empty if none."""
    keys: dict[int, SourceKey] = {}
    last_key: int = 0
    incarnation: int = 0
    """The highest that was given to a source."""


class StreamCounter(msgspec.Struct, frozen=True, kw_only=True, tag="stream_counter"):
    """The highest number ever given to a stream."""

    last: int


class NoStream(msgspec.Struct, frozen=True, tag="no_stream"):
    """The domain has no stream of that name."""

    name: str


class StreamTaken(msgspec.Struct, frozen=True, tag="stream_taken"):
    """A stream of that name is bound to another group."""

    record: StreamRecord


Edit = Callable[[StreamRecord], StreamRecord]


@answering
def bind_stream(
    wanted: StreamRecord, *, groups: frozenset[GroupId]
) -> Recipe[Seen[StreamRecord] | StreamTaken | Contended | InDoubt]:
    """Bind a stream to a group, under a number that nobody had. One that is bound to the same group gets the
    wanted properties and keeps its number and keys; one whose group is not among *groups*, those that there
    are, is taken over."""
    for _ in range(ATTEMPTS_MAX):
        guard = yield from read(keys.STREAM_GUARD, Guard)
        counter = yield from read(keys.STREAM_COUNTER, StreamCounter)
        found = yield from read(keys.stream(wanted.name), StreamRecord)
        known, last = found.value, 0 if counter.value is None else counter.value.last
        if known is not None and known.group != wanted.group and known.group in groups:
            return StreamTaken(known)
        if known is not None:
            record = msgspec.structs.replace(
                wanted,
                number=known.number,
                keys=known.keys,
                last_key=known.last_key,
                incarnation=known.incarnation,
            )
        else:
            last += 1
            record = msgspec.structs.replace(wanted, number=last)
        result = yield from change(
            [found.unchanged(), counter.unchanged(), guard.unchanged()],
            [put(found.key, record), put(counter.key, StreamCounter(last=last))],
            nonce=wanted.nonce,
        )
        if isinstance(result, Applied):
            return Seen(found.key, record, result.revision)
        if isinstance(result, InDoubt):
            return result
    return Contended(f"the stream {wanted.name}")


@answering
def unbind_stream(name: str, *, nonce: Nonce) -> Recipe[StreamRecord | NoStream | Contended | InDoubt]:
    """Forget a stream; its number is never given again."""
    for _ in range(ATTEMPTS_MAX):
        guard = yield from read(keys.STREAM_GUARD, Guard)
        found = yield from read(keys.stream(name), StreamRecord)
        if found.value is None:
            return NoStream(name)
        result = yield from change(
            [found.unchanged(), guard.unchanged()],
            [Delete(found.key), put(guard.key, Guard(nonce=nonce))],
            nonce=nonce,
        )
        if isinstance(result, Applied):
            return found.value
        if isinstance(result, InDoubt):
            return result
    return Contended(f"the stream {name}")


@answering
def edit_stream(
    name: str, edit: Edit, *, nonce: Nonce
) -> Recipe[Seen[StreamRecord] | NoStream | Contended | InDoubt]:
    """Change what the domain knows of a stream."""
    what = f"the stream {name}"
    result = yield from edited(keys.stream(name), StreamRecord, edit, nonce=nonce, what=what)
    return NoStream(name) if result is None else result


@answering
def list_streams() -> Recipe[Listing[StreamRecord]]:
    return (yield from read_all(keys.STREAMS, StreamRecord))


# --- edits


def with_key(source: str, secret: str) -> Edit:
    """A key for *source*, if it has none yet."""

    def edit(record: StreamRecord) -> StreamRecord:
        if any(each.source == source for each in record.keys.values()):
            return record
        if len(record.keys) >= KEYS_MAX:
            raise Overloaded(f"{record.name} has {KEYS_MAX} keys already: drop one first")
        number = record.last_key + 1
        known = {**record.keys, number: SourceKey(source=source, secret=secret)}
        return msgspec.structs.replace(record, keys=known, last_key=number)

    return edit


def without_key(source: str) -> Edit:
    def edit(record: StreamRecord) -> StreamRecord:
        kept = {number: each for number, each in record.keys.items() if each.source != source}
        return msgspec.structs.replace(record, keys=kept)

    return edit


def with_life(incarnation: int) -> Edit:
    """A new life of the source: *incarnation*, or one above the last if that is higher."""

    def edit(record: StreamRecord) -> StreamRecord:
        return msgspec.structs.replace(record, incarnation=max(record.incarnation + 1, incarnation))

    return edit


def key_of(record: StreamRecord, source: str) -> tuple[int, bytes] | None:
    """The key of *source*, with its number; None if it has none."""
    found = ((number, each.secret) for number, each in record.keys.items() if each.source == source)
    return next(((number, bytes.fromhex(secret)) for number, secret in found), None)
