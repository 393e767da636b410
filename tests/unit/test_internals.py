"""The walks through the code name places that exist: who follows one meets no module, function or method that
has moved on. Pictures are looked at as well."""

import ast
import re
from functools import cache
from pathlib import Path
from xml.etree import ElementTree

import pytest

from means import ROOT

SOURCE = ROOT / "src" / "holdfast"
INTERNALS = ROOT / "docs" / "internals"
WALKS = ("a-call", "a-failover", "a-group", "a-change", "a-setting")

CODE_SPAN = re.compile(r"`([^`\n]+)`")
PLACE = re.compile(r"(?P<module>[a-z][a-z0-9_]*(?:/[a-z0-9_]+)*\.py)(?::(?P<name>\w+(?:\.\w+)?))?")
"""``sequence/claim.py``, and in it ``:in_order`` or ``:Claim.maybe_claim``."""
IMAGE = re.compile(r"!\[[^\]\n]+\]\(([^)\s]+)\)")


def pages() -> list[Path]:
    return sorted(INTERNALS.glob("*.md"))


def places(page: Path) -> list[str]:
    """Whatever in code spans speaks of a module."""
    return [span for span in CODE_SPAN.findall(page.read_text(encoding="utf-8")) if ".py" in span]


@cache
def names_in(module: Path) -> frozenset[str]:
    """Its functions and classes, and methods under the name of the class that defines them."""
    found = set[str]()
    for node in ast.parse(module.read_text(encoding="utf-8")).body:
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                found.add(name)
            case ast.ClassDef(name=name, body=body):
                methods = (each for each in body if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef))
                found |= {name, *(f"{name}.{each.name}" for each in methods)}
    return frozenset(found)


@cache
def rules() -> frozenset[str]:
    """The codes of the protocol."""
    text = (ROOT / "docs" / "protocol.md").read_text(encoding="utf-8")
    return frozenset(each.upper() for each in re.findall(r'<a id="([a-z][0-9]+)"></a>', text))


def why_nowhere(place: str) -> str:
    """Empty when it is there."""
    found = PLACE.fullmatch(place)
    if found is None:
        return "is not written as package/module.py:function or package/module.py:Class.method"
    root = ROOT if place.startswith("tests/") else SOURCE
    if not (root / found["module"]).is_file():
        return "there is no such module"
    if found["name"] and found["name"] not in names_in(root / found["module"]):
        return f"{found['module']} defines no {found['name']}"
    return ""


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.stem)
def test_every_place_is_there(page: Path) -> None:
    wrong = [f"{place}: {why}" for place in places(page) if (why := why_nowhere(place))]
    if wrong:
        pytest.fail(f"{page.relative_to(ROOT)} leads nowhere:\n  " + "\n  ".join(wrong), pytrace=False)


@pytest.mark.parametrize("walk", WALKS)
def test_a_walk_has_its_way_its_rules_and_its_picture(walk: str) -> None:
    """A page that names nothing would lead nowhere, and pass."""
    text = (INTERNALS / f"{walk}.md").read_text(encoding="utf-8")
    assert sum(":" in place for place in places(INTERNALS / f"{walk}.md")) >= 20
    assert len(set(re.findall(r"\(\.\./protocol\.md#(\w+)\)", text))) >= 5
    pictures = IMAGE.findall(text)
    assert pictures
    for picture in pictures:
        drawn = ElementTree.parse(INTERNALS / picture).iter("{http://www.w3.org/2000/svg}tspan")
        codes = {code for each in drawn for code in (each.text or "").split()}
        assert codes
        assert not codes - rules()
    assert f"({walk}.md)" in (INTERNALS / "README.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("place", "why"),
    [
        ("sequence/reign.py", "no such module"),
        ("sequence/claim.py:Claim.conquer", "defines no Claim.conquer"),
        ("sequence/claim.py:claim", "defines no claim"),
        # Inherited: whoever searches for the word in that module would not find it.
        ("styles/passive.py:Passive.on_calls", "defines no Passive.on_calls"),
        ("holdfast/sequence/claim.py:Claim.ground", "no such module"),
        ("sequence/claim.py:Claim.ground()", "is not written as"),
        ("sequence/claim.py Claim.ground", "is not written as"),
    ],
)
def test_a_place_that_is_gone_is_seen(place: str, why: str) -> None:
    """A check that finds nothing would find nothing wrong."""
    assert why in why_nowhere(place)
