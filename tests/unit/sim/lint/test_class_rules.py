"""What ``holdfast check`` says about a class: every wrong line, and what to write instead."""

import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import msgspec
import pytest

from holdfast.sim.lint.class_rules import cautions_in

FAULTY = """
import asyncio
import os
import random
import threading
import time as clock
from datetime import datetime
from time import monotonic as ticks
from uuid import UUID, uuid4

import holdfast as hf

STARTED = clock.time()


def stamp():
    return clock.time_ns()


def unused():
    return clock.time()


class Base:
    def shuffled(self, values):
        random.shuffle(values)
        return values


class Shop(Base):
    def __init__(self):
        self.names: set[str] = set()

    def buy(self, name):
        self.bought = clock.time()
        self.ticks = ticks()
        return datetime.now()

    def number(self):
        return uuid4(), UUID(int=1), random.Random(5).random()

    def helped(self):
        return stamp()

    def all(self):
        return [name for name in self.names]

    async def wait(self):
        await asyncio.sleep(1)

    def work(self):
        threading.Thread(target=self.buy).start()
        return open(os.environ["X"])

    def count(self):
        global STARTED
        STARTED += 1

    def fine(self):
        print(os.path.join("a", "b"))
        return sorted(self.names), hf.context.time(), hf.context.random.random()

    def excused(self):
        return clock.time()  # fence: only shown to people
"""


def found(class_name: str = "Shop") -> list[tuple[str, str, str]]:
    return [(each.method, each.kind, each.what) for each in cautions_in(FAULTY, "shop.py", class_name)]


@pytest.mark.covers("FTC-23")
def test_every_fault_is_named_and_nothing_else() -> None:
    assert found() == [
        ("stamp", "clock", "time.time_ns"),
        ("buy", "clock", "time.time"),
        ("buy", "clock", "time.monotonic"),
        ("buy", "clock", "datetime.now"),
        ("number", "randomness", "uuid.uuid4"),
        ("all", "order", "the order of a set"),
        ("wait", "threads", "asyncio.sleep"),
        ("work", "threads", "threading.Thread"),
        ("work", "io", "open()"),
        ("work", "io", "os.environ"),
        ("count", "state", "global STARTED"),
    ]
    assert found("Base") == [("shuffled", "randomness", "random.shuffle")]


STATE = """
import random as dice
import time
import uuid
from collections import Counter
from random import Random, choice

import holdfast as hf
from holdfast import query

SEEN = []
LIMITS: dict[str, int] = {}
SIZE = 5


def helper():
    return time.time()


class Shop:
    shared = []
    count = 0

    def choose(self):
        return choice([1, 2]), dice.random(), Random(5).random(), dice.Random(6).random()

    def helper(self):
        return helper()

    def note(self, name):
        SEEN.append(name)
        LIMITS[name] = SIZE
        Shop.count += 1
        type(self).count = 2
        self.names.append(name)
        self.total, self.last = 1, name
        return uuid.uuid5(uuid.NAMESPACE_DNS, name)

    def local(self, LIMITS):
        SEEN = [1]
        SEEN.append(2)
        LIMITS["x"] = 1
        found = Counter()
        found.update("x")
        return [SEEN, LIMITS, found.pop("x")]

    @hf.query
    def peek(self):
        self.looked = 1
        self.by_name["x"] = 2
        del self.by_name["y"]
        self.names.append("z")
        return self.names.index("z"), self.by_name.get("x")

    @query
    async def quiet(self):
        found = dict(self.by_name)
        found["x"] = 2
        found.update(y=1)
        return sorted(found)
"""


def test_state_that_is_not_captured_is_named_and_nothing_else() -> None:
    found = cautions_in(STATE, "shop.py", "Shop")
    assert [(each.method, each.kind, each.what) for each in found] == [
        ("helper", "clock", "time.time"),
        ("choose", "randomness", "random.choice"),
        ("choose", "randomness", "random.random"),
        ("note", "state", "SEEN, a variable of the module"),
        ("note", "state", "LIMITS[name], a variable of the module"),
        ("note", "state", "Shop.count, which all groups of the class share"),
        ("note", "state", "type(self).count, which all groups of the class share"),
        ("peek", "state", "a query changes self.looked"),
        ("peek", "state", "a query changes self.by_name['x']"),
        ("peek", "state", "a query changes self.by_name['y']"),
        ("peek", "state", "a query changes self.names"),
    ]


