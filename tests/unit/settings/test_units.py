"""Values are written with their units, and read and shown without loss."""

from typing import Literal

import pytest

from holdfast.model.ids import HOUR, MILLISECOND, MINUTE, SECOND
from holdfast.settings.units import Kind, WrongValue, from_text, key_of, kind_of

TIME = Kind("time")
SIZE = Kind("size")


@pytest.mark.parametrize(
    ("written", "found"),
    [
        ("600 ms", 600 * MILLISECOND),
        ("600ms", 600 * MILLISECOND),
        ("1.5 s", 1500 * MILLISECOND),
        ("2 min", 2 * MINUTE),
        ("1 h", HOUR),
        ("0 s", 0),
    ],
)
def test_a_time_is_written_with_its_unit(written: str, found: int) -> None:
    assert TIME.parsed(written) == found


@pytest.mark.parametrize(
    "written", [600, "600", "ms", "-1 s", "1 day", 1.5, True, "1e9 s", "", None, "9" * 19 + " s"]
)
def test_a_time_without_a_unit_is_refused(written: object) -> None:
    """A bare number would be taken for milliseconds by one and for seconds by another."""
    with pytest.raises(WrongValue, match="a time is written with its unit"):
        TIME.parsed(written)


@pytest.mark.parametrize(
    ("written", "found"), [(4096, 4096), ("16 MiB", 16 << 20), ("64 kB", 64_000), ("1GiB", 1 << 30)]
)
def test_a_size_is_a_number_of_bytes_or_has_a_unit(written: object, found: int) -> None:
    assert SIZE.parsed(written) == found


@pytest.mark.parametrize("written", ["16 mib", "16", -1, 1.5, True, 2**60])
def test_other_sizes_are_refused(written: object) -> None:
    with pytest.raises(WrongValue):
        SIZE.parsed(written)


def test_seconds_are_whole_where_the_field_is() -> None:
    assert Kind("seconds").parsed("2 min") == 120
    assert Kind("seconds", is_whole=False).parsed("1500 ms") == 1.5
    with pytest.raises(WrongValue, match="whole seconds"):
        Kind("seconds").parsed("1500 ms")


@pytest.mark.parametrize(
    ("kind", "value", "shown"),
    [
        (TIME, 600 * MILLISECOND, ("600", "ms")),
        (TIME, 90 * SECOND, ("90", "s")),
        (TIME, 0, ("0", "ns")),
        (SIZE, 1 << 20, ("1", "MiB")),
        (SIZE, 1000, ("1000", "B")),
        (Kind("rate"), 64 << 20, ("64", "MiB/s")),
        (Kind("number", unit="ppm"), 5, ("5", "ppm")),
        (Kind("flag"), True, ("true", "")),
    ],
)
def test_a_value_is_shown_in_the_greatest_unit_that_fits(
    kind: Kind, value: int, shown: tuple[str, str]
) -> None:
    assert kind.shown(value) == shown


def test_a_fields_name_says_how_it_is_written() -> None:
    names = {
        "lease_ns": ("lease", "time"),
        "inline_capture_ns_max": ("inline_capture_max", "time"),
        "idle_s": ("idle", "seconds"),
        "bytes_per_s": ("bytes_per_s", "rate"),
        "window_bytes": ("window_bytes", "size"),
        "rate_bound_ppm": ("rate_bound_ppm", "number"),
        "files_max": ("files_max", "number"),
    }
    assert {name: (key_of(name), kind_of(name, int).name) for name in names} == names
    assert kind_of("level", Literal["a", "b"]).choices == ("a", "b")
    assert kind_of("is_on", bool).name == "flag"


def test_a_choice_names_the_others() -> None:
    with pytest.raises(WrongValue, match="one of a, b"):
        Kind("choice", choices=("a", "b")).parsed("c")


def test_a_variable_can_say_what_a_file_can() -> None:
    assert Kind("flag").parsed(from_text(Kind("flag"), "false")) is False
    assert Kind("number").parsed(from_text(Kind("number"), "12")) == 12
    assert SIZE.parsed(from_text(SIZE, "12 MiB")) == 12 << 20
    with pytest.raises(WrongValue):
        Kind("number").parsed(from_text(Kind("number"), "twelve"))
