"""The other hosts of the domain: listed once, then watched; listed again when the watch cannot continue."""

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping
from pathlib import Path

import pytest

from holdfast.authority import driver
from holdfast.authority.contract import Compacted, Events, Request, Result, Unknown, WatchEvent
from holdfast.authority.sessions import Session
from holdfast.model.ids import HostId, Revision
from holdfast.node.session import SessionPeers
from recipe_bench import Bench

WAIT_S = 60.0


class Authority(Bench):
    """The bench's authority as a host sees it, with a watch over its real history that may be cut off."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self.silences = 0
        self.is_compacted = False

    async def watch(self, prefix: str, revision: Revision) -> AsyncIterator[WatchEvent]:
        while True:
            if self.is_compacted:
                self.is_compacted = False
                yield Compacted(revision)
                return
            for events in self._store.history(revision, 100):
                below = tuple(change for change in events.changes if change.key.startswith(prefix))
                yield Events(events.revision, below)
                revision = Revision(events.revision + 1)
            await asyncio.sleep(0.001)

    def remote(self) -> "Remote":
        return Remote(self)


class Remote:
    def __init__(self, authority: Authority) -> None:
        self._authority = authority
        self.watch = authority.watch

    async def ask(self, request: Request) -> Result:
        if self._authority.silences:
            self._authority.silences -= 1
            return Unknown("nobody answers")
        return self._authority.ask(request)

    async def close(self) -> None:
        return None


class Story:
    """Follows the sessions and keeps the newest state."""

    def __init__(self, authority: Authority) -> None:
        self.picture: Mapping[HostId, Session] | None = None
        self._peers = SessionPeers(authority.remote(), self._on_change)

    async def __aenter__(self) -> "Story":
        self._task = asyncio.create_task(self._peers.follow())
        return self

    async def __aexit__(self, *_: object) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def shows(self, **incarnations: int) -> None:
        async with asyncio.timeout(WAIT_S):
            while self.seen() != incarnations:
                await asyncio.sleep(0.001)

    def seen(self) -> dict[str, int] | None:
        if self.picture is None:
            return None
        return {str(host): session.incarnation for host, session in self.picture.items()}

    def _on_change(self, sessions: Mapping[HostId, Session]) -> None:
        self.picture = sessions


@pytest.fixture
def authority(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Authority]:
    monkeypatch.setattr(driver, "RETRY_S", 0.001)
    made = Authority(tmp_path)
    yield made
    made.close()


def test_the_picture_follows_those_who_come_are_replaced_and_go(authority: Authority) -> None:
    async def story() -> None:
        authority.session("a")
        async with Story(authority) as story:
            await story.shows(a=1)
            b = authority.session("b")
            await story.shows(a=1, b=1)
            authority.session("a")
            await story.shows(a=2, b=1)
            authority.end(b)
            await story.shows(a=2)

    asyncio.run(story())


def test_a_watch_that_cannot_go_on_is_begun_again_with_a_list(authority: Authority) -> None:
    """A host that left while nobody watched must not stay in the list."""

    async def story() -> None:
        a = authority.session("a")
        async with Story(authority) as story:
            await story.shows(a=1)
            authority.is_compacted = True
            authority.end(a)
            authority.session("b")
            await story.shows(b=1)
            authority.session("c")
            await story.shows(b=1, c=1)

    asyncio.run(story())


def test_an_authority_that_is_away_is_waited_for(authority: Authority) -> None:
    async def story() -> None:
        authority.session("a")
        authority.silences = 5
        async with Story(authority) as story:
            await story.shows(a=1)
        assert authority.silences == 0

    asyncio.run(story())
