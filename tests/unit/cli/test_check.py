"""What ``holdfast check`` says, and its exit code: 0 only for a class that was examined without findings."""

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from textwrap import dedent

import pytest

from holdfast.cli.check import EXIT_CLEAN, EXIT_WARNED, check
from holdfast.model.errors import InvalidRequest

Checked = tuple[int, list[str]]
Check = Callable[..., Checked]


@pytest.fixture
def checked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Iterator[Check]:
    """Check a class of these sources, the last of which is named for the module of the class; returns the
    exit code and the output."""
    before, path = set(sys.modules), list(sys.path)

    def run(name: str, **sources: str) -> Checked:
        options = {"args": sources.pop("args")} if "args" in sources else {}
        allowed = bool(sources.pop("allowed", ""))
        for module, source in sources.items():
            (tmp_path / f"{module}.py").write_text(dedent(source), encoding="utf-8")
        ended = check(name, app=tmp_path, allowed=allowed, operations=100, **options)
        return ended, capsys.readouterr().out.splitlines()

    yield run
    sys.path[:] = path
    for each in set(sys.modules) - before:
        del sys.modules[each]


TILL = """
    class Till:
        def __init__(self, start: int):
            self.total = start

        def add(self, amount: int) -> int:
            self.total += amount
            return self.total
"""


def test_a_class_of_which_no_object_can_be_made_is_not_well(checked: Check) -> None:
    ended, said = checked("check_till:Till", check_till=TILL)
    assert ended == EXIT_WARNED
    (warned,) = (line for line in said if "made in __init__" in line)
    assert "nothing was tried: Till cannot be made: TypeError" in warned
    assert warned.endswith("""use --args with what it is made of, as '["a", 1]'""")
    assert said[-1] == "1 warning"
    assert checked("check_till:Till", args="[1, 2]")[1][1].endswith("use other --args")
    assert checked("check_till:Till", args="[1]") == (EXIT_CLEAN, [said[0], "nothing to warn of"])


def test_a_number_of_calls_that_cannot_be_made_is_refused_and_none_is_told(
    tmp_path: Path, checked: Check, capsys: pytest.CaptureFixture[str]
) -> None:
    source = TILL.replace("start: int", "start: int = 0")
    assert checked("till_of_none:Till", till_of_none=source)[0] == EXIT_CLEAN
    with pytest.raises(InvalidRequest, match="-1 operations"):
        check("till_of_none:Till", app=tmp_path, operations=-1)
    capsys.readouterr()
    assert check("till_of_none:Till", app=tmp_path, operations=0) == EXIT_CLEAN
    assert "no method was called" in capsys.readouterr().err


def test_one_that_is_made_with_the_groups_time_is_made(checked: Check) -> None:
    source = """
        import holdfast as hf


        class Dated:
            def __init__(self):
                self.since = hf.context.time()

            def age(self) -> float:
                return hf.context.time() - self.since
    """
    assert checked("check_dated:Dated", check_dated=source)[0] == EXIT_CLEAN


def test_one_that_is_only_imported_is_no_class_of_the_application(checked: Check) -> None:
    importing = "from check_base import Till\n"
    ended, said = checked("check_user:Till", check_base=TILL, check_user=importing, args="[1]")
    assert ended == EXIT_WARNED
    (warned,) = (line for line in said if "place in Till" in line)
    assert "check_user.py imports it, and does not define it" in warned
    assert (
        "use check_base:Till, where it is defined; or `holdfast up --allow-class check_user:Till`" in warned
    )
    assert checked("check_user:Till", args="[1]", allowed="yes")[0] == EXIT_CLEAN
    assert checked("check_base:Till", args="[1]")[0] == EXIT_CLEAN


