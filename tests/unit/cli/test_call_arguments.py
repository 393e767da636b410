"""`holdfast call`: arguments in JSON, by position or by name, and what was returned."""

from typing import Any

import pytest

from holdfast.cli.call import NotShown, parse_arguments, show
from holdfast.model.errors import InvalidRequest


@pytest.mark.parametrize(
    ("args", "positional", "named"),
    [
        ([], [], {}),
        (['"alice"', "5"], ["alice", 5], {}),
        (['"alice"', "amount=5"], ["alice"], {"amount": 5}),
        (['note="a=b"', "tags=[1]"], [], {"note": "a=b", "tags": [1]}),
        (['"a=b"', '{"x": "y=z"}'], ["a=b", {"x": "y=z"}], {}),
        (["-5"], [-5], {}),
    ],
)
def test_arguments_are_read(args: list[str], positional: list[Any], named: dict[str, Any]) -> None:
    assert parse_arguments(args) == (positional, named)


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["alice"], "the argument alice is not JSON"),
        (["amount=five"], "the argument five is not JSON"),
        (["a=1", "2"], "the argument 2 follows one given by name"),
        (["a=1", "a=2"], "the argument a is given twice"),
        (["NaN"], "is not JSON"),
        (["1e400"], "is not JSON"),
        (['"\\ud800"'], "is not JSON"),
        (['"\udcff"'], "is not JSON"),
    ],
)
def test_what_is_no_argument_is_refused_by_name(args: list[str], said: str) -> None:
    with pytest.raises(InvalidRequest, match=said):
        parse_arguments(args)


def test_what_has_no_form_in_json_is_shown_with_the_word_that_the_call_was_executed() -> None:
    with pytest.raises(NotShown, match=r"was executed.*\{\(1, 2\): 3\}"):
        show({(1, 2): 3})


def test_what_was_returned_is_one_line_of_json(capsys: pytest.CaptureFixture[str]) -> None:
    show({"a": [1, None, "two\nlines"]})
    assert capsys.readouterr().out == '{"a":[1,null,"two\\nlines"]}\n'
