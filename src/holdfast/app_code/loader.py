"""Loads the classes of groups: those that the application defines, and those that its operator allows.

A class is found before anything is imported, and :func:`why_no_service` checks it before an object is
created.
"""

import enum
import importlib
import inspect
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any, Final

import msgspec

from holdfast.app_code.annex_table import annexes_of
from holdfast.app_code.digest import AppModules, ClassCode, code_of
from holdfast.app_code.finder import BadClass, ClassName, ModuleSource, find_class, find_value
from holdfast.authority.groups import GroupRecord
from holdfast.control.replication.criteria import ARGUMENTS, decoded
from holdfast.execution.capture import Checkpointable
from holdfast.execution.definition import Definition, NotMade
from holdfast.execution.execution import Execution
from holdfast.execution.interface import interface_of
from holdfast.execution.method import run_own
from holdfast.faults.notifier import Notifier
from holdfast.groups.settings import is_self_kept
from holdfast.model.admin.errors import ObjectNotAdded
from holdfast.model.errors import InvalidRequest
from holdfast.model.ids import HostId
from holdfast.model.outcome import error_in_words
from holdfast.model.properties import Style
from holdfast.styles.by_name import style_named

HEAP_TYPE: Final = 1 << 9
"""The bit of ``__flags__`` for a class made by a class statement, not by the interpreter or an extension."""
KINDS: Final[dict[type, str]] = {
    BaseException: "it is an exception",
    type: "it is a metaclass",
    enum.Enum: "it is an enumeration",
}
NAMES_SHOWN: Final = 5


def why_no_service(cls: type) -> str | None:
    """Say in words why no group can be of *cls*; None when one can."""
    if not cls.__flags__ & HEAP_TYPE:
        return "it is built in"
    for kind, said in KINDS.items():
        if issubclass(cls, kind):
            return said
    if getattr(cls, "_is_protocol", False):
        return "it is a protocol, of which no object is made"
    if inspect.isabstract(cls):
        lacking = ", ".join(sorted(getattr(cls, "__abstractmethods__", ()))[:NAMES_SHOWN])
        return f"it is abstract: it does not implement {lacking}"
    if not interface_of(cls).operations:
        return "it has no public method to call"
    return None


class BadObject(BadClass):
    """Raised when a class exists but fails to create an object."""

    exception = "ObjectNotCreated"

    @property
    def about(self) -> dict[str, Any]:
        return {}


SYSTEM_CLASSES: Final = frozenset({f"{Notifier.__module__}:{Notifier.__qualname__}"})
"""Holdfast's own classes, of which every domain may have groups."""
MOVED: Final[dict[str, str]] = {}
"""Names of Holdfast's own classes in earlier releases, and their names now: the records of groups keep the
old names forever. A class that moves gets an entry."""


@dataclass(slots=True)
class _Offered:
    """What groups of this process may be made of. There is one instance, as there is one ``sys.path``."""

    apps: list[Path] = field(default_factory=list)
    """The application's directories, in search order."""
    allowed: set[str] = field(default_factory=lambda: set(SYSTEM_CLASSES))
    """Names of the allowed classes, wherever they are installed."""
    loaded: dict[str, tuple[ModuleType, type, ClassCode]] = field(default_factory=dict)
    """Classes that were found, imported and checked; no more than the application has."""


_offered: Final = _Offered()
_modules: Final = AppModules(lambda: _offered.apps)


def offer_classes(app: Path, allowed: Iterable[str] = ()) -> None:
    """Let groups be made of the classes that modules in *app* define, and of those in *allowed*.

    Imports search *app* first. Classes in *allowed* may be installed anywhere.
    """
    text = str(app)
    if text not in sys.path:
        sys.path.insert(0, text)
    if app in _offered.apps:
        _offered.apps.remove(app)
    _offered.apps.insert(0, app)
    _offered.allowed.update(allowed)
    _modules.install()


def app_directories() -> tuple[Path, ...]:
    """The directories from which classes are imported."""
    return tuple(_offered.apps)


def allowed_classes() -> tuple[str, ...]:
    """The classes of which groups may be made wherever they are installed."""
    return tuple(sorted(_offered.allowed))


def check_offered(name: str) -> None:
    """Check that groups may be made of the class *name* here; imports nothing. Raises :class:`BadClass`."""
    if name not in _offered.allowed:
        find_class(name, _offered.apps)


def load_class(name: str) -> type:
    """Load the class ``package.module:Class``.

    It is found before anything is imported, and checked before an object is created. Raises :class:`BadClass`
    with the reason.
    """
    return load_code(name)[0]


