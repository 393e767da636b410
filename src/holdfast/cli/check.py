"""``holdfast check``: say what a class does that its replicas would not do alike."""

import inspect
import sys
from pathlib import Path
from typing import Any

import msgspec

from holdfast.cli.output import Output, print_json, talk
from holdfast.model.errors import InvalidRequest
from holdfast.node.class_source import BadClass, find_class
from holdfast.node.classes import load_class, offer_classes
from holdfast.sim.class_fences import Caution, cautions_in
from holdfast.styles.capture import Capture, NotCapturable
from holdfast.styles.interface import Interface

EXIT_CLEAN, EXIT_WARNED = 0, 1
STATE_INSTEAD = "an annotation on the class, or get_state and set_state"


def check(name: str, *, app: Path | None = None, args: str | None = None, output: Output = "table") -> int:
    """Warn of clocks, randomness, threads, IO and set order in the methods of a class, and of attributes that
    cannot be captured; ends with 1 when there is any.

    Parameters
    ----------
    name: The class, as package.module:Class.
    app: Where to import it from; this directory, unless told otherwise.
    args: What to make an object with, as a JSON array, so that its attributes can be looked at.
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
    captured, why = _capture(cls, _arguments(args))
    if captured == "no":
        found.append(_not_captured(cls, why))
    queries = sorted(each.name for each in interface.operations.values() if each.is_query)
    operations = sorted(interface.operations.keys() - queries)
    if output == "json":
        print_json(
            {
                "class": name,
                "operations": operations,
                "queries": queries,
                "captured": captured,
                "warnings": [{field: getattr(each, field) for field in Caution.__slots__} for each in found],
            }
        )
    else:
        _show(name, operations, queries, captured, why, found)
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


def _not_captured(cls: type, why: str) -> Caution:
    file = inspect.getsourcefile(cls) or ""
    line = inspect.getsourcelines(cls)[1] if file else 0
    return Caution(_shown(Path(file)), line, "__init__", "state", why, STATE_INSTEAD)


def _show(
    name: str, operations: list[str], queries: list[str], captured: str, why: str, found: list[Caution]
) -> None:
    print(f"{name}: operations {', '.join(operations) or 'none'}; queries {', '.join(queries) or 'none'}")
    if captured == "unknown":
        talk.print(f"not looked at: whether its state can be captured: {why}", markup=False)
    for each in found:
        print(f"{each.file}:{each.line}: {each.kind} in {each.method}: {each.what}; use {each.instead}")
    print(f"{len(found)} warnings" if found else "nothing to warn of")
