"""Loading the classes of groups from the application's directory."""

import importlib
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from holdfast.authority.groups import GroupRecord
from holdfast.control.criteria import ARGUMENTS, decoded
from holdfast.housing.tuning import is_self_kept
from holdfast.model.ids import HostId
from holdfast.model.membership import ObjectNotAdded
from holdfast.model.outcome import error_in_words
from holdfast.model.properties import Style
from holdfast.node.class_source import BadClass
from holdfast.styles.capture import Checkpointable
from holdfast.styles.definition import Definition, NotMade
from holdfast.styles.execution import Execution
from holdfast.styles.own_code import run_own
from holdfast.styles.style import style_named


class BadObject(BadClass):
    """Raised when a class is there, and fails to make an object."""

    exception = "ObjectNotCreated"

    @property
    def about(self) -> dict[str, Any]:
        return {}


def add_to_path(app: Path) -> None:
    """Let classes be imported from *app*, before anything else."""
    text = str(app)
    if text not in sys.path:
        sys.path.insert(0, text)


def load_class(name: str) -> type:
    """The class ``package.module:Class``. Raises :class:`BadClass` with the one reason."""
    module_name, colon, class_name = name.partition(":")
    if not (module_name and colon and class_name):
        raise BadClass(f"{name!r} is not a class: write package.module:Class")
    found = _loaded(module_name, class_name)
    if not isinstance(found, type):
        raise BadClass(f"{module_name} has no class {class_name!r}")
    return found


def own_object(name: str, record: GroupRecord) -> Any:
    """The application's own object ``package.module:name``, which can be a member of that group. Raises
    ``ObjectNotAdded`` with the one reason."""
    module_name, _, path = name.partition(":")
    try:
        found = _loaded(module_name, path)
        cls = load_class(record.class_name)
    except BadClass as error:
        raise ObjectNotAdded(str(error)) from None
    if not isinstance(found, cls):
        raise ObjectNotAdded(f"{name} is no object of {record.class_name}")
    if _takes_state(record) and not isinstance(found, Checkpointable):
        said = "it takes the group's state, and so must have get_state and set_state"
        raise ObjectNotAdded(f"{name} cannot be a member: {said}")
    return found


def _loaded(module_name: str, path: str) -> Any:
    """What a module has by that name; None when it has nothing. Raises :class:`BadClass`."""
    importlib.invalidate_caches()  # the file may be newer than what the finder remembers of its directory
    try:
        found: Any = run_own(importlib.import_module, module_name)
    except Exception as error:
        # Importing runs the user's code, which may fail in any way.
        raise BadClass(f"{module_name} cannot be imported: {error_in_words(error)}") from None
    for part in path.split("."):
        found = getattr(found, part, None)
    return found


def definition_of(record: GroupRecord, host: HostId | None = None) -> Definition:
    """What *record* says of the group's object; of a member, on *host*. Raises :class:`BadClass`,
    ``NotCapturable``."""
    try:
        cls = load_class(record.class_name)
    except BadClass as error:
        error.type_id = record.class_name
        raise
    try:
        arguments = msgspec.json.decode(record.arguments, type=list[Any])
    except msgspec.DecodeError as error:
        raise BadObject(f"the arguments of {record.class_name} are not a JSON array: {error}") from None
    entry = record.placement(host) if host is not None else None
    if entry is not None and style_named(record.style) is Style.STATELESS:
        # What these are made with need not be the same: no state is carried over between them (FTC-126).
        arguments = decoded(entry.criteria).get(ARGUMENTS, arguments)
    return Definition(
        group=record.name or str(record.group),
        cls=cls,
        fresh=lambda: cls(*arguments),
        own=_own(record, entry.own) if entry is not None and entry.own else None,
        created_ns=record.created_ns,
    )


def _own(record: GroupRecord, name: str) -> Callable[[object], object]:
    """How the application's own object comes to be the member (FTC-234). What it is is the group's to say,
    as of every member: it begins with the state of one that was made."""
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
    """Make an object once, to see that it can be made and captured. Raises :class:`BadClass`,
    ``NotCapturable``."""
    try:
        Execution(definition)
    except NotMade as error:
        raise BadObject(str(error)) from None
