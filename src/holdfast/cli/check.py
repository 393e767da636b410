"""``holdfast check``: say what a class does that its replicas would not do alike."""

import inspect
import sys
from pathlib import Path
from typing import Any

import msgspec

from holdfast.cli.exercising import exercised
from holdfast.cli.output import Output, print_json, say, talk
from holdfast.model.errors import InvalidRequest
from holdfast.node.class_source import BadClass, find_class
from holdfast.node.classes import load_class, offer_classes
from holdfast.sim.class_fences import Caution, cautions_in
from holdfast.sim.exercise import Exercised, Found
from holdfast.styles.capture import Capture, NotCapturable
from holdfast.styles.definition import Definition
from holdfast.styles.interface import Interface

EXIT_CLEAN, EXIT_WARNED = 0, 1
INSTEAD = {
    "state": "an annotation on the class, or get_state and set_state",
    "replay": "hf.context for time and randomness, and attributes of the object for all that it remembers",
    "query": "a method that is not marked as a query",
}
"""By the kind of what was found."""


def check(
    name: str,
    *,
    app: Path | None = None,
    args: str | None = None,
    operations: int = 500,
    seed: int = 0,
    output: Output = "table",
) -> int:
    """Warn of clocks, randomness, threads, IO and set order in the methods of a class, and of a state that
    cannot be captured and read back; ends with 1 when there is any.

    The methods are also called, on objects of this process, with arguments made of their annotations: states
    are read back on the way, and replays compared.

    Parameters
    ----------
    name: The class, as package.module:Class.
    app: Where to import it from; this directory, unless told otherwise.
    args: What to make an object with, as a JSON array, so that its attributes can be looked at.
    operations: How many calls are made; 0 for none, if they have effects outside of the object.
    seed: By which they are drawn.
    output: Lines for people, one JSON object for scripts.
    """
    directory = app or Path.cwd()
    if not directory.is_dir():
        raise InvalidRequest(f"{directory} is not a directory to import classes from")
    # It is this user's own process, in which everything may be imported; a domain's hosts are more careful.
    offer_classes(directory.resolve(), [name])
    cls = load_class(name)
    _say_if_not_offered(name, directory)
    interface = Interface(cls)
    found = [caution for each in _own_classes(cls) for caution in _cautions(each)]
    made_with = _arguments(args)
    captured, why = _capture(cls, made_with)
    tried = Exercised()
    if captured == "no":
        found.append(_not_captured(cls, "__init__", why))
    elif captured == "yes" and operations > 0:
        definition = Definition(group="check", cls=cls, fresh=lambda: cls(*(made_with or ())))
        tried = exercised(definition, operations=operations, seed=seed)
        found += [
            _not_captured(cls, each.operations[-1].method, _told(each), each.kind) for each in tried.found
        ]
    if interface.is_interleaved and not interface.may_wait:
        found.append(_never_waits(cls))
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
        _say_what_was_tried(tried)
        shown = f"{name} (interleaved)" if interface.is_interleaved else name
        _show(shown, changing, queries, captured, why, found)
    return EXIT_WARNED if found else EXIT_CLEAN


def _say_if_not_offered(name: str, app: Path) -> None:
    try:
        find_class(name, [app])
    except BadClass as error:
        talk.print(f"hosts make no groups of it, unless it is allowed: {error}", markup=False)


def _own_classes(cls: type) -> list[type]:
    """The class and those it inherits from, but for the standard library's."""
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


def _capture(cls: type, args: list[Any] | None) -> tuple[str, str]:
    """Whether an object's state can be captured, ``unknown`` when none could be made; and why not."""
    try:
        capture = Capture(cls)
    except NotCapturable as error:
        return "no", str(error)
    try:
        instance = cls(*(args or ()))
    except Exception as error:
        return "unknown", f"no object could be made ({type(error).__name__}: {error}); try --args"
    try:
        capture.check(instance, lambda: cls(*(args or ())))
    except NotCapturable as error:
        return "no", str(error)
    except Exception as error:
        return "no", f"get_state raised {type(error).__name__}: {error}"
    return "yes", ""


def _not_captured(cls: type, method: str, why: str, kind: str = "state") -> Caution:
    file = inspect.getsourcefile(cls) or ""
    line = inspect.getsourcelines(cls)[1] if file else 0
    return Caution(_shown(Path(file)), line, method, kind, why, INSTEAD[kind])


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


def _never_waits(cls: type) -> Caution:
    file = inspect.getsourcefile(cls) or ""
    line = inspect.getsourcelines(cls)[1] if file else 0
    what = "it has no operation that is `async def`, so nothing ever waits"
    return Caution(_shown(Path(file)), line, cls.__name__, "interleaved", what, "no @interleaved")


def _show(
    name: str, operations: list[str], queries: list[str], captured: str, why: str, found: list[Caution]
) -> None:
    say(f"{name}: operations {', '.join(operations) or 'none'}; queries {', '.join(queries) or 'none'}")
    if captured == "unknown":
        talk.print(f"not looked at: whether its state can be captured: {why}", markup=False)
    for each in found:
        say(f"{each.file}:{each.line}: {each.kind} in {each.method}: {each.what}; use {each.instead}")
    say(f"{len(found)} warnings" if found else "nothing to warn of")
