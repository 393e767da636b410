"""Upgrades of a class whose kept copy cannot run, because its module reads a file that is not kept: what the
trial and the commands say, and that `--replay` helps (E7)."""

import asyncio
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from domain import Domain, is_whole
from group_client import Client, run
from test_upgrade import App, explained

from holdfast.client.proxy import Group
from holdfast.model.errors import HoldfastError

pytestmark = pytest.mark.cluster

RATED = """
import json
from pathlib import Path

RATE = json.loads((Path(__file__).parent / "rates.json").read_text())["rate"]

class Counter:
    version = "{version}"

    def __init__(self):
        self.count = 0

    def add(self, by):
        self.count += by * RATE * {times}
        return self.count
"""
NAME = "rated"


class Rated(App):
    """An application with a data file beside its class."""

    def __init__(self, directory: Path) -> None:
        app = directory / "app"
        app.mkdir()
        (app / "rates.json").write_text('{"rate": 1}')
        self.directory = app
        self.write("1", 1)
        self.domain = Domain(directory / "d", "--app", str(app))

    def write(self, version: str, times: int) -> None:
        (self.directory / "rated.py").write_text(RATED.format(version=version, times=times))


def test_a_copy_that_cannot_run_is_told_beforehand_and_new_code_may_replay(tmp_path: Path) -> None:
    """While the old code serves, and after everything was killed; all of it uses one domain, because starting
    one takes long."""
    app = Rated(tmp_path)
    with app.domain:
        app.domain.wait("every host hears every other", is_whole)

        async def three(client: Client) -> None:
            group: Group[Any] = await client.connection.create("rated:Counter", name=NAME)
            await client.wait_in_sync(NAME)
            assert [await group.add(1) for _ in range(3)] == [1, 2, 3]

        run(app.domain, three)
        pids = [host["pid"] for host in app.domain.status()["hosts"]]
        app.write("2", 2)
        for words in (("--dry-run",), ("--yes",)):
            refused = app.group("upgrade", NAME, *words, check=False)
            assert refused.returncode == 1
            assert "No such file or directory: 'rates.json'" in refused.stderr
            assert "--replay" in refused.stderr
        assert pids == [host["pid"] for host in app.domain.status()["hosts"]]

        app.domain.kill()
        app.up()
        run(app.domain, unserved)
        refused = app.group("upgrade", NAME, "--dry-run", check=False)
        assert refused.returncode == 1
        assert "nothing to upgrade" not in refused.stderr
        assert "No such file or directory: 'rates.json'" in refused.stderr

        app.group("upgrade", NAME, "--replay", "--yes")

        async def fourth(client: Client) -> None:
            assert await (await client.group(NAME)).add(1) == 8
            assert (await client.info(NAME)).code.version == "2"  # type: ignore[union-attr]

        run(app.domain, fourth)


async def unserved(client: Client) -> None:
    """Wait until the kept copy has failed; the reason names the file as it lies beside the class."""
    for _ in range(600):
        with suppress(HoldfastError):
            found = await explained(client, NAME)
            whys = [each.why for each in found.group.without_object if "a kept copy was tried" in each.why]
            if whys:
                assert all("directory: 'rates.json'" in each for each in whys), whys
                return
        await asyncio.sleep(0.1)
    raise AssertionError("the kept copy was not tried")
