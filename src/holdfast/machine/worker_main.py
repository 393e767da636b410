"""The process of one worker of a pool: ``python -m holdfast.machine.worker_main PID MEMORY RESULT TARGET``.

PID is its host's, MEMORY how many bytes it may use, RESULT how long an answer may be, and TARGET the function
that does the work, as ``module:function``: it takes the bytes of a job and returns those of a result. Jobs
come one after the other; the process keeps nothing between them that anybody relies upon (W4).
"""

import os
import sys
from collections.abc import Callable
from importlib import import_module
from typing import Final

from holdfast.machine.pipe_frames import framed, read_frame
from holdfast.machine.worker_process import begin_work, restrict_process

DONE: Final = b"\x00"
FAILED: Final = b"\x01"
"""The first byte of an answer: the result follows, or why there is none."""
WHY_BYTES_MAX: Final = 2000

Work = Callable[[bytes], bytes]


def answer_of(work: Work, job: bytes, result_bytes_max: int) -> bytes:
    """Do one job and encode the answer. What the work raises, also ``SystemExit``, is an answer like any
    other: the next job finds the process as this one did."""
    try:
        result = work(job)
    except BaseException as error:
        return FAILED + f"{type(error).__name__}: {error}".encode(errors="replace")[:WHY_BYTES_MAX]
    if len(result) > result_bytes_max:
        return FAILED + f"the result has {len(result)} bytes; at most {result_bytes_max}".encode()
    return DONE + result


def work_at(target: str) -> Work:
    """The function that *target* names. Raises what its module raises as it is imported."""
    module, _, name = target.partition(":")
    found: Work = getattr(import_module(module), name)
    return found


def main() -> None:
    """Do jobs until the host closes the pipe or is gone."""
    answers, read = begin_work(sys.argv), sys.stdin.buffer.read
    memory_bytes, result_bytes_max, target = int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
    restrict_process(memory_bytes)

    def unable(error: BaseException) -> Work:
        def refuse(_: bytes) -> bytes:
            raise error

        return refuse

    try:
        work = work_at(target)
    except BaseException as error:
        work = unable(error)
    while True:
        try:
            job = read_frame(read)
        except EOFError:
            break
        answers.write(framed(answer_of(work, job, result_bytes_max)))
        answers.flush()
    os._exit(0)  # ends everything that the work has started


if __name__ == "__main__":
    main()
