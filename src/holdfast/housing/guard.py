"""The ports of a host as its groups use them: whatever they call, a failing disk ends the host (D1)."""

from collections.abc import Callable, Hashable

from holdfast.authority.contract import WatchEvent
from holdfast.housing.ports import EndingTimers, HousePorts, OpenStore
from holdfast.model.errors import DISK_ERRORS
from holdfast.model.ids import Revision


class Guard:
    """Over all that a host does for its groups, which stand on *store*."""

    def __init__(self, store: OpenStore, ports: HousePorts) -> None:
        self._store = store
        self._house = ports

    def guarded(self, work: Callable[..., None]) -> Callable[..., None]:
        """*work*, of which a failing disk ends the host."""

        def guarded(*arguments: object) -> None:
            try:
                work(*arguments)
            except DISK_ERRORS as error:
                self._store.fail(error)

        return guarded

    def watch(self, prefix: str, revision: Revision, then: Callable[[WatchEvent], None]) -> None:
        """See :data:`holdfast.housing.ports.Watch`."""
        self._house.authority.watch(prefix, revision, self.guarded(then))

    def timers(self, on_timer: Callable[[Hashable], None]) -> EndingTimers:
        return self._house.timers(self.guarded(on_timer))

    def soon(self, work: Callable[[], None]) -> None:
        """Have this called at the end of the turn."""
        self._house.soon(self.guarded(work))
