"""How the values of settings are written by people: times and sizes with their units, the rest as they are.

A field's name says what it is: ``lease_ns`` is a time and is written ``lease = "600 ms"``; ``window_bytes``
is a size, ``window_bytes = "16 MiB"``; ``window`` is a count, ``window = 8192``.
"""

import re
from dataclasses import dataclass
from typing import Any, Final, Literal, get_args, get_origin

from holdfast.model.ids import HOUR, MICROSECOND, MILLISECOND, MINUTE, SECOND

TIMES: Final = {"ns": 1, "us": MICROSECOND, "ms": MILLISECOND, "s": SECOND, "min": MINUTE, "h": HOUR}
SIZES: Final = {
    "B": 1,
    "KiB": 1 << 10,
    "MiB": 1 << 20,
    "GiB": 1 << 30,
    "kB": 10**3,
    "MB": 10**6,
    "GB": 10**9,
}
NUMBER_MAX: Final = 2**53
"""Greater numbers mean nothing here, and JSON readers take them for others."""
TEXT_CHARACTERS_MAX: Final = 1_000
_WRITTEN: Final = re.compile(r"(\d{1,18}(?:\.\d{1,9})?) ?([A-Za-z]{1,3})")

Value = int | float | bool | str


class WrongValue(ValueError):
    """Raised for a value that cannot be used; the text says what would be right."""


@dataclass(frozen=True, slots=True)
class Kind:
    """How one field is written."""

    name: Literal["time", "seconds", "size", "rate", "number", "flag", "text", "choice"]
    unit: str = ""
    """The unit of a plain number, for people: ppm, %."""
    choices: tuple[str, ...] = ()
    is_whole: bool = True

    def parsed(self, value: Any) -> Value:
        """The field's value of what was written. Raises ``WrongValue``."""
        match self.name:
            case "time" | "seconds":
                found_ns = _scaled(value, TIMES, 'a time is written with its unit, as "600 ms" or "2 s"')
                return found_ns if self.name == "time" else self._seconds(found_ns)
            case "size" | "rate":
                what = 'a size is a number of bytes, or written with a unit, as "16 MiB"'
                return _number(value, what) if _is_number(value) else _scaled(value, SIZES, what)
            case "number":
                return _number(value, "it must be a whole number from 0 on")
            case "flag":
                if not isinstance(value, bool):
                    raise WrongValue("it must be true or false")
                return value
            case "choice":
                if value not in self.choices:
                    raise WrongValue(f"it must be one of {', '.join(self.choices)}")
                return str(value)
            case _:
                if not isinstance(value, str) or len(value) > TEXT_CHARACTERS_MAX:
                    raise WrongValue(f"it must be a text of at most {TEXT_CHARACTERS_MAX} characters")
                return value

    def shown(self, value: Value) -> tuple[str, str]:
        """The value for people: the number and its unit."""
        match self.name:
            case "time":
                return _best(int(value), TIMES, ("h", "min", "s", "ms", "us", "ns"))
            case "seconds":
                return _best(round(float(value) * SECOND), TIMES, ("h", "min", "s", "ms", "us", "ns"))
            case "size" | "rate":
                number, unit = _best(int(value), SIZES, ("GiB", "MiB", "KiB", "B"))
                return number, f"{unit}/s" if self.name == "rate" else unit
            case "flag":
                return str(value).lower(), ""
            case _:
                return str(value), self.unit

    def _seconds(self, found_ns: int) -> Value:
        if not self.is_whole:
            return found_ns / SECOND
        if found_ns % SECOND:
            raise WrongValue("it must be whole seconds")
        return found_ns // SECOND


def kind_of(field: str, annotation: Any) -> Kind:
    """How the field of that name and type is written."""
    if get_origin(annotation) is Literal:
        return Kind("choice", choices=get_args(annotation))
    if annotation is bool:
        return Kind("flag")
    if annotation is str:
        return Kind("text")
    if field.endswith("_per_s"):
        return Kind("rate")
    if "ns" in field.split("_"):
        return Kind("time")
    if field.endswith("_s"):
        return Kind("seconds", is_whole=annotation is int)
    if "bytes" in field.split("_"):
        return Kind("size")
    percent = "%" if "percent" in field else ""
    return Kind("number", unit="ppm" if field.endswith("_ppm") else percent)


def key_of(field: str) -> str:
    """The name under which a field is set: without the unit that its value brings along."""
    if field.endswith("_per_s"):
        return field
    return "_".join(part for part in field.split("_") if part not in ("ns", "s"))


def from_text(kind: Kind, text: str) -> Any:
    """What a file would have said where a flag or the environment can only say a text."""
    if kind.name == "flag" and text in ("true", "false"):
        return text == "true"
    if kind.name in ("number", "size", "rate") and re.fullmatch(r"\d{1,20}", text):
        return int(text)
    return text


def _is_number(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _number(value: Any, what: str) -> int:
    if not _is_number(value) or not 0 <= value <= NUMBER_MAX:
        raise WrongValue(what)
    return int(value)


def _scaled(value: Any, units: dict[str, int], what: str) -> int:
    match = _WRITTEN.fullmatch(value) if isinstance(value, str) else None
    if match is None or match[2] not in units:
        raise WrongValue(what)
    found = round(float(match[1]) * units[match[2]])
    if found > NUMBER_MAX:
        raise WrongValue(f"that is too much; {what}")
    return found


def _best(value: int, units: dict[str, int], order: tuple[str, ...]) -> tuple[str, str]:
    """*value* in the greatest of the units in which it is a whole number."""
    for unit in order:
        if value >= units[unit] and value % units[unit] == 0:
            return str(value // units[unit]), unit
    return str(value), order[-1]
