"""What people read of calls that this host turns away: which, why, and in which trace."""

from typing import Final

import msgspec

from holdfast.housing.directory import GroupDirectory
from holdfast.model.calls import Calls, Nested, Reads, RefusalCode, Settle
from holdfast.model.ids import ClientId
from holdfast.net.frame import UNDECODABLE
from holdfast.styles.lines import CallLines
from holdfast.styles.operation import Call, Sent, decode_calls

Asked = Calls | Reads | Settle | Nested
"""A frame that a group is asked."""

_sent: Final = msgspec.msgpack.Decoder(Sent)


class Refusals:
    """The lines of one host about frames that it turned away."""

    def __init__(self, lines: CallLines | None, directory: GroupDirectory) -> None:
        self._lines = lines
        self._directory = directory

    def tell(self, asked: Asked, code: RefusalCode, why: str) -> None:
        """Nothing of the frame was executed. It is read only if there is room for a line: a host with too
        much to do has least time for this."""
        if self._lines is None:
            return
        if not self._lines.has_room():
            self._lines.leave_out(1)
            return
        record = self._directory.records.get(asked.group)
        group = record.name if record is not None else str(asked.group)
        client, calls = _calls_of(asked)
        self._lines.tell("a call was refused", group, client, calls, code=code.value, why=why)


def _calls_of(asked: Asked) -> tuple[ClientId, list[Call]]:
    """Who asked, and what; nothing for a question, and for what cannot be read."""
    try:
        match asked:
            case Calls(sent=raw) | Nested(sent=raw):
                sent = _sent.decode(raw)
                return sent.client, decode_calls(sent.calls)
            case Reads(client=client, calls=calls):
                return client, decode_calls(calls)
            case _:
                return ClientId(""), []
    except UNDECODABLE:
        return ClientId(""), []
