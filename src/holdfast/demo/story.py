"""Plays a story on a replicated object, as `python examples/NAME.py` does.

It starts its own domain, or with ``--dir`` uses the one there; creates a group of the class; lets the story
call it and kill its primary; and removes what it created.
"""

import argparse
import signal
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import uvloop

from holdfast.client.domain import Domain, connect
from holdfast.demo.domain import LocalDomain, temporary_domain
from holdfast.machine import log_to_stderr
from holdfast.model.errors import HoldfastError, Unavailable

WHOLE_S: Final = 60.0
"""How long a story waits for its group to be whole before it kills."""
EXIT_FAILED: Final = 1
EXIT_INTERRUPTED: Final = 130


class Stage:
    """What a story works with: a proxy of the group, and methods to create others and to kill."""

    def __init__(
        self, domain: LocalDomain, client: Domain, group: Any, name: str, options: argparse.Namespace
    ) -> None:
        self._domain = domain
        self._client = client
        self.name = name
        self.group = group
        self.options = options
        """The options that the story takes on its command line."""
        self.others: list[str] = []

    async def create(self, cls: type, arguments: list[Any]) -> tuple[str, Any]:
        """Create one more group of a class of the script; return its name and its proxy.

        It is removed after the story.
        """
        name = f"{self.name}-{len(self.others) + 1}"
        script, _, _ = self.name.rpartition("-")
        group = await self._client.create(f"{script}:{cls.__name__}", name=name, args=arguments)
        self.others.append(name)
        return name, group

    async def kill_primary(self, name: str = "") -> None:
        """Kill the primary, as a crash would, once another member could take over."""
        name = name or self.name
        members = len((await self._domain.group(name)).placed_on)
        found = await self._domain.wait_in_sync(name, members=members, within_s=WHOLE_S)
        if found is None:
            raise Unavailable(f"{name} has no member that could take over, after {WHOLE_S:g} s")
        self._domain.signal(found.primary, signal.SIGKILL)
        say(f"kill -9 of {found.primary}, the primary")

    async def primary(self) -> str:
        return (await self._domain.group(self.name)).primary


Story = Callable[[Stage], Awaitable[None]]


def say(text: str) -> None:
    print(text, flush=True)


def play(cls: type, story: Story, options: Mapping[str, Mapping[str, Any]] | None = None) -> None:
    """Play *story* on a group of *cls*, the class of the script that is running; ends the process.

    *options* are the story's own, in the form that ``argparse`` takes.
    """
    script = Path(sys.argv[0]).resolve()
    told = sys.modules["__main__"].__doc__
    arguments = argparse.ArgumentParser(
        prog=f"python {sys.argv[0]}", description=told, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    arguments.add_argument("--dir", type=Path, help="a domain that runs with --app examples; else a new one")
    for name, kind in (options or {}).items():
        arguments.add_argument(name, **kind)
    chosen = arguments.parse_args()
    log_to_stderr("warning")
    try:
        uvloop.run(_play(f"{script.stem}:{cls.__name__}", script, chosen, story))
    except HoldfastError as error:
        print(f"{script.name}: {error}", file=sys.stderr)
        sys.exit(EXIT_FAILED)
    except KeyboardInterrupt:
        sys.exit(EXIT_INTERRUPTED)


async def _play(class_name: str, script: Path, options: argparse.Namespace, story: Story) -> None:
    async with (
        _domain(script.parent, options.dir) as domain,
        connect(await domain.url(), dir=domain.layout.directory) as client,
    ):
        name = f"{script.stem}-{time.time_ns():x}"
        stage = Stage(domain, client, await client.create(class_name, name=name), name, options)
        try:
            await story(stage)
        finally:
            for each in (*stage.others, name):
                await client.delete(each)  # a domain that existed before stays as it was


@asynccontextmanager
async def _domain(app: Path, directory: Path | None) -> AsyncIterator[LocalDomain]:
    if directory is not None:
        yield LocalDomain(directory)
        return
    say("starting three hosts on this machine ...")
    async with temporary_domain(app) as domain:
        yield domain
