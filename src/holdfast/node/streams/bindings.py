"""Which streams there are, as this host has heard it from the authority: listed once, then watched."""

from collections.abc import Callable

from holdfast.authority import keys
from holdfast.authority.contract import Compacted, Events
from holdfast.authority.driver import insist
from holdfast.authority.recipe import Authority, Listing, decoded, perform
from holdfast.authority.streams import StreamRecord, list_streams
from holdfast.model.ids import Revision
from holdfast.streams.reception import StreamBinding


class StreamBindings:
    """Follows the records; *on_change* hears all of them after each change."""

    def __init__(self, authority: Authority, on_change: Callable[[list[StreamRecord]], None]) -> None:
        self._authority = authority
        self._on_change = on_change
        self._records: dict[str, StreamRecord] = {}

    async def follow(self) -> None:
        """Follow the records until cancelled. While the authority is away, the last known ones stay."""
        while True:
            listing: Listing[StreamRecord] = await insist(
                lambda: perform(self._authority, list_streams()), Listing
            )
            self._records = {each.key: each.value for each in listing.items}
            self._tell()
            async for event in self._authority.watch(keys.STREAMS, Revision(listing.revision + 1)):
                match event:
                    case Compacted():
                        break  # too far behind to catch up: list again
                    case Events(changes=changes):
                        for changed in changes:
                            if changed.item is None:
                                self._records.pop(changed.key, None)
                            else:
                                self._records[changed.key] = decoded(changed.item, StreamRecord).value
                        self._tell()

    def _tell(self) -> None:
        self._on_change(list(self._records.values()))


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
