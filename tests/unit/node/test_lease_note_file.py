"""The note of the longest lease outlives the process that kept it (R5)."""

from pathlib import Path

import pytest

from holdfast.model.ids import SECOND
from holdfast.node.lease_note_file import FILE, open_lease_note
from holdfast.sequence.config import LEASE_NS_MAX, LeaseConfig

SHORT = LeaseConfig()
LONG = LeaseConfig(lease_ns=5 * SECOND)


def test_the_next_process_finds_what_was_granted(tmp_path: Path) -> None:
    first = open_lease_note(tmp_path)
    first.on_start(0, SHORT)
    assert first.bound_until == 0
    first.on_granting(0, LONG)
    second = open_lease_note(tmp_path)
    second.on_start(100, SHORT)
    assert second.bound_until == 100 + SHORT.grace_of(LONG.lease_ns)
    assert (tmp_path / FILE).stat().st_mode & 0o077 == 0


def test_the_note_is_lowered_only_when_the_longer_leases_have_ended(tmp_path: Path) -> None:
    """A process that ends before that leaves the longer one to its successor."""
    note = open_lease_note(tmp_path)
    note.on_start(0, LONG)
    note.on_granting(10, SHORT)
    note.look(10 + SHORT.grace_of(LONG.lease_ns) - 1, SHORT)
    assert int((tmp_path / FILE).read_text()) == LONG.lease_ns
    note.look(10 + SHORT.grace_of(LONG.lease_ns), SHORT)
    assert int((tmp_path / FILE).read_text()) == SHORT.lease_ns


def test_settings_that_go_back_and_forth_keep_the_longer_length(tmp_path: Path) -> None:
    note = open_lease_note(tmp_path)
    note.on_start(0, LONG)
    note.on_granting(10, SHORT)
    note.on_granting(20, LONG)
    note.look(100 * SECOND, LONG)
    assert int((tmp_path / FILE).read_text()) == LONG.lease_ns


@pytest.mark.parametrize("content", [b"", b"much", b"-3", b"99999999999999999999999999"])
def test_a_note_that_cannot_be_read_stands_for_the_longest_lease(tmp_path: Path, content: bytes) -> None:
    (tmp_path / FILE).write_bytes(content)
    note = open_lease_note(tmp_path)
    note.on_start(0, SHORT)
    assert note.bound_until == SHORT.grace_of(LEASE_NS_MAX)
