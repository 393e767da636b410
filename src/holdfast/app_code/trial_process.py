"""Tries new code on a group's state in a separate process, and changes nothing (E7).

``python -m holdfast.app_code.trial_process PID`` imports the class as a host that starts now would, loads the
state from its standard input, upgrades it to the new code, and reports what it finds. Then it replays with
the new code what was executed since the checkpoint, and compares the results.
"""

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from holdfast.app_code.loader import definition_of, offer_classes
from holdfast.app_code.replay_messages import Chunk, Ordered, ToProcess, to_process
from holdfast.authority.groups import GroupRecord
from holdfast.execution.capture import Capture, attribute_names
from holdfast.execution.definition import Definition, bring_up_to_date
from holdfast.execution.execution import Execution
from holdfast.execution.read_back import in_short
from holdfast.execution.records import Calls, Executed, Upgraded, decode_calls, decode_record
from holdfast.execution.timers import Timers
from holdfast.machine.pipe_frames import framed, read_frame
from holdfast.machine.worker_process import begin_work, restrict_process, run_in_loop
from holdfast.model.code import Code
from holdfast.model.ids import Position
from holdfast.model.outcome import error_in_words
from holdfast.sequence.ports import Captured
from holdfast.storage.record import Record, decode
from holdfast.styles.code_change import continued

SAYS_MAX: Final = 100
"""The most differences that are reported."""
WORDS_MAX: Final = 500


class Trial(msgspec.Struct, frozen=True, kw_only=True):
    """Describes the trial.

    The chunks of the group's state follow, then those of the checkpoint, then the records after it, then
    ``End``.
    """

    record: GroupRecord
    app: str
    allowed: tuple[str, ...]
    memory_bytes: int
    position: Position
    """The position of the state."""
    state_chunks: int
    checkpoint_position: Position
    checkpoint_chunks: int
    """0 when the group started without a checkpoint."""
    operations: tuple[str, ...] = ()
    """The operations of the class that serves now."""


