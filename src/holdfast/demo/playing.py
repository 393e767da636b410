"""Playing a story on a replicated object: what `python examples/NAME.py` does.

Starts a domain of its own, or with ``--dir`` goes to the one there; makes a group of the class; lets the
story call it and kill its primary; and leaves nothing behind.
"""

import argparse
import signal
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import uvloop

from holdfast.client.domain import connect
from holdfast.demo.domain import LocalDomain, temporary_domain
from holdfast.machine import log_to_stderr
from holdfast.model.errors import HoldfastError, Unavailable

WHOLE_S: Final = 60.0
"""How long a story waits for its group to be whole before it kills."""
EXIT_FAILED: Final = 1
EXIT_INTERRUPTED: Final = 130


class Stage:
    """What a story has: the group, by a proxy, and the power to kill."""

    def __init__(self, domain: LocalDomain, group: Any, name: str) -> None:
        self._domain = domain
        self._name = name
        self.group = group

    async def kill_primary(self) -> None:
        """As a crash would, once there is somebody to take over."""
        members = len((await self._domain.group(self._name)).placed_on)
        found = await self._domain.wait_in_sync(self._name, members=members, within_s=WHOLE_S)
        if found is None:
            raise Unavailable(f"{self._name} has no member that could take over, after {WHOLE_S:g} s")
        self._domain.signal(found.primary, signal.SIGKILL)
        say(f"kill -9 of {found.primary}, the primary")

    async def primary(self) -> str:
        return (await self._domain.group(self._name)).primary


Story = Callable[[Stage], Awaitable[None]]


def say(text: str) -> None:
    print(text, flush=True)


def play(cls: type, story: Story) -> None:
    """Play *story* on a group of *cls*, the class of the script that is running; ends the process."""
    script = Path(sys.argv[0]).resolve()
    told = sys.modules["__main__"].__doc__
    arguments = argparse.ArgumentParser(
        prog=f"python {sys.argv[0]}", description=told, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    arguments.add_argument("--dir", type=Path, help="a domain that runs with --app examples; else a new one")
    directory: Path | None = arguments.parse_args().dir
    log_to_stderr("warning")
    try:
        uvloop.run(_play(f"{script.stem}:{cls.__name__}", script, directory, story))
    except HoldfastError as error:
        print(f"{script.name}: {error}", file=sys.stderr)
        sys.exit(EXIT_FAILED)
    except KeyboardInterrupt:
        sys.exit(EXIT_INTERRUPTED)


async def _play(class_name: str, script: Path, directory: Path | None, story: Story) -> None:
    async with _domain(script.parent, directory) as domain, connect(await domain.url()) as client:
        name = f"{script.stem}-{time.time_ns():x}"
        group = await client.create(class_name, name=name)
        try:
            await story(Stage(domain, group, name))
        finally:
            await client.delete(name)  # a domain that was there before stays as it was


@asynccontextmanager
async def _domain(app: Path, directory: Path | None) -> AsyncIterator[LocalDomain]:
    if directory is not None:
        yield LocalDomain(directory)
        return
    say("starting three hosts on this machine ...")
    async with temporary_domain(app) as domain:
        yield domain
