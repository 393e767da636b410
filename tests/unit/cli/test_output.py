"""Names given by others are shown as they are: markup has no effect, and only letters reach a terminal."""

import ast
import io
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from rich.panel import Panel
from rich.text import Text

import holdfast.cli
from holdfast.cli.complaint import complain
from holdfast.cli.output import Screen, is_agreed, out, print_json, print_table, say, styled, talk
from holdfast.cli.show.domain_table import one_line, picture
from holdfast.machine.terminal_text import plain
from holdfast.model.ids import HostId
from holdfast.node.messages import AuthorityStatus, DomainStatus, HostStatus

ESCAPES = {
    "red": "\x1b[31mred",
    "title": "\x1b]0;owned\x07",
    "csi": "\x9b2J",
    "return": "no\rok",
    "bell": "\a",
    "back": "ab\b\bcd",
    "form": "\f\v",
    "bidi": "\u202etxt.exe",
    "zero width": "a\u200bb",
    "delete": "\x7f",
    "surrogate": "\udc80",
}
MARKUP = (
    "[/red]",
    "[bold]x",
    "[/]",
    "[link=file:///etc/passwd]x[/link]",
    ":skull:",
    "[red]",
    "\\[x",
    "[[",
    "[@click=x]",
)


def status_named(name: str) -> DomainStatus:
    host = HostStatus(
        id=HostId(name),
        alive=False,
        incarnation=None,
        pid=1,
        address=name,
        restarts=0,
        uptime_s=None,
        state=name,
        last_exit=name,
    )
    authority = AuthorityStatus(
        kind="sqlite", alive=False, pid=None, address=name, restarts=0, last_exit=name
    )
    return DomainStatus(domain=name, hosts=(host,), authority=authority, agent=None)


def fail(name: str) -> None:
    error = ValueError(name)
    error.add_note(name)
    complain(error)


DOORS: dict[str, Callable[[str], object]] = {
    "table": lambda name: print_table(("a", "b"), [(name, 1), (2, name)], title=name),
    "columns": lambda name: print_table((name,), [(1,)]),
    "talk": lambda name: talk.print(name),
    "talk in a style": lambda name: talk.print(f"group {name}", style="red", soft_wrap=True),
    "talk with markup": lambda name: talk.print(name, highlight=False),
    "text": lambda name: talk.print(Text(name, style="dim")),
    "panel": lambda name: out().print(Panel(name)),
    "styled": lambda name: talk.print(styled(("damaged:", "bold red"), f" {name}", (name, "red"))),
    "say": say,
    "complain": fail,
    "picture": lambda name: out().print(picture(status_named(name))),
    "one line": lambda name: say(one_line(status_named(name))),
    "question": is_agreed,
}


@pytest.fixture(autouse=True)
def nobody_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO())


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("hostile", ESCAPES)
def test_no_control_character_comes_out_of_any_door(
    door: str, hostile: str, capsys: pytest.CaptureFixture[str]
) -> None:
    DOORS[door](f"before {ESCAPES[hostile]} after")
    shown = "".join(capsys.readouterr())
    assert "after" in shown
    assert "before" in shown
    assert shown.replace("\n", "").isprintable()


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("hostile", MARKUP)
def test_markup_in_a_name_shows_as_it_is(door: str, hostile: str, capsys: pytest.CaptureFixture[str]) -> None:
    DOORS[door](hostile)
    assert hostile in "".join(capsys.readouterr())


def test_on_a_terminal_colours_are_those_of_the_style_and_no_others() -> None:
    screen = io.StringIO()
    console = Screen(file=screen, force_terminal=True, color_system="standard", highlight=False, width=200)
    console.print(styled(("\x1b[5mdamaged", "red"), " [green]x"))
    console.print("\x1b]0;owned\x07[blue]x")
    assert screen.getvalue().splitlines() == [
        "\x1b[31m\\x1b[5mdamaged\x1b[0m [green]x",
        "\\x1b]0;owned\\x07[blue]x",
    ]


def test_a_line_break_in_a_cell_begins_no_row(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(("name", "class"), [("a\nb  forged:Class", "c")])
    assert len(capsys.readouterr().out.splitlines()) == 2


def test_json_is_the_same_value_without_what_a_terminal_acts_upon(
    capsys: pytest.CaptureFixture[str],
) -> None:
    value = [text for name, text in ESCAPES.items() if name != "surrogate"] + ["\u00e9 \u6f22 \U0001f480"]
    print_json(value)
    shown = capsys.readouterr().out
    assert json.loads(shown) == value
    assert shown.strip("\n").isprintable()
    assert "\u00e9 \u6f22" in shown


def test_a_line_of_the_log_is_plain_too() -> None:
    program = (
        "import structlog; from holdfast.machine import log_to_stderr; log_to_stderr('info');"
        "structlog.get_logger().warning('refused', why='\\x1b[31mno\\x9b2J', number=1)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert "why=\\x1b[31mno\\x9b2J" in done.stderr
    assert done.stderr.strip().isprintable()


def test_letters_of_every_script_stay() -> None:
    for text in (
        "Z\u00fcrich",
        "\u6f22\u5b57",
        "\u0627\u0644\u0639\u0631\u0628\u064a\u0629",
        "a b",
        "\U0001f480",
    ):
        assert plain(text) == text


def test_every_command_shows_what_it_shows_through_these_doors() -> None:
    """Otherwise a name would have to be escaped at each call, and one would be forgotten."""
    package = Path(holdfast.cli.__file__).parent
    found = [
        f"{file.name}:{node.lineno}"
        for file in sorted(package.glob("*.py"))
        if file.name not in ("output.py", "complaint.py")
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.Call) and ast.unparse(node.func) in FORBIDDEN
    ]
    assert found == []


FORBIDDEN = (
    *("print", "Console", "Text.from_markup", "Prompt.ask", "rich.print"),
    *("sys.stdout.write", "sys.stderr.write", "input"),
)


def test_a_cell_of_several_lines_is_shown_as_such(capsys: pytest.CaptureFixture[str]) -> None:
    """Only its own lines count; a line break in a name does not start a new line."""
    print_table(("name", "why"), [("a\nb", ["it was dropped", "claimed after 5 ms"])])
    lines = [line.strip() for line in capsys.readouterr().out.splitlines()]
    assert lines == ["name  why", "a\\nb  it was dropped", "claimed after 5 ms"]
