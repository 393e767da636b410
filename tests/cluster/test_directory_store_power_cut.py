"""Power cuts under a process that writes to the directory's store: transactions are there whole, in order."""

import random
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from directory_store_writer import MAPS, key, value
from faults.disk import FaultyDisk
from faults.machine import require_fuse
from faults.signals import Victim

from holdfast.directory.lmdb_store import LmdbStore

pytestmark = pytest.mark.cluster

WRITER = Path(__file__).with_name("directory_store_writer.py")
TIMEOUT_S = 120.0


def rows(directory: Path, name: str) -> list[tuple[bytes, bytes]]:
    store = LmdbStore(directory, MAPS, lambda token, ok: None, lambda ask: None)
    try:
        with store.read() as reader:
            return list(reader.rows(name))
    finally:
        store.close()


def test_no_committed_transaction_is_lost_nor_half_there(tmp_path: Path, rounds: Callable[..., int]) -> None:
    require_fuse()
    dice = random.Random(1)
    committed = 0
    with FaultyDisk(tmp_path / "disk", seed=1) as disk:
        directory = disk.path / "store"
        for _ in range(rounds(short=2, long=100)):
            is_exact = dice.random() < 0.7
            if is_exact:
                disk.power_off_after(changes=dice.randint(1, 150))
            with Victim([sys.executable, str(WRITER), str(directory)]) as victim:
                if is_exact:
                    victim.wait(timeout_s=TIMEOUT_S)
                else:
                    assert victim.wait_for_lines(dice.randint(1, 100), timeout_s=TIMEOUT_S), victim.errors
                    disk.power_off()
                    victim.wait(timeout_s=TIMEOUT_S)
            committed = max([committed, *(int(line) for line in victim.lines)])
            disk.power_on(torn=dice.random() < 0.7)
            found = rows(directory, "entries")
            assert found == [(key(number), value(number)) for number in range(1, len(found) + 1)]
            assert rows(directory, "changes") == found
            assert len(found) >= committed
    assert committed


def test_a_power_cut_while_it_is_made_leaves_a_store_that_opens(
    tmp_path: Path, rounds: Callable[..., int]
) -> None:
    """Without the file made aside, about one torn cut in sixty leaves one that LMDB does not know."""
    require_fuse()
    with FaultyDisk(tmp_path / "disk", seed=9) as disk:
        for number in range(5, 5 + rounds(short=2, long=40)):
            directory = disk.path / f"store{number}"
            disk.power_off_after(changes=number)
            with Victim([sys.executable, str(WRITER), str(directory)]) as victim:
                victim.wait(timeout_s=TIMEOUT_S)
            disk.power_on(torn=True)
            assert len(rows(directory, "entries")) >= len(victim.lines)