def test_each_caution_says_where_and_what_to_use() -> None:
    lines = FAULTY.splitlines()
    cautions = cautions_in(FAULTY, "shop.py", "Shop")
    assert [lines[each.line - 1].strip() for each in cautions if each.kind == "clock"] == [
        "return clock.time_ns()",
        "self.bought = clock.time()",
        "self.ticks = ticks()",
        "return datetime.now()",
    ]
    assert all(each.instead for each in cautions)
    clock = next(each for each in cautions if each.method == "buy")
    assert clock.instead == "hf.context.time()"


def run(directory: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "holdfast", "check", *arguments, "--app", str(directory)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_the_command_reports_as_json_and_ends_with_1(tmp_path: Path) -> None:
    (tmp_path / "faulty_shop.py").write_text(FAULTY, encoding="utf-8")
    done = run(tmp_path, "faulty_shop:Shop", "--output", "json")
    assert done.returncode == 1, done.stderr
    report = msgspec.json.decode(done.stdout)
    assert len(report["warnings"]) == 13  # eleven of its own, one inherited, one for what cannot be captured
    assert report["captured"] == "no"
    assert "buy" in report["operations"]
    first = report["warnings"][0]
    assert (Path(first["file"]).name, first["line"]) == ("faulty_shop.py", 17)


def test_the_command_calls_the_methods_and_shows_what_leads_to_a_mistake(tmp_path: Path) -> None:
    source = """
        from dataclasses import dataclass
        from datetime import datetime


        @dataclass
        class Job:
            due: datetime | None = None


        class Scheduler:
            jobs: dict[str, Job]

            def __init__(self):
                self.jobs = {}

            def add(self, name: str) -> None:
                self.jobs[name] = Job()

            def put_off(self, name: str, seconds: float) -> None:
                self.jobs[name].due = seconds

            def run(self, name: str, how: type) -> None:
                pass
    """
    (tmp_path / "putting_off.py").write_text(dedent(source), encoding="utf-8")
    done = run(tmp_path, "putting_off:Scheduler", "--output", "json", "--operations", "200", "--seed", "3")
    assert done.returncode == 1, done.stderr
    report = msgspec.json.decode(done.stdout)
    assert report["captured"] == "yes", "of the fresh object there is nothing to say"
    (found,) = report["tried"]["found"]
    assert "].due: annotated datetime | None, holds float" in found["what"]
    assert [each.partition("(")[0] for each in found["operations"]] == ["add", "put_off"]
    assert report["tried"]["seed"] == 3
    assert list(report["tried"]["not_called"]) == ["run"]
    (warning,) = report["warnings"]
    assert (warning["kind"], warning["method"]) == ("state", "put_off")
    told = run(tmp_path, "putting_off:Scheduler")
    assert told.returncode == 1
    assert "after add(name=" in told.stdout
    assert "not called: run: no value is known for how" in " ".join(told.stderr.split())
    assert run(tmp_path, "putting_off:Scheduler", "--operations", "0").returncode == 0


def test_a_clean_class_ends_with_0_and_a_bad_name_with_2(tmp_path: Path) -> None:
    source = """
        class Till:
            def __init__(self, start: int):
                self.total = start

            def add(self, amount: int) -> int:
                self.total += amount
                return self.total
    """
    (tmp_path / "clean_till.py").write_text(dedent(source), encoding="utf-8")
    clean = run(tmp_path, "clean_till:Till", "--args", "[5]")
    assert clean.returncode == 0, clean.stdout + clean.stderr
    assert "nothing to warn of" in clean.stdout
    for name, reason in (
        ("clean_till", "package.module:Class"),
        ("clean_till:Nothing", "Nothing"),
        ("no_such_module:Till", "no_such_module"),
    ):
        done = run(tmp_path, name)
        assert done.returncode == 2
        assert reason in done.stderr
        assert "Traceback" not in done.stderr
