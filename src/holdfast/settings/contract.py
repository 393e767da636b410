"""From what people wrote to settings: every value with its source, and every problem before anything changes.

A value comes from a flag (`--set leases.lease=2s`), the environment (`HOLDFAST_LEASES_LEASE=2s`), the file,
or is the default; the first of these that speaks wins. All problems are found in one pass, and each says
where the value came from, which setting it is, and what would be right. Where there is one, nothing is used.
"""

import difflib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from holdfast.model.errors import InvalidRequest
from holdfast.settings.sections import Section, Setting, Settings, sections, settings
from holdfast.settings.units import Value, WrongValue, from_text, key_of

ENVIRONMENT: Final = "HOLDFAST_"
FLAGS: Final = "HOLDFAST_SET"
"""The variable in which `holdfast up` hands its flags to the processes that it starts, one on each line."""
PROBLEMS_MAX: Final = 100
TEXT_SHOWN_MAX: Final = 80

Source = Literal["default", "file", "environment", "flag"]


@dataclass(frozen=True, slots=True)
class Read:
    """What was found."""

    settings: Settings = field(default_factory=Settings)
    sources: Mapping[str, Source] = field(default_factory=dict)
    """Where each value that is not the default comes from, by the setting's name."""
    problems: tuple[str, ...] = ()
    """One line each."""

    def insist(self) -> "Read":
        """Return this; raises ``InvalidRequest`` with all problems if there are any."""
        if self.problems:
            raise InvalidRequest("\n".join(self.problems))
        return self


@dataclass(frozen=True, slots=True)
class _Given:
    """One value as it was written, and where."""

    source: Source
    where: str
    """`holdfast.toml:7`, or the name of a variable."""
    written: Any


def read(
    file: Mapping[str, Any],
    where: Callable[[str, str], str],
    environment: Mapping[str, str],
    flags: Sequence[str] = (),
) -> Read:
    """Read all settings. *where* says where in the file a key of a section stands."""
    problems: list[str] = []
    given: dict[str, _Given] = {}
    for name, each in (
        *_in_file(file, where, problems),
        *_in_environment(environment, problems),
        *_in_flags(flags, problems),
    ):
        given[name] = each  # a later source speaks before an earlier one
    changes: dict[str, dict[str, Value]] = {}
    unread: list[Setting] = []
    for name, each in given.items():
        setting = settings()[name]
        try:
            found = setting.kind.parsed(each.written)
        except WrongValue as error:
            problems.append(f"{each.where}: {name} is {_shown(each.written)}: {error}")
            unread.append(setting)
        else:
            changes.setdefault(setting.section, {})[setting.field] = found
    made = Settings().replaced(changes)
    problems += [
        _line(made, given, *each)
        for each in (*_own_problems(made), *_common_problems(made))
        # What a value must fit to cannot be said while that could not be read.
        if not any(other.section == each[0] and other.field in each[1:] + _words(each[2]) for other in unread)
    ]
    sources = {name: each.source for name, each in given.items()}
    return Read(made, sources, tuple(problems[:PROBLEMS_MAX]))


def _in_file(
    file: Mapping[str, Any], where: Callable[[str, str], str], problems: list[str]
) -> Iterator[tuple[str, _Given]]:
    by_name = {each.name: each for each in sections()}
    for name, table in file.items():
        section = by_name.get(name)
        if section is None:
            problems.append(f"{where(name, '')}: there is no section [{name}]; {_meant(name, list(by_name))}")
        elif not isinstance(table, Mapping):
            problems.append(f"{where(name, '')}: {name} must be a section: write [{name}] above its settings")
        else:
            yield from _in_section(section, table, where, problems)


def _in_section(
    section: Section, table: Mapping[str, Any], where: Callable[[str, str], str], problems: list[str]
) -> Iterator[tuple[str, _Given]]:
    keys = [each.key for each in section.settings]
    for key, written in table.items():
        if key in keys:
            yield f"{section.name}.{key}", _Given("file", where(section.name, key), written)
        else:
            said = f"there is no setting {section.name}.{key}; {_meant(key, keys)}"
            problems.append(f"{where(section.name, key)}: {said}")


