"""Waits before another attempt grow to a bound and differ from process to process."""

from random import Random

from holdfast.model.backoff import Backoff

BACKOFF = Backoff(first_ns=100, most_ns=2_000)


def test_the_wait_doubles_to_its_bound() -> None:
    assert [BACKOFF.delay_ns(failures) for failures in range(7)] == [100, 200, 400, 800, 1_600, 2_000, 2_000]
    assert BACKOFF.delay_ns(10_000) == 2_000


def test_jitter_takes_at_most_half_and_never_adds() -> None:
    random = Random(1)
    for failures in range(200):
        whole = BACKOFF.delay_ns(failures)
        assert whole // 2 <= BACKOFF.jittered_ns(failures, random) <= whole
    assert len({BACKOFF.jittered_ns(9, random) for _ in range(20)}) > 15
    assert [BACKOFF.jittered_ns(n, Random(7)) for n in range(5)] == [
        BACKOFF.jittered_ns(n, Random(7)) for n in range(5)
    ]
