"""``holdfast faults check``, and the page about filters."""

import json
import re

import pytest

from holdfast.cli.faults import EXAMPLES, check
from holdfast.faults.filters import Truth, evaluate, parse
from holdfast.faults.reports import FaultKind
from means import ROOT

PAGE = (ROOT / "docs" / "filters.md").read_text(encoding="utf-8")
FILTERS = re.findall(r"^\| `([^`]+)` \| [a-z]", PAGE.partition("| filter | lets pass |")[2], re.MULTILINE)


def test_a_right_filter_is_shown_with_what_it_passes(capsys: pytest.CaptureFixture[str]) -> None:
    assert check("(($type_name == 'Hang'))", output="json") == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["is_right"], found["filter"]) == (True, "$type_name == 'Hang'")
    passing = [each["example"] for each in found["examples"] if each["result"] == "true"]
    assert passing == ["a member hangs"]
    assert check("$WaitedNs > 1") == 0
    assert "the event has no $WaitedNs" in capsys.readouterr().out


def test_a_wrong_filter_is_pointed_at(capsys: pytest.CaptureFixture[str]) -> None:
    assert check("$a = 1", output="json") == 2
    said = json.loads(capsys.readouterr().out)
    assert said == {"is_right": False, "letter": 4, "problem": "found '='; write == for equality"}
    assert check("$a = 1") == 2
    assert capsys.readouterr().err.split("\n")[1:3] == ["  $a = 1", "     ^"]


def test_names_that_a_shell_took_are_missed(capsys: pytest.CaptureFixture[str]) -> None:
    assert check("[0].id == 'host2'") == 2
    assert "single quotes" in capsys.readouterr().err


def test_there_is_an_example_of_each_kind() -> None:
    assert list(dict.fromkeys(each.kind for each in EXAMPLES.values())) == list(FaultKind)


@pytest.mark.parametrize("documented", FILTERS)
def test_documented_filters_are_right_and_tell_examples_apart(documented: str) -> None:
    found = [evaluate(parse(documented), each.to_event()).truth for each in EXAMPLES.values()]
    assert 0 < found.count(Truth.TRUE) < len(found)


def test_filters_are_documented() -> None:
    assert len(FILTERS) > 4
