"""An update: all changes that one operation of a client came to, at the master that took it.

They are committed together, kept together in the changelog, sent together and applied together. So a vector
needs no part numbers, and no master ever shows half of a client's operation.
"""

from typing import Annotated, Final

import msgspec
from msgspec import Meta, Struct

from holdfast.directory.primitives import Primitive, check
from holdfast.model.csn import SUB_SEQUENCE_MAX, Csn
from holdfast.model.errors import InvalidRequest


class Update(Struct, frozen=True, array_like=True):
    """The changes of one operation, in the order of their CSNs, which differ in s alone."""

    changes: Annotated[tuple[Primitive, ...], Meta(min_length=1, max_length=SUB_SEQUENCE_MAX + 1)]

    @property
    def csn(self) -> Csn:
        return self.changes[0].csn.operation


_encoder: Final = msgspec.msgpack.Encoder()
_decoder: Final[msgspec.msgpack.Decoder[Update]] = msgspec.msgpack.Decoder(Update)


def encoded_update(update: Update) -> bytes:
    return _encoder.encode(update)


def decoded_update(data: bytes) -> Update:
    """Read an update that another master sent. Raises ``InvalidRequest`` that says what is wrong."""
    try:
        update = _decoder.decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError) as fault:
        raise InvalidRequest(f"not an update of the directory: {fault}") from None
    check_update(update)
    return update


def check_update(update: Update) -> None:
    """Raise ``InvalidRequest`` if no master can have issued *update*."""
    last = -1
    for change in update.changes:
        check(change)
        if not change.csn.is_same_operation(update.changes[0].csn) or change.csn.sub_sequence <= last:
            raise InvalidRequest(
                f"not an update of the directory: {change.csn} does not follow {update.changes[0].csn}"
            )
        last = change.csn.sub_sequence