def test_calls_that_are_not_awaited_are_warned_of(checked: Check) -> None:
    source = """
        import holdfast as hf
        from holdfast import context


        class Shop:
            async def buy(self, item: str) -> None:
                hf.context.group("stock").take(item)
                await hf.context.group("stock").take(item)

            async def sell(self, item: str) -> None:
                stock = context.group("stock", timeout_s=1)
                left = await stock.left(item)
                stock.put(item, left)

            def plain(self, item: str) -> None:
                left = hf.context.group("stock").left(item)

            async def fine(self, item: str) -> int:
                waits = hf.context.group("stock").left(item)
                group = {}
                group.get(item)
                hf.context.send("audit").note(item)
                return await waits

            async def hidden(self, item: str) -> None:
                groups = [hf.context.group("stock")]
                groups[0].take(item)
    """
    ended, said = checked("check_shop:Shop", check_shop=source)
    assert ended == EXIT_WARNED
    warned = [line for line in said if ": await in " in line]
    assert [line.split(": ")[1].removeprefix("await in ") for line in warned] == [
        "buy", "sell", "plain", "hidden",
    ]  # fmt: skip
    assert "hf.context.group('stock').take(item) is not awaited, so it is never made" in warned[0]
    assert "stock.take was called but not awaited" in warned[3]
    assert said[-1] == "4 warnings"


def test_results_that_do_not_fit_their_annotation_are_warned_of(checked: Check) -> None:
    source = """
        from dataclasses import dataclass

        import holdfast as hf


        @dataclass
        class Row:
            name: str
            count: int


        class Rows:
            def __init__(self):
                self.names: list[str] = []

            def put(self, name: str) -> None:
                self.names.append(name)
                return len(self.names)

            @hf.query
            def rows(self) -> list[Row]:
                return [Row(name, None) for name in self.names]

            @hf.query
            def first(self) -> Row | None:
                return Row(self.names[0], 1) if self.names else None

            @hf.query
            def all(self) -> set[str]:
                return set(self.names)

            async def ask(self) -> int:
                return await hf.context.group("other").count()
    """
    ended, said = checked("check_rows:Rows", check_rows=source)
    assert ended == EXIT_WARNED
    assert [line.split(": ")[1] for line in said[1:-1]] == ["result in put", "result in rows"]
    put, rows = said[1:-1]
    assert "put says that it returns None, and its result is int 1, which does not fit" in put
    assert "rows says that it returns list[Row], and its result[0]" in rows


def test_the_advice_for_a_reply_in_the_order_of_a_set_is_to_sort_it(checked: Check) -> None:
    source = """
        class Tags:
            tags: set[int]

            def __init__(self):
                self.tags = {each << 16 for each in range(5)}

            def first(self) -> int:
                return len(self.tags)

            def walk(self) -> list[int]:
                tags = getattr(self, "tags")
                return [each for each in tags]

            def shown(self) -> str:
                return f"{self.tags}"

            def whole(self) -> dict[str, set[int]]:
                return {"tags": self.tags}

            def turn(self) -> None:
                self.tags = {*sorted(self.tags, reverse=True)}
    """
    ended, said = checked("check_tags:Tags", check_tags=source)
    assert ended == EXIT_WARNED
    warned = said[1:-1]
    assert [line.split(": ")[1] for line in warned] == ["order in shown", "order in walk"]
    advice = "; use sorted(...), or a dict instead of the set, whose order is that of insertion"
    assert all(line.endswith(advice) for line in warned)


@pytest.mark.parametrize(
    ("ends", "how"), [("os._exit(0)", "with exit code 0"), ("os.kill(os.getpid(), 9)", "by SIGKILL")]
)
def test_a_class_that_ends_its_process_is_told(ends: str, how: str, tmp_path: Path) -> None:
    source = f"import os\n\nclass Fuse:\n    def blow(self) -> None:\n        {ends}\n"
    (tmp_path / "fuses.py").write_text(source, encoding="utf-8")
    command = [sys.executable, "-m", "holdfast", "check", "fuses:Fuse", "--app", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert f"the class ended the process in which it was tried, {how}" in " ".join(done.stderr.split())
    assert done.returncode == EXIT_WARNED
    spared = subprocess.run(
        [*command, "--operations", "0"], capture_output=True, text=True, timeout=60, check=False
    )
    assert "only the source and a new object were examined" in spared.stderr
    assert "ended the process" not in spared.stderr
