"""Loading the classes of groups from the application's directory."""

import importlib
import sys
from pathlib import Path
from typing import Any

import msgspec

from holdfast.authority.groups import GroupRecord
from holdfast.control.criteria import ARGUMENTS, decoded
from holdfast.model.errors import InvalidRequest
from holdfast.model.ids import HostId
from holdfast.model.properties import Style
from holdfast.styles.definition import Definition, NotMade
from holdfast.styles.execution import Execution
from holdfast.styles.style import style_named


class BadClass(InvalidRequest):
    """Raised when a group's class cannot be loaded, or its object not be made as the group's record says."""

    code = "bad_class"
    exception = "NoFactory"
    type_id = ""

    @property
    def about(self) -> dict[str, Any]:
        return {"the_location": "", "type_id": self.type_id}


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
    importlib.invalidate_caches()  # the file may be newer than what the finder remembers of its directory
    try:
        found: Any = importlib.import_module(module_name)
    except Exception as error:
        # Importing runs the user's code, which may fail in any way.
        raise BadClass(f"{module_name} cannot be imported: {type(error).__name__}: {error}") from None
    for part in class_name.split("."):
        found = getattr(found, part, None)
    if not isinstance(found, type):
        raise BadClass(f"{module_name} has no class {class_name!r}")
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
        created_ns=record.created_ns,
    )


def check_makes(definition: Definition) -> None:
    """Make an object once, to see that it can be made and captured. Raises :class:`BadClass`,
    ``NotCapturable``."""
    try:
        Execution(definition)
    except NotMade as error:
        raise BadObject(str(error)) from None
