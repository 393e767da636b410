"""Power cuts under a process that appends to the real log: no acknowledged record lost, none invented."""

import random
from collections.abc import Callable
from pathlib import Path

import pytest
from faults.disk import CutReport, FaultyDisk
from faults.machine import require_fuse
from log_life import WORDS_TIMEOUT_S, LogLife
from log_verify import Promises, lost, verify

pytestmark = pytest.mark.cluster

CHANGES_MAX = 300
"""Writes and syncs before a cut at an exact change; opening takes about twenty."""
LINES_MAX = 400
"""Acknowledgements before a cut that the test makes itself."""


def live_until_power_goes(disk: FaultyDisk, life: LogLife, dice: random.Random) -> None:
    """Cut the power at an exact change, also while the log opens, or at whatever moment the test gets to
    it."""
    is_exact = dice.random() < 0.75
    if is_exact:
        disk.power_off_after(changes=dice.randint(1, CHANGES_MAX))
    with life:
        if is_exact:
            life.victim.wait(timeout_s=WORDS_TIMEOUT_S)
        else:
            assert life.victim.wait_for_lines(dice.randint(1, LINES_MAX), timeout_s=WORDS_TIMEOUT_S)
            disk.power_off()


@pytest.mark.parametrize("seed", [1, 2])
def test_no_acknowledged_record_is_lost(seed: int, tmp_path: Path, rounds: Callable[..., int]) -> None:
    """After every cut each acknowledged record is on the disk, as it was written, and the log continues."""
    require_fuse()
    cuts = rounds(short=4, long=100)
    dice, promises, reports = random.Random(seed), Promises(seed), list[CutReport]()
    with FaultyDisk(tmp_path / "disk", seed=seed) as disk:
        directory = disk.path / "made" / "by" / "nobody"
        for _ in range(cuts):
            live_until_power_goes(disk, LogLife(directory, promises), dice)
            reports.append(disk.power_on(torn=dice.random() < 0.7))
            verify(directory, promises)
        with LogLife(directory, promises) as last:
            assert last.victim.wait_for_lines(1, timeout_s=WORDS_TIMEOUT_S), last.victim.errors
    assert len(promises.acknowledged) > 20 * cuts
    # A few cuts may all fall between a sync and the next write.
    if cuts >= 20:
        assert any(report.sectors_lost for report in reports), "the cuts found nothing to take"


def test_without_syncs_power_cuts_lose_records(faulty_disk: FaultyDisk) -> None:
    """A writer that only pretends to sync loses what it acknowledged, so this test can fail."""
    directory = faulty_disk.path / "store"
    promises = Promises(1)
    with LogLife(directory, promises, "--no-sync") as life:
        assert life.victim.wait_for_lines(LINES_MAX, timeout_s=WORDS_TIMEOUT_S)
        faulty_disk.power_off()
    faulty_disk.power_on()
    assert len(lost(directory, promises)) >= LINES_MAX // 2


def test_on_a_lying_disk_power_cuts_lose_records(faulty_disk: FaultyDisk) -> None:
    """The log cannot prevent this when the disk pretends: what was acknowledged after the lies began is
    gone."""
    directory = faulty_disk.path / "store"
    promises = Promises(1)
    with LogLife(directory, promises) as life:
        assert life.victim.wait_for_lines(1, timeout_s=WORDS_TIMEOUT_S)
        faulty_disk.ignore_syncs()
        before = len(life.victim.lines)
        assert life.victim.wait_for_lines(before + LINES_MAX, timeout_s=WORDS_TIMEOUT_S)
        faulty_disk.power_off()
    faulty_disk.power_on()
    assert lost(directory, promises)
