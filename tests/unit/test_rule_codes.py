"""Whoever meets the code of a rule can look it up: wherever one is written, docs/protocol.md has the rule."""

import io
import re
import tokenize
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from means import ROOT

SOURCE = ROOT / "src" / "holdfast"
PROTOCOL = ROOT / "docs" / "protocol.md"

SECTION = re.compile(r"^## ([A-Z])\. ", re.MULTILINE)
RULE = re.compile(r'^### <a id="([a-z][0-9]{1,2})"></a>([A-Z][0-9]{1,2})\. \S', re.MULTILINE)
KEPT_BY = re.compile(r"^\*Kept by:\* (.+)\.$", re.MULTILINE)
MODULE = re.compile(r"`([a-z0-9_]+(?:/[a-z0-9_]+)+\.py)`")

TEXTS = {tokenize.COMMENT, tokenize.STRING, getattr(tokenize, "FSTRING_MIDDLE", tokenize.STRING)}
"""The tokens in which people are told something; names in code (``E1 = Epoch(1)``) are no rules."""


@cache
def protocol() -> str:
    return PROTOCOL.read_text(encoding="utf-8")


@cache
def code() -> re.Pattern[str]:
    """A code, alone or at either end of a range (``S1-S5``). What a letter of no section begins is none
    (``IM F1``), nor what is part of something longer (``FTC-95``, ``-O1``, ``%A9``)."""
    letters = "".join(SECTION.findall(protocol()))
    one = rf"[{letters}][1-9][0-9]?"
    return re.compile(rf"(?<![\w%./-])({one})(?:[-\u2013]({one}))?(?![\w-])")


@cache
def rules() -> dict[str, str]:
    """What the page says of each rule, by its code."""
    found = list(RULE.finditer(protocol()))
    ends = [match.start() for match in found[1:]] + [len(protocol())]
    return {match[2]: protocol()[match.start() : end] for match, end in zip(found, ends, strict=True)}


def cited_in(text: str) -> set[str]:
    return {each for match in code().finditer(text) for each in match.groups() if each}


def unknown_in(path: Path) -> Iterator[str]:
    """Codes that are no rules, with their lines."""
    text = path.read_text(encoding="utf-8")
    if cited_in(text) <= rules().keys():
        return  # as nearly everywhere, whatever it is that cites them
    for line, said in _told(path, text):
        for offset, part in enumerate(said.splitlines()):
            for each in sorted(cited_in(part) - rules().keys()):
                yield f"{path.relative_to(ROOT)}:{line + offset}: {each}"


def _told(path: Path, text: str) -> Iterator[tuple[int, str]]:
    """What a file tells people, with lines."""
    match path.suffix:
        case ".py":
            for token in tokenize.generate_tokens(io.StringIO(text).readline):
                if token.type in TEXTS:
                    yield token.start[0], token.string.strip("rbfRBF\"'")
        case ".txt":  # a transcript: what is no remark is what a domain says
            yield from ((line, each) for line, each in enumerate(text.splitlines(), 1) if each[:1] == "#")
        case _:
            yield 1, text


def files() -> list[Path]:
    return [
        *sorted((ROOT / "src").rglob("*.py")),
        *sorted((ROOT / "src").rglob("*.md")),
        *sorted((ROOT / "tests").rglob("*.py")),
        *sorted((ROOT / "tests" / "scenarios").glob("*.txt")),
        *sorted((ROOT / "docs").rglob("*.md")),
        *sorted(ROOT.glob("*.md")),
    ]


def refused(wrong: list[str], said: str) -> None:
    if wrong:
        pytest.fail(f"{said}\n  " + "\n  ".join(wrong), pytrace=False)


def test_each_rule_is_found_by_its_code() -> None:
    """``docs/protocol.md#v5`` is V5, once, in the section of its letter."""
    anchors = RULE.findall(protocol())
    assert len(anchors) == protocol().count("\n### ")
    assert len({each for each, _ in anchors}) == len(anchors)
    assert [each for each, _ in anchors] == [code.lower() for _, code in anchors]
    section = ""
    for line in protocol().splitlines():
        if heading := SECTION.match(line):
            section = heading[1]
        elif rule := RULE.match(line):
            assert rule[2].startswith(section), f"{rule[2]} stands in section {section}"


def test_every_code_is_a_rule() -> None:
    """In docstrings, comments, messages, planted bugs, transcripts and documents."""
    wrong = [each for path in files() for each in unknown_in(path)]
    refused(wrong, "codes that docs/protocol.md does not have:")


def test_every_rule_is_kept_by_modules_that_are_there() -> None:
    """And one of them, at least, says so: else its code is somewhere else by now, or was never built."""
    wrong = []
    for each, text in rules().items():
        kept_by = KEPT_BY.findall(text)
        modules = [SOURCE / name for name in MODULE.findall(kept_by[0])] if len(kept_by) == 1 else []
        gone = [path.relative_to(SOURCE).as_posix() for path in modules if not path.is_file()]
        if not modules:
            wrong.append(f"{each}: one line of *Kept by:* names its modules")
        elif gone:
            wrong.append(f"{each}: there is no {', '.join(gone)}")
        elif not any(each in cited_in(path.read_text(encoding="utf-8")) for path in modules):
            wrong.append(f"{each}: none of its modules cites it")
    refused(wrong, "rules of docs/protocol.md without their modules:")


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("may not read (R1, R3); see K2.", {"R1", "R3", "K2"}),
        ("members (M4-M6), and S1\u2013S5", {"M4", "M6", "S1", "S5"}),
        ("`V5`: numbered; E10's probes", {"V5", "E10"}),
        ("FTC-95, IM-132, N-3, IM F1, -O1, %A9, V100, R1x, op1@1", set()),
    ],
)
def test_codes_are_told_from_what_looks_like_them(text: str, found: set[str]) -> None:
    """A pattern that finds nothing would find nothing wrong."""
    assert cited_in(text) == found