class Tried(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a trial."""

    code: Code = Code()
    """The code of the class as it is there now."""
    refused: str = ""
    """Why the group could not continue with the new code; empty when it could."""
    says: tuple[str, ...] = ()
    """The differences that the new code would make."""


def tried(wanted: Trial, state: bytes, checkpoint: bytes | None, records: list[Record]) -> Tried:
    """Run the trial. *checkpoint* is None when the group started without one."""
    offer_classes(Path(wanted.app), wanted.allowed)
    definition = definition_of(wanted.record)
    try:
        execution = Execution.load(definition, state)
        loaded = attributes(definition, execution.line.instance)
        before = execution.code
        says = in_line(execution)
        execution.apply(Position(execution.position + 1), Upgraded(before, definition.code))
    except Exception as error:
        # The class's own code may fail in any way.
        return Tried(code=definition.code, refused=error_in_words(error)[:WORDS_MAX])
    instance = execution.line.instance
    after = attributes(definition, instance)
    says += [*methods(definition, wanted.operations), *added(loaded, after), *shape(definition, instance)]
    kept = {name: each for name, each in after.items() if name in loaded}
    says += replayed(definition, before, wanted, kept, checkpoint, records)
    return Tried(code=definition.code, says=tuple(each[:WORDS_MAX] for each in says[:SAYS_MAX]))


def in_line(execution: Execution) -> list[str]:
    """Take out what stands in line behind a call that waits for another group, and say so.

    A busy group's state is captured between two calls, so others may stand in line in it. The old code still
    executes them before an upgrade (E12), but without the other groups nobody can execute them here.
    """
    count = len(execution.line.queue)
    execution.line.queue.clear()
    if not count:
        return []
    calls = "1 call that waits" if count == 1 else f"{count} calls that wait"
    return [f"tried on the state at position {execution.position}, before {calls} in line there"]


def methods(definition: Definition, before: Iterable[str]) -> Iterator[str]:
    """The methods that callers will not find any more. Nobody can miss a method that is new."""
    for name in sorted(set(before) - definition.interface.operations.keys()):
        yield f"{name} is no method of {definition.cls.__name__} any more: calls of it are refused"


def shape(definition: Definition, instance: object) -> Iterator[str]:
    """How the attributes after the upgrade differ from those of a new object."""
    made = definition.apart().make(Timers())
    old, new = set(attribute_names(instance)), set(attribute_names(made))
    for name in sorted(old - new):
        yield f"{name} stays as it is, though a new object has none"
    for name in sorted(old & new):
        was, now = getattr(instance, name), getattr(made, name)
        if type(was) is not type(now) and was is not None and now is not None:
            yield f"{name} is of type {type(was).__name__}, and {type(now).__name__} in a new object"


class Value(NamedTuple):
    """The value of an attribute."""

    digest: bytes
    """The same for equal values."""
    text: str
    """For people; empty when there is nothing to show."""


def added(before: Mapping[str, Value], after: Mapping[str, Value]) -> Iterator[str]:
    """What the class changed in the state when it took the state over."""
    for name in sorted(after.keys() - before.keys()):
        yield f"{name} is new{_colon(after[name].text)}"
    for name in sorted(before.keys() & after.keys()):
        was, now = before[name], after[name]
        if was.digest != now.digest:
            yield f"{name} is changed as the class is upgraded{_from(was, now)}"
    for name in sorted(before.keys() - after.keys()):
        yield f"{name} is removed as the class is upgraded{_colon(before[name].text)}"


def replayed(
    definition: Definition,
    made_by: Code,
    wanted: Trial,
    kept: Mapping[str, Value],
    checkpoint: bytes | None,
    records: list[Record],
) -> Iterator[str]:
    """How the state would differ if the new code had executed the calls since the checkpoint.

    *kept* is the state after the old code executed them and the state was upgraded.
    """
    if not records or records[-1].last != wanted.position:
        return
    since = "the calls since the beginning"
    if wanted.checkpoint_position:
        since = f"the calls since checkpoint {wanted.checkpoint_position}"
    lost = sorted(set(called(records)) - definition.interface.operations.keys())
    if lost:
        yield f"{since} cannot be compared: {definition.cls.__name__} has no {', '.join(lost)}"
        return
    held = Captured(wanted.checkpoint_position, checkpoint) if checkpoint is not None else None

    def prepare(execution: Execution) -> None:
        if held is not None:
            instance, timers = execution.line.instance, execution.timers
            bring_up_to_date(definition, instance, timers, made_by, execution.position, execution.time_ns)

    try:
        as_then = replace(definition, code=made_by)
        came = continued(as_then, held, records, is_stand_in=True, prepare=prepare)
    except Exception as error:
        yield f"the new code could not execute {since}: {error_in_words(error)}"
        return
    if not isinstance(came, Execution):
        yield f"{since} cannot be compared: one of them waits for another group or for its own end"
        return
    found = attributes(definition, came.line.instance)
    for name in sorted(found.keys() & kept.keys()):
        if found[name].digest != kept[name].digest:
            would, stays = found[name].text, kept[name].text
            would = f"would be {would}; it stays {stays}" if would else "would be another; it stays as it is"
            yield f"had the new code executed {since}, {name} {would}"


def called(records: Iterable[Record]) -> Iterator[str]:
    """The methods that these records executed for callers."""
    for each in records:
        record = decode_record(each.body)
        if isinstance(record, Calls | Executed):
            yield from (call.method for call in decode_calls(record.sent.calls))


def attributes(definition: Definition, instance: Any) -> dict[str, Value]:
    """The attributes by name; for a class that provides its own state, only that state."""
    if definition.capture.is_checkpointable:
        return {"the state": Value(definition.capture.digest_of(instance), "")}
    return {
        name: Value(_encoded(definition.capture, instance, name), in_short(getattr(instance, name)))
        for name in attribute_names(instance)
    }


def _colon(text: str) -> str:
    return f": {text}" if text else ""


def _from(was: Value, now: Value) -> str:
    return f": {was.text} becomes {now.text}" if was.text and was.text != now.text else ""


def _encoded(capture: Capture, instance: Any, name: str) -> bytes:
    class Alone:
        pass

    alone = Alone()
    setattr(alone, name, getattr(instance, name))
    return capture.digest_of(alone)


def read(wanted: Trial, following: Callable[[], ToProcess]) -> tuple[bytes, bytes | None, list[Record]]:
    """Read the state, the checkpoint and the records that follow the trial in the pipe."""

    def chunks(count: int) -> bytes:
        found = [following() for _ in range(count)]
        return b"".join(each.data for each in found if isinstance(each, Chunk))

    state = chunks(wanted.state_chunks)
    checkpoint = chunks(wanted.checkpoint_chunks) if wanted.checkpoint_chunks else None
    records = []
    while isinstance(found := following(), Ordered):
        records.append(decode(found.data))
    return state, checkpoint, records


def main() -> None:
    """Process one trial, then end."""
    answers, take = begin_work(sys.argv), sys.stdin.buffer.read
    wanted = msgspec.msgpack.decode(read_frame(take), type=Trial)
    restrict_process(wanted.memory_bytes)
    try:
        given = read(wanted, lambda: to_process.decode(read_frame(take)))
        found = run_in_loop(lambda: tried(wanted, *given))
    except BaseException as error:
        # The module's own code may fail when it is imported, or memory may have run out.
        found = Tried(refused=error_in_words(error)[:WORDS_MAX])
    answers.write(framed(msgspec.msgpack.encode(found)))
    answers.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
