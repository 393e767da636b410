"""When a host is short of space, and when it no longer is (D5)."""

from collections.abc import Callable, Hashable
from typing import Any

import pytest

from holdfast.groups.disk_space import DiskSpace
from holdfast.model.ids import GroupId
from holdfast.storage.free_space import FreeSpace, SpaceConfig

GIB = 1 << 30
CONFIG = SpaceConfig(reserve_bytes=100, reserve_percent_max=5, enough_percent=125)


class Machine:
    """A disk, the timers of a host, and what it told people."""

    def __init__(self, free: int | None, total: int = GIB) -> None:
        self.now = None if free is None else FreeSpace(free, total)
        self.told: list[str] = []
        self.spared: list[int] = []
        self.log = self
        self.checked = DiskSpace(self, {}, self._timers, self, CONFIG)  # type: ignore[arg-type]  # of a test

    def _timers(self, on_timer: Callable[[Hashable], None]) -> "Machine":
        self._on_timer = on_timer
        return self

    def space(self) -> FreeSpace | None:
        return self.now

    def oldest_first(self) -> list[GroupId]:
        return []

    def shorten(self, spare_bytes: int) -> None:
        self.spared.append(spare_bytes)

    def set(self, delay_ns: int, tag: Hashable) -> int:
        assert delay_ns == CONFIG.look_ns
        return 0

    def warning(self, event: str, **fields: Any) -> None:
        self.told.append(event)

    error = warning

    def now_has(self, free: int | None) -> bool:
        self.now = None if free is None else FreeSpace(free, GIB)
        self._on_timer("look")
        return self.checked.is_short


def test_a_host_is_short_below_the_reserve_until_somewhat_more_is_free() -> None:
    machine = Machine(1000)
    found = [machine.now_has(free) for free in (101, 100, 99, 100, 124, 125, 100, 99)]
    assert found == [False, False, True, True, True, False, False, True]
    assert len(machine.told) == 3
    assert machine.spared == [49, 50, 74, 0, 49], "half of the reserve may be used to free more"


def test_a_host_that_starts_without_space_is_short_from_the_beginning() -> None:
    assert Machine(5).checked.is_short
    assert not Machine(5, total=100).checked.is_short, "a small disk has a small reserve"


def test_where_the_space_is_unknown_nothing_is_refused() -> None:
    machine = Machine(5)
    assert machine.now_has(None) is False


@pytest.mark.parametrize(("total", "reserve"), [(1 << 40, 256 << 20), (1 << 30, (1 << 30) // 20), (0, 0)])
def test_the_reserve_is_at_most_a_part_of_the_disk(total: int, reserve: int) -> None:
    assert SpaceConfig().reserve_of(FreeSpace(0, total)) == reserve
