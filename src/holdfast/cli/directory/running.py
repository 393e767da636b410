"""What commands of the directory have in common: the loop they run on, whose files they mean."""

import asyncio
from collections.abc import Coroutine
from typing import TypeVar

import uvloop

from holdfast.machine.files import close_to_others
from holdfast.model.errors import InvalidRequest

Answer = TypeVar("Answer")


def run(work: Coroutine[object, object, Answer]) -> Answer:
    """Run *work* to its end; all files that it makes are this user's alone."""
    close_to_others()
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(work)


def checked_replica(number: int) -> int:
    """A master's number, if there may be such a one."""
    if not 0 < number < 0xFFFF:
        raise InvalidRequest(f"a replica's number is from 1 to {0xFFFF - 1}, not {number}")
    return number