def load_code(name: str) -> tuple[type, ClassCode]:
    """Load a class with the code that was imported, whatever the files hold now (E7)."""
    name = MOVED.get(name, name)
    known = _offered.loaded.get(name)
    if known is not None and sys.modules.get(known[0].__name__) is known[0]:
        return known[1:]
    if name in _offered.allowed:
        wanted = ClassName.parse(name)
        module = _imported(wanted.module)
    else:
        source = find_class(name, _offered.apps)
        wanted, module = source.name, _imported_from(source.source)
    found = _within(module, wanted.path)
    if not isinstance(found, type):
        raise BadClass(f"{wanted.module} has no class {wanted.path!r}")
    if name not in _offered.allowed and found.__module__ != wanted.module:
        # Its module defines the class but replaces it by another one when it runs.
        said = f"{wanted.module} puts {found.__module__}:{found.__qualname__} in its place"
        raise BadClass(f"{wanted} is not a class of the application: {said}")
    if (why := why_no_service(found)) is not None:
        raise BadClass(f"{wanted} cannot be a group's class: {why}")
    code = code_of(found, _modules.text)
    _offered.loaded[name] = (module, found, code)
    return found, code


def own_object(name: str, record: GroupRecord) -> Any:
    """The application's own object ``package.module:name``, if it can be a member of that group.

    Raises ``ObjectNotAdded`` with the reason.
    """
    try:
        cls = load_class(record.class_name)
        found = _within(_imported_from(find_value(name, _offered.apps)), ClassName.parse(name).path)
    except BadClass as error:
        raise ObjectNotAdded(str(error)) from None
    if not isinstance(found, cls):
        raise ObjectNotAdded(f"{name} is no object of {record.class_name}")
    if _takes_state(record) and not isinstance(found, Checkpointable):
        said = "it takes the group's state, and so must have get_state and set_state"
        raise ObjectNotAdded(f"{name} cannot be a member: {said}")
    return found


def _imported_from(source: ModuleSource) -> ModuleType:
    """Import the module of that file. Raises :class:`BadClass`, also when another module has its name."""
    module = _imported(source.module)
    file = getattr(module, "__file__", None)
    if file is None or Path(file).resolve() != source.file:
        said = f"{source.module} is {file or 'a module of Python itself'} here already"
        raise BadClass(f"{source.file} cannot be imported: {said}; give the file another name")
    return module


def _imported(name: str) -> ModuleType:
    """Import a module; raises :class:`BadClass`."""
    importlib.invalidate_caches()  # the file may be newer than the finder's cached listing of its directory
    try:
        return run_own(importlib.import_module, name)
    except Exception as error:
        # Importing runs the user's code, which may fail in any way.
        raise BadClass(f"{name} cannot be imported: {error_in_words(error)}") from None


def _within(module: ModuleType, path: str) -> Any:
    """The attribute of a module by its dotted path; None when there is none."""
    found: Any = module
    for part in path.split("."):
        found = getattr(found, part, None)
    return found


def definition_of(record: GroupRecord, host: HostId | None = None) -> Definition:
    """The definition of the group's object according to *record*, or that of the member on *host*.

    Raises :class:`BadClass`, ``NotCapturable``.
    """
    try:
        cls, found = load_code(record.class_name)
    except BadClass as error:
        error.type_id = record.class_name
        raise
    try:
        arguments = msgspec.json.decode(record.arguments, type=list[Any])
    except msgspec.DecodeError as error:
        raise BadObject(f"the arguments of {record.class_name} are not a JSON array: {error}") from None
    try:
        annexes = annexes_of(record, cls)
    except InvalidRequest as error:
        raise BadClass(str(error)) from None
    entry = record.placement(host) if host is not None else None
    if entry is not None and style_named(record.style) is Style.STATELESS:
        # Members of a stateless group may have different arguments: they share no state (FTC-126).
        arguments = decoded(entry.criteria).get(ARGUMENTS, arguments)
    return Definition(
        group=record.name or str(record.group),
        cls=cls,
        fresh=lambda: cls(*arguments),
        own=_own(record, entry.own) if entry is not None and entry.own else None,
        code=found.code,
        created_ns=record.created_ns,
        annexes=annexes,
    )


def _own(record: GroupRecord, name: str) -> Callable[[object], object]:
    """A function that makes the application's own object the member (FTC-234).

    The group determines its state, as for every member: it starts with the state of a newly created object.
    """
    own, takes_state = own_object(name, record), _takes_state(record)

    def taken(made: Any) -> object:
        if takes_state:
            own.set_state(made.get_state())
        return own

    return taken


def _takes_state(record: GroupRecord) -> bool:
    """Whether the members of the group have a state that the infrastructure keeps."""
    return style_named(record.style) is not Style.STATELESS and not is_self_kept(record)


def check_makes(definition: Definition) -> None:
    """Create an object once, as a check. Raises :class:`BadClass`, ``NotCapturable``."""
    try:
        Execution(definition)
    except NotMade as error:
        raise BadObject(str(error)) from None
