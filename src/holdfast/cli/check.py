"""``holdfast check``: warn of what a class does that its replicas would not do alike.

It reads the source, and runs the class's own methods in this process with made-up arguments, for a limited
time.
"""

import inspect
import os
import resource
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from types import FrameType
from typing import Any, Final, ParamSpec

import msgspec

from holdfast.app_code.finder import BadClass, find_class
from holdfast.app_code.loader import SYSTEM_CLASSES, load_class, offer_classes
from holdfast.cli.output import Output, print_json, say, talk
from holdfast.execution.capture import NoStateAvailable, NotCapturable
from holdfast.execution.database import check_schema
from holdfast.execution.definition import Definition, NotMade
from holdfast.execution.interface import Interface
from holdfast.execution.timers import Timers
from holdfast.model.errors import EndsProcess, InvalidRequest, Unavailable
from holdfast.model.outcome import error_in_words
from holdfast.sim.exercise import Exercised, Found, TooSlow, Unfinished, exercise
from holdfast.sim.lint.class_rules import INSTEAD as AWAIT_INSTEAD
from holdfast.sim.lint.class_rules import Caution, cautions_in
from holdfast.sim.lint.set_order import INSTEAD as ORDER_INSTEAD

P = ParamSpec("P")

WITHIN_S: Final = 30.0
"""The time for all operations."""
OPERATION_S: Final = 1.0
"""The time for one operation: a loop over a made-up number may take for ever."""
MEMORY_BYTES: Final = 2 << 30
"""Memory on top of what this process has: a list of a made-up length must not take all of the machine's."""
TOLD_EVERY_S: Final = 2.0


class _OutOfTime(EndsProcess):
    """Raised within a method that takes too long; no method can take it for an exception of its own."""


def exercised(definition: Definition, *, operations: int, seed: int) -> Exercised:
    """What so many operations of the class's methods find; prints its progress if it takes long."""
    until_s = time.monotonic() + WITHIN_S
    told_s = time.monotonic()

    def progress(done: int) -> None:
        nonlocal told_s
        if time.monotonic() - told_s >= TOLD_EVERY_S:
            told_s = time.monotonic()
            talk.print(f"tried {done} of {operations} operations")

    def run(work: Callable[[], list[bytes]]) -> list[bytes]:
        if time.monotonic() >= until_s:
            raise Unfinished
        signal.setitimer(signal.ITIMER_REAL, OPERATION_S)
        try:
            return work()
        except _OutOfTime:
            raise TooSlow from None
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)

    with _bounded():
        return exercise(definition, operations=operations, seed=seed, progress=progress, run=run)


