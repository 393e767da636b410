"""`holdfast.toml` in the directory of a domain, and the copy of it that the domain's processes run with.

People edit the file; nothing follows until `holdfast up` or `holdfast config apply` has checked it whole and
kept a copy, `applied.toml`. Processes read that copy alone, so a host that is restarted while somebody edits
does not take half of an edit.
"""

import re
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from holdfast.machine.files import write_durably
from holdfast.settings.contract import FLAGS, Read, read

FILE: Final = "holdfast.toml"
APPLIED: Final = "applied.toml"
FILE_BYTES_MAX: Final = 256 * 1024
_HEADER: Final = re.compile(r"\s*\[\s*([A-Za-z0-9_-]+)\s*\]")
_KEY: Final = re.compile(r"\s*\"?([A-Za-z0-9_-]+)\"?\s*=")


def read_file(path: Path, environment: Mapping[str, str], flags: Sequence[str] = ()) -> Read:
    """Read the settings with those of the file at *path*; none if there is no file."""
    try:
        with path.open("rb") as file:
            content = file.read(FILE_BYTES_MAX + 1)
    except (FileNotFoundError, NotADirectoryError):  # who needs the directory says what is wrong with it
        return read({}, lambda section, key: path.name, environment, flags)
    except OSError as error:
        return Read(problems=(f"{path}: it cannot be read: {error.strerror}",))
    return read_content(content, path.name, environment, flags)


def read_content(content: bytes, name: str, environment: Mapping[str, str], flags: Sequence[str]) -> Read:
    """Read the settings with those of a file of that content and name."""
    if len(content) > FILE_BYTES_MAX:
        return Read(problems=(f"{name}: it is longer than {FILE_BYTES_MAX} bytes",))
    try:
        text = content.decode()
        table: Mapping[str, Any] = tomllib.loads(text)
    except UnicodeDecodeError:
        return Read(problems=(f"{name}: it is not text in UTF-8",))
    except (tomllib.TOMLDecodeError, RecursionError, ValueError) as error:
        return Read(problems=(f"{name}: it is not TOML: {error}",))
    lines = _lines(text)

    def where(section: str, key: str) -> str:
        line = lines.get((section, key)) or lines.get((section, "")) or lines.get(("", section))
        return f"{name}:{line}" if line else name

    return read(table, where, environment, flags)


def read_applied(directory: Path, environment: Mapping[str, str]) -> Read:
    """What the processes of the domain in *directory* run with, now or at their next start."""
    return read_file(directory / APPLIED, environment, flags_in(environment))


def check(directory: Path, environment: Mapping[str, str]) -> Read:
    """Check the file of the domain in *directory*, as it is now."""
    return read_file(directory / FILE, environment, flags_in(environment))


def apply(directory: Path, environment: Mapping[str, str]) -> Read:
    """Check the file of the domain in *directory*, and let the processes have it if nothing is wrong."""
    try:
        content = (directory / FILE).read_bytes()
    except FileNotFoundError:
        content = b""
    found = read_content(content, FILE, environment, flags_in(environment))
    if not found.problems:
        known = (directory / APPLIED).read_bytes() if (directory / APPLIED).exists() else b""
        if content != known:
            write_durably(directory / APPLIED, content)
    return found


def flags_in(environment: Mapping[str, str]) -> list[str]:
    """The flags that `holdfast up` was given."""
    return [each for each in environment.get(FLAGS, "").splitlines() if each.strip()]


def _lines(text: str) -> dict[tuple[str, str], int]:
    """On which line each section and key stands, for those written plainly."""
    found: dict[tuple[str, str], int] = {}
    section = ""
    for number, line in enumerate(text.splitlines(), start=1):
        if header := _HEADER.match(line):
            section = header[1]
            found.setdefault((section, ""), number)
        elif key := _KEY.match(line):
            found.setdefault((section, key[1]), number)
    return found