def _in_environment(environment: Mapping[str, str], problems: list[str]) -> Iterator[tuple[str, _Given]]:
    """Variables of sections that there are; others that begin with HOLDFAST_ are somebody else's."""
    by_variable = {_variable(each): each for each in settings().values()}
    prefixes = tuple(f"{ENVIRONMENT}{each.name.upper()}_" for each in sections())
    for variable, text in sorted(environment.items()):
        setting = by_variable.get(variable)
        if setting is not None:
            yield setting.name, _Given("environment", f"${variable}", from_text(setting.kind, text))
        elif variable.startswith(prefixes):
            problems.append(f"${variable}: there is no such setting; `holdfast config show` lists them")


def _in_flags(flags: Sequence[str], problems: list[str]) -> Iterator[tuple[str, _Given]]:
    for flag in flags:
        name, equals, text = flag.partition("=")
        setting = settings().get(name.strip())
        if not equals:
            problems.append(f"--set {flag}: a setting is written SECTION.KEY=VALUE")
        elif setting is None:
            problems.append(f"--set {flag}: there is no such setting; `holdfast config show` lists them")
        else:
            yield setting.name, _Given("flag", f"--set {flag}", from_text(setting.kind, text.strip()))


def _variable(setting: Setting) -> str:
    return f"{ENVIRONMENT}{setting.section}_{setting.key}".upper()


def _own_problems(made: Settings) -> Iterator[tuple[str, str, str]]:
    """What the structs find wrong with themselves: section, field, and what would be right."""
    for section in sections():
        found: Any = made.section(section.name)
        yield from ((section.name, name, text) for name, text in found.validate())


def _common_problems(made: Settings) -> Iterator[tuple[str, str, str]]:
    """What is wrong between sections."""
    sequence, execution, log, connections = (
        made.host.sequence,
        made.host.execution,
        made.host.log,
        made.host.connections,
    )
    if execution.log_bytes_max + 2 * execution.checkpoint_bytes > log.group_bytes_max:
        said = "must be below log.group_bytes_max by two execution.checkpoint_bytes, or nothing commits again"
        yield "execution", "log_bytes_max", said
    if execution.uncommitted_max > sequence.uncommitted_max:
        yield "execution", "uncommitted_max", "must be at most sequence.uncommitted_max"
    if execution.record_bytes > sequence.record_bytes_max:
        yield "execution", "record_bytes", "must be at most sequence.record_bytes_max"
    if sequence.record_bytes_max + 4096 > log.batch_bytes_max:
        yield "sequence", "record_bytes_max", "must be below log.batch_bytes_max by 4 KiB"
    if sequence.batch_bytes_max + sequence.record_bytes_max + 4096 > connections.frame_bytes_max:
        said = "must leave room for a record in connections.frame_bytes_max"
        yield "sequence", "batch_bytes_max", said


def _line(made: Settings, given: Mapping[str, _Given], section: str, name: str, text: str) -> str:
    """A problem for people: in the words and units of the file."""
    found = next(each for each in sections() if each.name == section)
    setting = next((each for each in found.settings if each.field == name), None)
    text = _in_keys(found, text)
    if setting is None:
        return f"{section}.{key_of(name)} {text}"
    number, unit = setting.kind.shown(made.value(setting))
    known = given.get(setting.name)
    if known is None:  # its own value is the default: what it must fit to was given
        others = [each.where for key, each in given.items() if key.startswith(f"{section}.")]
        others = others or [each.where for each in given.values()]
        where = f"{others[0]}: " if others else ""
        return f"{where}{setting.name} is {number} {unit}".rstrip() + f" by default: {text}"
    return f"{known.where}: {setting.name} is {number} {unit}".rstrip() + f": {text}"


def _words(text: str) -> tuple[str, ...]:
    return tuple(re.findall(r"[a-z_]+", text))


def _in_keys(section: Section, text: str) -> str:
    keys = {each.field: each.key for each in section.settings}
    return re.sub(r"[a-z_]+", lambda match: keys.get(match[0], match[0]), text)


def _meant(written: str, known: list[str]) -> str:
    """What was meant, or could have been."""
    close = difflib.get_close_matches(written, known, n=1)
    return f"did you mean {close[0]}?" if close else f"there are {', '.join(known)}"


def _shown(written: Any) -> str:
    text = f'"{written}"' if isinstance(written, str) else str(written)
    return text if len(text) <= TEXT_SHOWN_MAX else f"{text[:TEXT_SHOWN_MAX]}..."
