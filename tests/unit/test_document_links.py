"""Links between documents lead somewhere: to a file of the repository, and to a heading or anchor in it."""

import re
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

from means import ROOT

LINK = re.compile(r"(?<!!)\[[^\]\n]*\]\(([^)\s]+)\)")
FENCE = re.compile(r"^(```|~~~).*?^\1", re.MULTILINE | re.DOTALL)
HEADING = re.compile(r"^#{1,6} +(.+?) *#*$", re.MULTILINE)
ANCHOR = re.compile(r'<a id="([^"]+)"></a>')


def documents() -> list[Path]:
    inside = (path for name in ("docs", "src", "tests", "examples") for path in (ROOT / name).rglob("*.md"))
    return sorted([*ROOT.glob("*.md"), *inside])


@cache
def prose(path: Path) -> str:
    return FENCE.sub("", path.read_text(encoding="utf-8"))


@cache
def anchors(path: Path) -> frozenset[str]:
    """As GitHub makes them of headings, and those that are written out."""
    found, seen = set(ANCHOR.findall(prose(path))), Counter[str]()
    for heading in HEADING.findall(prose(path)):
        text = re.sub(r"<[^>]+>", "", LINK.sub(lambda link: link[0][1:].partition("]")[0], heading))
        slug = re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-")
        found.add(f"{slug}-{seen[slug]}" if seen[slug] else slug)
        seen[slug] += 1
    return frozenset(found)


def why_dead(document: Path, target: str) -> str:
    """Empty when it leads somewhere."""
    if re.match(r"[a-z]+:", target):
        return ""
    name, _, fragment = target.partition("#")
    path = (document.parent / name).resolve() if name else document
    if not path.is_relative_to(ROOT):
        return "leads out of the repository"
    if not path.exists():
        return "there is no such file"
    if fragment and path.suffix == ".md" and fragment not in anchors(path):
        return f"{path.relative_to(ROOT)} has no #{fragment}"
    return ""


def test_every_link_leads_somewhere() -> None:
    """Relative ones; what others serve is not asked for."""
    wrong = [
        f"{document.relative_to(ROOT)}: ({target}): {why}"
        for document in documents()
        for target in LINK.findall(prose(document))
        if (why := why_dead(document, target))
    ]
    if wrong:
        pytest.fail("dead links:\n  " + "\n  ".join(wrong), pytrace=False)


@pytest.mark.parametrize(
    ("target", "why"),
    [
        ("nowhere.md", "no such file"),
        ("protocol.md#v99", "has no #v99"),
        ("#nowhere", "has no #nowhere"),
        ("../../somewhere", "out of the repository"),
    ],
)
def test_a_dead_link_is_seen(target: str, why: str) -> None:
    """A check that finds nothing would find nothing wrong."""
    assert why in why_dead(ROOT / "docs" / "design.md", target)
