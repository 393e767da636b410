"""Which streams there are, as this host has heard it from the authority: listed once, then watched."""

from collections.abc import Callable

from holdfast.authority import keys
from holdfast.authority.driver import followed
from holdfast.authority.recipe import Authority
from holdfast.authority.streams import StreamRecord
from holdfast.streams.reception import StreamBinding


class StreamBindings:
    """Follows the records; *on_change* hears all of them after each change."""

    def __init__(self, authority: Authority, on_change: Callable[[list[StreamRecord]], None]) -> None:
        self._authority = authority
        self._on_change = on_change

    async def follow(self) -> None:
        """Follow the records until cancelled. While the authority is away, the last known ones stay."""
        async for known in followed(self._authority, keys.STREAMS, StreamRecord):
            self._on_change([seen.value for seen in known.values()])


def binding_of(record: StreamRecord) -> StreamBinding:
    """What members must know of a stream to take its messages."""
    return StreamBinding(
        stream=record.name,
        number=record.number,
        group=record.group,
        source=record.source or record.name,
        keys={number: (each.source, bytes.fromhex(each.secret)) for number, each in record.keys.items()},
        is_open=record.is_open,
        is_paced=record.is_paced,
    )
