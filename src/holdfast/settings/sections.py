"""Which settings there are: the fields of the config structs, by section, with what the structs say of them.

A field that is added to a struct is a setting from then on: it is read, checked, shown and documented without
another line here. What this module adds is what a struct cannot know: whether a running host takes a change.
"""

import ast
import inspect
import itertools
import textwrap
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Final, get_type_hints

import msgspec
from msgspec import Struct

from holdfast.machine.trace import OutputConfig
from holdfast.node.host_config import HostConfig
from holdfast.settings.doors import HttpConfig, LdapConfig
from holdfast.settings.units import Kind, Value, key_of, kind_of

LIVE: Final = ("leases", "sequence", "execution", "disk", "heartbeats")
"""The sections that a running host takes up."""
AT_RESTART: Final[Mapping[str, tuple[str, ...]]] = {
    "execution": (  # a test looks for parts of a member that keep others
        *("object_retry_ns", "object_retry_most_ns", "keyed_bytes_max", "keyed_caller_bytes_max"),
        *("query_wait_ns", "slow_ns"),
    ),
}
"""Fields of those sections that a member reads once, when it is made."""
NOT_SET: Final[Mapping[str, tuple[str, ...]]] = {
    "sequence": ("min_in_sync", "full_log_bytes"),  # each group has its own, from its creation on
    "log": ("sector_bytes",),  # fixed when a store is made
}
"""Fields that are no settings, and why."""


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting."""

    section: str
    field: str
    kind: Kind
    default: Value
    struct: type
    """What it is a field of."""
    is_live: bool
    """Whether a running host takes a change; if not, the host must be restarted."""

    @property
    def about(self) -> str:
        return documented(self.struct).get(self.field, "")

    @property
    def key(self) -> str:
        return key_of(self.field)

    @property
    def name(self) -> str:
        """As people write it: ``leases.lease``."""
        return f"{self.section}.{self.key}"


@dataclass(frozen=True, slots=True)
class Section:
    """One table of the file."""

    name: str
    defaults: Struct
    settings: tuple[Setting, ...]

    @property
    def about(self) -> str:
        return OF_PROCESSES.get(self.name) or documented(HostConfig)[self.name]


class Settings(Struct, frozen=True, kw_only=True):
    """All values: those of a host, of its doors, and what processes print."""

    host: HostConfig = HostConfig()
    output: OutputConfig = OutputConfig()
    http: HttpConfig = HttpConfig()
    ldap: LdapConfig = LdapConfig()

    def section(self, name: str) -> Struct:
        found: Struct = getattr(self if name in OF_PROCESSES else self.host, name)
        return found

    def value(self, setting: Setting) -> Value:
        found: Value = getattr(self.section(setting.section), setting.field)
        return found

    def replaced(self, changes: Mapping[str, Mapping[str, Value]]) -> "Settings":
        """These settings with other values, by section and field."""
        made = {name: msgspec.structs.replace(self.section(name), **changes[name]) for name in changes}
        own = {name: each for name, each in made.items() if name in OF_PROCESSES}
        of_host = {name: each for name, each in made.items() if name not in OF_PROCESSES}
        return msgspec.structs.replace(self, host=msgspec.structs.replace(self.host, **of_host), **own)


OF_PROCESSES: Final = {
    "http": "The HTTP door of every host. Who may come in is in `http.json` (see http.md).",
    "ldap": "The LDAP door of hosts with the role directory (see directory.md).",
    "output": "What the processes of a domain print.",
}
"""The sections beside those of a host, each a field of :class:`Settings`."""


@cache
def sections() -> tuple[Section, ...]:
    """Every section, in the order of the reference page."""
    of_host = [_section(name, default) for name, default in msgspec.structs.asdict(HostConfig()).items()]
    beside = [_section(name, Settings().section(name)) for name in OF_PROCESSES]
    return (*of_host, *beside)


@cache
def settings() -> Mapping[str, Setting]:
    """Every setting, by its name."""
    return {each.name: each for section in sections() for each in section.settings}


def merged(running: Settings, wanted: Settings) -> Settings:
    """What a process that runs with *running* has in force once it was told *wanted*."""
    changes: dict[str, dict[str, Value]] = {}
    for each in live():
        changes.setdefault(each.section, {})[each.field] = wanted.value(each)
    return running.replaced(changes)


def live() -> Iterable[Setting]:
    return (each for each in settings().values() if each.is_live)


def differing(one: Settings, other: Settings) -> list[Setting]:
    """The settings in which two differ."""
    return [each for each in settings().values() if one.value(each) != other.value(each)]


@cache
def documented(struct: type) -> Mapping[str, str]:
    """What the docstrings below a struct's fields say. For that Python parses the whole module, which takes
    longer than all else that a process reads of its settings: only who shows them asks."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(struct)))
    body = tree.body[0].body if isinstance(tree.body[0], ast.ClassDef) else []
    found: dict[str, str] = {}
    for field, below in itertools.pairwise(body):
        match field, below:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(text))):
                found[name] = " ".join(text.split())
    return found


def _section(name: str, defaults: Struct) -> Section:
    cls = type(defaults)
    hints = get_type_hints(cls)
    made = tuple(
        Setting(
            section=name,
            field=field,
            kind=kind_of(field, hints[field]),
            default=getattr(defaults, field),
            struct=cls,
            is_live=name in LIVE and field not in AT_RESTART.get(name, ()),
        )
        for field in cls.__struct_fields__
        if field not in NOT_SET.get(name, ())
    )
    return Section(name, defaults, made)
