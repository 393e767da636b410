"""What code a class of the application is now, as a process that starts now would have it (E7).

Whoever asks has perhaps imported the class before, and importing runs what its module says: so it is imported
in a process of its own, ``python -m holdfast.node.probing PID``, which ends with its parent, PID.
"""

import asyncio
import os
import signal
import sys
from pathlib import Path
from typing import Final

import msgspec

from holdfast.machine.parent import end_with
from holdfast.model.code import Code
from holdfast.model.errors import Unavailable
from holdfast.model.outcome import error_in_words
from holdfast.node.class_source import BadClass
from holdfast.node.classes import load_code, offer_classes

LIMIT_S: Final = 60.0
ANSWER_BYTES_MAX: Final = 64 << 10
WHY_CHARACTERS_MAX: Final = 1_000
_PROGRAM: Final = ("-P", "-B", "-m", "holdfast.node.probing")


class Probe(msgspec.Struct, frozen=True):
    app: str
    allowed: tuple[str, ...]
    class_name: str


class Probed(msgspec.Struct, frozen=True):
    code: Code = Code()
    why: str = ""
    """It cannot be had."""


async def probe(app: Path, allowed: tuple[str, ...], class_name: str) -> Code:
    """The code of that class in *app*. Raises :class:`BadClass` when it cannot be imported there."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *_PROGRAM,
        str(os.getpid()),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    try:
        async with asyncio.timeout(LIMIT_S):
            asked = msgspec.msgpack.encode(Probe(str(app), allowed, class_name))
            answer, _ = await process.communicate(asked)
        found = msgspec.msgpack.decode(answer[:ANSWER_BYTES_MAX], type=Probed)
    except (TimeoutError, msgspec.DecodeError):
        raise Unavailable(f"{class_name} could not be imported from {app} within {LIMIT_S:g} s") from None
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if found.why:
        raise BadClass(found.why)
    return found.code


def main() -> None:
    """Live, once."""
    end_with(int(sys.argv[1]), signal.SIGKILL)
    answers = os.dup(1)
    os.dup2(2, 1)  # what the module prints as it runs is not the answer
    wanted = msgspec.msgpack.decode(sys.stdin.buffer.read(), type=Probe)
    try:
        offer_classes(Path(wanted.app), wanted.allowed)
        found = Probed(load_code(wanted.class_name)[1].code)
    except BaseException as error:
        # The module's own code, in whatever way it fails.
        found = Probed(why=error_in_words(error)[:WHY_CHARACTERS_MAX])
    os.write(answers, msgspec.msgpack.encode(found))
    os._exit(0)


if __name__ == "__main__":
    main()