@contextmanager
def _bounded() -> Iterator[None]:
    before = signal.signal(signal.SIGALRM, _end)
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    with open("/proc/self/statm", encoding="ascii") as statm:
        has_bytes = int(statm.read().split()[0]) * resource.getpagesize()
    wanted = has_bytes + MEMORY_BYTES
    if hard == resource.RLIM_INFINITY or wanted < hard:
        resource.setrlimit(resource.RLIMIT_AS, (wanted, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
        signal.signal(signal.SIGALRM, before)


def _end(number: int, frame: FrameType | None) -> None:
    raise _OutOfTime


EXIT_CLEAN, EXIT_WARNED = 0, 1
INSTEAD = {
    "state": "an annotation on the class, or get_state and set_state",
    "replay": "hf.context for time and randomness, and attributes of the object for all that it remembers",
    "query": "a method that is not marked as a query",
    "order": ORDER_INSTEAD,
    "result": "the annotation of what it returns: callers who have the class get ResultDoesNotFit",
    "await": AWAIT_INSTEAD,
}
"""What to use instead, by the kind of problem."""


def in_child(command: Callable[P, int]) -> Callable[P, int]:
    """Run *command* in a child of this process, which tells if a class has ended it. The child goes on with
    whatever follows the command, and this process returns its exit code."""

    @wraps(command)
    def run(*args: P.args, **kwargs: P.kwargs) -> int:
        told, tell = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(told)
            try:
                return command(*args, **kwargs)
            finally:
                os.write(tell, b".")
        os.close(tell)
        with open(told, "rb") as end:
            is_told = bool(end.read(1))
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        if not is_told:
            how = f"by {signal.Signals(-code).name}" if code < 0 else f"with exit code {code}"
            raise Unavailable(
                f"the class ended the process in which it was tried, {how}, as it would end a host; "
                "--operations 0 calls none of its methods"
            )
        return code

    return run


def check(
    name: str,
    *,
    app: Path | None = None,
    args: str | None = None,
    allowed: bool = False,
    operations: int = 500,
    seed: int = 0,
    output: Output = "table",
) -> int:
    """Warn of whatever in a class would make its replicas differ.

    That is clocks, randomness, threads, IO and set order in its methods, calls that are not awaited, and a
    state that cannot be captured and read back. The exit code is 1 if there is any, or if no object could be
    created to examine.

    The methods are also called, on objects in a process of their own, with arguments generated from their
    annotations: states are read back, replays compared, and results checked against the declared return
    types.

    Parameters
    ----------
    name: The class, as package.module:Class.
    app: The directory to import it from; by default the current one.
    args: The arguments to create an object with, as a JSON array, so that its attributes can be examined.
    allowed: The class is defined elsewhere, but allowed by name, as by holdfast up --allow-class.
    operations: How many calls are made; 0 for none, if they have effects outside of the object.
    seed: The seed for choosing the calls.
    output: Lines for people, one JSON object for scripts.
    """
    if operations < 0:
        raise InvalidRequest(f"{operations} operations cannot be tried; 0 tries none")
    directory = app or Path.cwd()
    if not directory.is_dir():
        raise InvalidRequest(f"{directory} is not a directory to import classes from")
    # This is the user's own process, in which everything may be imported; a domain's hosts are more careful.
    offer_classes(directory.resolve(), [name])
    cls = load_class(name)
    interface = Interface(cls)
    found = [] if allowed else list(_not_offered(name, cls, directory))
    found += [caution for each in _own_classes(cls) for caution in _cautions(each)]
    captured, definition, why = _captured(cls, _arguments(args))
    tried = Exercised()
    if definition is None:
        found.append(_about(cls, "__init__", "made" if captured == "unknown" else "state", why, args=args))
    elif operations > 0 and not definition.is_stored:  # its database is nowhere here
        tried = exercised(definition, operations=operations, seed=seed)
        read = {(each.method, each.kind) for each in found}
        found += [
            _about(cls, each.operations[-1].method, each.kind, _told(each))
            for each in tried.found
            if each.kind not in ("await", "order") or (each.operations[-1].method, each.kind) not in read
        ]
    if interface.is_interleaved and not interface.may_wait:
        what = "it has no operation that is `async def`, so nothing ever waits"
        found.append(_about(cls, cls.__name__, "interleaved", what, "no @interleaved"))
    queries = sorted(each.name for each in interface.operations.values() if each.is_query)
    changing = sorted(interface.operations.keys() - queries)
    if output == "json":
        print_json(
            {
                "class": name,
                "operations": changing,
                "queries": queries,
                "interleaved": interface.is_interleaved,
                "captured": captured,
                "tried": _tried(tried, seed),
                "warnings": [{field: getattr(each, field) for field in Caution.__slots__} for each in found],
            }
        )
    else:
        if not operations:
            talk.print("no method was called: only the source and a new object were examined")
        _say_what_was_tried(tried)
        shown = f"{name} (interleaved)" if interface.is_interleaved else name
        _show(shown, changing, queries, found)
    return EXIT_WARNED if found else EXIT_CLEAN


def _not_offered(name: str, cls: type, app: Path) -> Iterator[Caution]:
    try:
        find_class(name, [app])
    except BadClass as error:
        if name not in SYSTEM_CLASSES:
            own = f"{cls.__module__}:{cls.__qualname__}"
            instead = f"{own}, where it is defined; or `holdfast up --allow-class {name}`, and --allowed here"
            yield _about(cls, cls.__name__, "place", f"hosts make no groups of it: {error}", instead)


def _own_classes(cls: type) -> list[type]:
    """The class and its bases, except those of the standard library."""
    return [each for each in cls.__mro__ if each.__module__.partition(".")[0] not in sys.stdlib_module_names]


def _cautions(cls: type) -> list[Caution]:
    try:
        file = inspect.getsourcefile(cls)
    except TypeError:
        file = None
    if file is None or not Path(file).is_file():
        talk.print(f"{cls.__module__}.{cls.__qualname__} has no source to read")
        return []
    return cautions_in(Path(file).read_text(encoding="utf-8"), _shown(Path(file)), cls.__qualname__)


def _shown(file: Path) -> str:
    here = Path.cwd()
    return str(file.relative_to(here)) if file.is_relative_to(here) else str(file)


def _arguments(args: str | None) -> list[Any] | None:
    try:
        return None if args is None else msgspec.json.decode(args, type=list[Any])
    except msgspec.DecodeError as error:
        raise InvalidRequest(f"--args is not a JSON array: {error}") from None


def _captured(cls: type, args: list[Any] | None) -> tuple[str, Definition | None, str]:
    """Whether a state can be captured (``unknown`` if no object could be made), how one is made, and
    why not.
    """
    try:
        definition = Definition(group="check", cls=cls, fresh=lambda: cls(*(args or ())))
        instance = definition.make(Timers())
    except NotCapturable as error:
        return "no", None, str(error)
    except NotMade as error:
        return "unknown", None, f"nothing was tried: {error}"
    try:
        definition.capture.check(instance, definition.spare)
        if definition.is_stored:
            check_schema(cls)
    except NoStateAvailable:
        return "yes", definition, ""
    except InvalidRequest as error:
        return "no", None, str(error)
    except Exception as error:
        return "no", None, f"get_state raised {error_in_words(error)}"
    return "yes", definition, ""


def _about(
    cls: type, method: str, kind: str, what: str, instead: str = "", *, args: str | None = None
) -> Caution:
    """A warning that has no line of its own."""
    try:
        file, line = inspect.getsourcefile(cls) or "", inspect.getsourcelines(cls)[1]
    except (TypeError, OSError):
        file, line = "", 0  # it has no source
    if kind == "made":
        instead = "other --args" if args is not None else """--args with what it is made of, as '["a", 1]'"""
    return Caution(_shown(Path(file)), line, method, kind, what, instead or INSTEAD[kind])


def _told(found: Found) -> str:
    return f"{found.what}, after {'; '.join(map(str, found.operations))}"


def _tried(tried: Exercised, seed: int) -> dict[str, Any]:
    return {
        "operations": tried.operations,
        "seed": seed,
        "is_finished": tried.is_finished,
        "not_called": tried.not_made,
        "too_slow": tried.too_slow,
        "found": [
            {"kind": each.kind, "what": each.what, "operations": [*map(str, each.operations)]}
            for each in tried.found
        ],
    }


def _say_what_was_tried(tried: Exercised) -> None:
    for method, why in tried.not_made.items():
        talk.print(f"not called: {method}: {why}", markup=False)
    for call in tried.too_slow.values():
        talk.print(f"not called any more, as it takes too long: {call}", markup=False)
    if not tried.is_finished:
        talk.print(f"out of time after {tried.operations} operations")


def _show(name: str, operations: list[str], queries: list[str], found: list[Caution]) -> None:
    say(f"{name}: operations {', '.join(operations) or 'none'}; queries {', '.join(queries) or 'none'}")
    for each in found:
        say(f"{each.file}:{each.line}: {each.kind} in {each.method}: {each.what}; use {each.instead}")
    say(f"{len(found)} {'warning' if len(found) == 1 else 'warnings'}" if found else "nothing to warn of")


command: Final = in_child(check)
"""What people run."""
