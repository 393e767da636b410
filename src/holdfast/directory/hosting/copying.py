"""Filling this host's store with a copy of another's data, from whoever of its peers can give one.

A copy that stops coming is asked of the next peer, and what was half taken does not count
(:mod:`holdfast.directory.replication.taking`). It goes on until a copy is there, however long nobody can
give one.
"""

import asyncio
from collections.abc import Hashable
from typing import Final

from holdfast.directory.hosting.files import ReplicaFiles
from holdfast.directory.hosting.peer_links import PeerLinks
from holdfast.directory.replica.maps import KEPT, MAPS
from holdfast.directory.replication.messages import CopyAsk, CopyPiece, Message, Reason, Refused
from holdfast.directory.replication.ports import ReplicationConfig
from holdfast.directory.replication.roster import Own
from holdfast.directory.replication.taking import Taker
from holdfast.model.errors import InvalidRequest
from holdfast.model.ids import SECOND, HostId

WATCH: Final = "copying.watch"
WATCH_NS: Final = SECOND // 10
SOURCE_PATIENCE_NS: Final = 10 * SECOND
"""For how long the one is waited for whom people have named; then anybody will do."""


class Copying:
    """Takes one copy: implements :class:`.peer_links.PeerEvents`."""

    def __init__(
        self,
        files: ReplicaFiles,
        own: Own,
        *,
        suffix: str,
        links: PeerLinks,
        config: ReplicationConfig,
        source: HostId | None,
    ) -> None:
        self._files = files
        self._links = links
        self._config = config
        self._named = source
        self._source: str | None = None
        self._up: dict[str, None] = {}
        self._began_ns = self._heard_ns = files.clock.now()
        self.problem = ""
        """Why the last peer that was asked gave none."""
        self.bytes = 0
        """How much of the copy has come."""
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.taker = Taker(
            files.store,
            own,
            suffix=suffix,
            maps=MAPS,
            kept=KEPT,
            window=config.copy_window,
            on_done=lambda: None if self.done.done() else self.done.set_result(None),
            on_refused=self._on_refused,
        )
        files.on_committed = self.taker.on_committed
        files.on_timer = self._on_timer
        files.timers.set(WATCH_NS, WATCH)

    # --- connections

    def on_up(self, peer: str) -> None:
        self._up.pop(peer, None)
        self._up[peer] = None
        if self._source == peer:
            self._source = None  # its copy is over
        self._next_source()

    def on_down(self, peer: str) -> None:
        self._up.pop(peer, None)
        if self._source == peer:
            self._source = None
            self._next_source()

    def on_message(self, peer: str, message: Message) -> None:
        if isinstance(message, CopyAsk):
            self._links.send(peer, Refused(Reason.NOT_READY, "this store is being filled itself"))
        elif peer == self._source:
            self._heard_ns = self._files.clock.now()
            if isinstance(message, CopyPiece):
                self.bytes += sum(len(key) + len(value) for _, key, value in message.rows)
            try:
                self.taker.on_message(message)
            except InvalidRequest as fault:
                self.problem = str(fault)
                self._drop_source()

    # --- whom it asks

    def _on_refused(self, refused: Refused) -> None:
        self.problem = f"{self._source}: {refused.why}"
        self._drop_source()

    def _drop_source(self) -> None:
        """Ask somebody else."""
        source, self._source = self._source, None
        if source is not None:
            self._up.pop(source, None)
            self._links.close(source)
            self._next_source()

    def _next_source(self) -> None:
        if self._source is not None or not self._up:
            return
        named: str | None = self._named
        if named is not None and named not in self._up:
            if self._files.clock.now() - self._began_ns < SOURCE_PATIENCE_NS:
                return
            named = None
        self._source = named or next(iter(self._up))
        self._heard_ns = self._files.clock.now()
        self.bytes = 0
        self.taker.ask(_To(self._links, self._source))

    def _on_timer(self, tag: Hashable) -> None:
        if tag == WATCH and not self.done.done():
            self._files.timers.set(WATCH_NS, WATCH)
            self._next_source()
            if self._files.clock.now() - self._heard_ns > self._config.silence_ns:
                self._drop_source()


class _To:
    """One peer as a taker sees it."""

    def __init__(self, links: PeerLinks, peer: str) -> None:
        self._links = links
        self._peer = peer

    def send(self, message: Message) -> None:
        self._links.send(self._peer, message)
