"""Replays every transcript; :mod:`transcript` says how to read and rewrite them."""

from pathlib import Path

import pytest
from transcript import FOLDER, replay

from holdfast.sim.runner.planted import planted_bug, planted_bugs

TRANSCRIPTS = sorted(FOLDER.glob("*.txt"))


@pytest.mark.parametrize("path", TRANSCRIPTS, ids=lambda path: path.stem)
def test_the_domain_does_what_the_transcript_says(path: Path) -> None:
    """The commands give exactly the lines that were reviewed."""
    text = path.read_text(encoding="utf-8")
    assert replay(text) == text


RULES = ["a5", "v3", "v4", "v5", "r1", "m1", "m2", "m3", "k2", "k3", "x3", "x4", "e3", "e4", "e7", "e10"]
"""Rules of docs/protocol.md whose *Without it* is shown by a transcript."""


@pytest.mark.parametrize("rule", RULES)
def test_every_rule_with_a_schedule_is_told_and_broken(rule: str) -> None:
    """The rule has a transcript, and the simulator finds a bug that breaks it."""
    assert [path.stem for path in TRANSCRIPTS if path.stem.startswith(f"{rule}_")]
    assert [bug.name for bug in planted_bugs() if bug.rule == rule.upper()]


BROKEN = {
    "x3_settled_for_good": "groups-outcome-not-recorded",
    "x4_clock_jumps": "groups-follows-every-jump",
    "e3_nested_once": "groups-nested-before-commit",
    "e10_circle_broken": "groups-nobody-looks-for-circles",
    "e4_poisoned": "groups-poison-is-taken",
    "e7_new_code": "deploy-replayed-by-other-code",
    "d2_doubtful_tail": "sequence-doubtful-claims",
    "k2_proof_of_death": "sequence-any-death-will-do",
    "k6_total_outage": "sequence-restarted-never-claims",
    "m2_change_in_doubt": "sequence-gives-up-in-doubt",
    "m3_divergent_tail": "sequence-keeps-its-tail",
    "v5_disk_from_yesterday": "sequence-nobody-compares",
    "r1_claim_unanswered": "sequence-late-answers-confirm",
    "r1_stale_primary": "sequence-lease-is-enough",
    "k3_deaf_primary": "sequence-answers-the-deaf",
    "m1_never_alone": "sequence-drops-the-last",
    "v3_never_resumes": "sequence-resumes-its-role",
    "v4_memory_is_a_process": "sequence-memory-outlives-process",
}
"""Transcripts, and bugs that would change them."""


@pytest.mark.parametrize("story", BROKEN)
def test_a_transcript_shows_what_the_rule_prevents(story: str) -> None:
    """With the rule left out, the same commands give other lines."""
    text = (FOLDER / f"{story}.txt").read_text(encoding="utf-8")
    with planted_bug(BROKEN[story]).plant():
        try:
            told = replay(text)
        except AttributeError:
            return  # the host to be asked is gone: the transcript ends there
    assert told != text
