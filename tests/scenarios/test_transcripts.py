"""Every transcript is replayed; :mod:`transcript` says how to read and rewrite them."""

from pathlib import Path

import pytest
from transcript import FOLDER, replay

TRANSCRIPTS = sorted(FOLDER.glob("*.txt"))


@pytest.mark.parametrize("path", TRANSCRIPTS, ids=lambda path: path.stem)
def test_the_domain_does_what_the_transcript_says(path: Path) -> None:
    """The commands give exactly the lines that were reviewed."""
    text = path.read_text(encoding="utf-8")
    assert replay(text) == text


def test_there_is_a_transcript_for_every_rule_with_a_schedule() -> None:
    """Each rule of PROTOCOL A to K that says *Without it* is told as a story."""
    told = " ".join(path.stem for path in TRANSCRIPTS)
    for rule in ("a5", "v3", "v4", "v5", "r1", "m1", "m2", "m3", "k2", "k3"):
        assert rule in told
