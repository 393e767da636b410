"""Huge pages for a heap that is copied: asked for once, and again when copies grow slow."""

import queue
from collections.abc import Callable

from holdfast.node.pages import HUGE_BYTES, SLOW_COPY_NS, HugePages, heap, resident_bytes

WAIT_S = 60.0


def test_the_heap_is_gathered_before_a_copy_and_again_when_one_was_slow() -> None:
    """Whatever the kernel has to give: no copy waits for ever, and none is made while it works."""
    calls: queue.Queue[tuple[Callable[..., None], int]] = queue.Queue()
    ballast = bytearray(8 * HUGE_BYTES)
    pages = HugePages(lambda work, resident: calls.put((work, resident)), heap_bytes_min=1)

    def let_it_gather() -> None:
        work, resident = calls.get(timeout=WAIT_S)
        assert not pages.are_ready()
        work(resident)

    assert not pages.are_ready()
    let_it_gather()
    assert pages.are_ready()
    pages.copy_ns = SLOW_COPY_NS + 1
    assert not pages.are_ready()
    let_it_gather()
    assert pages.are_ready()
    assert len(ballast) == 8 * HUGE_BYTES


def test_a_small_process_is_left_alone() -> None:
    pages = HugePages(lambda *_: None, heap_bytes_min=1 << 60)
    pages.copy_ns = SLOW_COPY_NS + 1
    assert pages.are_ready()


def test_the_heap_is_private_memory_on_the_bounds_of_huge_pages() -> None:
    ballast = bytearray(8 * HUGE_BYTES)
    found = heap()
    assert sum(end - start for start, end in found) >= len(ballast) // 2
    assert all(start % HUGE_BYTES == 0 and end % HUGE_BYTES == 0 and start < end for start, end in found)
    assert resident_bytes() > 0
