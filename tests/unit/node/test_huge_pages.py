"""Huge pages for a heap before a fork: requested before each copy."""

import queue
from collections.abc import Callable

import pytest

from holdfast.node import fork_checkpoint as subject
from holdfast.node.fork_checkpoint import HUGE_BYTES, HugePages, heap, resident_bytes

WAIT_S = 60.0
Calls = queue.Queue[tuple[Callable[..., None], int, int]]


def let_it_gather(pages: HugePages, calls: Calls) -> None:
    assert not pages.are_ready()
    work, count, took_ms = calls.get(timeout=WAIT_S)
    assert not pages.are_ready()
    work(count, took_ms)


def test_the_heap_is_gathered_before_each_copy() -> None:
    """Whatever the kernel provides, no copy waits for ever, and none is made while the heap moves."""
    calls: Calls = queue.Queue()
    ballast = bytearray(8 * HUGE_BYTES)
    pages = HugePages(lambda *call: calls.put(call), heap_bytes_min=1)
    for _ in range(2):
        let_it_gather(pages, calls)
        assert pages.are_ready()
        pages.copied()
    assert len(ballast) == 8 * HUGE_BYTES


def test_a_gathering_that_takes_long_pauses_less(monkeypatch: pytest.MonkeyPatch) -> None:
    """With pauses as long as these, the test would time out."""
    monkeypatch.setattr(subject, "PAUSES", 1e9)
    monkeypatch.setattr(subject, "SPREAD_S", 0.0)
    calls: Calls = queue.Queue()
    let_it_gather(HugePages(lambda *call: calls.put(call), heap_bytes_min=1), calls)


def test_a_small_process_is_left_alone() -> None:
    assert HugePages(lambda *_: None, heap_bytes_min=1 << 60).are_ready()


def test_the_heap_is_private_memory_on_the_bounds_of_huge_pages() -> None:
    ballast = bytearray(8 * HUGE_BYTES)
    found = heap()
    assert sum(end - start for start, end in found) >= len(ballast) // 2
    assert all(start % HUGE_BYTES == 0 and end % HUGE_BYTES == 0 and start < end for start, end in found)
    assert resident_bytes() > 0
