"""Every value has a source, every mistake a line, and a file with mistakes is used in no part."""

from pathlib import Path

import pytest

from holdfast.model.errors import InvalidRequest
from holdfast.model.ids import MILLISECOND, SECOND
from holdfast.settings.contract import Read
from holdfast.settings.file import FILE_BYTES_MAX, read_content, read_file
from holdfast.settings.sections import Settings

FIVE_MISTAKES = """\
[leases]
lease = 600

[sequenze]
window = 3

[execution]
log_bytes = "4 MiB"
in_line_max = 0

[output]
level = "loud"
"""


def of(text: str, environment: dict[str, str] | None = None, *flags: str) -> Read:
    return read_content(text.encode(), "holdfast.toml", environment or {}, flags)


def test_five_mistakes_are_five_lines_with_place_setting_and_what_is_right() -> None:
    assert of(FIVE_MISTAKES).problems == (
        "holdfast.toml:4: there is no section [sequenze]; did you mean sequence?",
        "holdfast.toml:8: there is no setting execution.log_bytes; did you mean log_bytes_max?",
        'holdfast.toml:2: leases.lease is 600: a time is written with its unit, as "600 ms" or "2 s"',
        'holdfast.toml:12: output.level is "loud": it must be one of debug, info, warning, error',
        "holdfast.toml:9: execution.in_line_max is 0: must be at least 1",
    )
    with pytest.raises(InvalidRequest) as caught:
        of(FIVE_MISTAKES).insist()
    assert len(str(caught.value).splitlines()) == 5


def test_without_a_file_everything_is_default_and_right() -> None:
    found = read_file(Path("/nonexistent/holdfast.toml"), {})
    assert (found.settings, found.sources, found.problems) == (Settings(), {}, ())


def test_a_flag_comes_before_the_environment_and_that_before_the_file() -> None:
    text = '[leases]\nlease = "3 s"\nmargin = "60 ms"\ninterval = "100 ms"\n'
    environment = {"HOLDFAST_LEASES_LEASE": "4 s", "HOLDFAST_LEASES_MARGIN": "70 ms", "HOLDFAST_DIR": "x"}
    found = of(text, environment, "leases.lease=5 s").insist()
    leases = found.settings.host.leases
    assert leases.lease_ns == 5 * SECOND
    assert (leases.margin_ns, leases.interval_ns) == (70 * MILLISECOND, 100 * MILLISECOND)
    assert found.sources == {
        "leases.lease": "flag",
        "leases.margin": "environment",
        "leases.interval": "file",
    }


def test_what_does_not_fit_together_is_said_in_the_words_of_the_file() -> None:
    (problem,) = of('[leases]\nlease = "300 ms"\n').problems
    assert "leases.interval is 150 ms by default: must be at most a third of lease" in problem
    assert problem.startswith("holdfast.toml:2: ")
    (problem,) = of('[log]\ngroup_bytes_max = "100 MiB"\n').problems
    assert "execution.log_bytes_max is 80 MiB by default: must be below log.group_bytes_max" in problem


def test_what_must_fit_to_a_value_that_could_not_be_read_is_not_judged() -> None:
    (problem,) = of('[leases]\nlease = "long"\ninterval = "900 ms"\n').problems
    assert "leases.lease" in problem


@pytest.mark.parametrize(
    ("environment", "flags"),
    [
        ({"HOLDFAST_LEASES_LEASES": "1 s"}, ()),
        ({"HOLDFAST_LEASES_LEASE": "1"}, ()),
        ({}, ("leases.lease",)),
        ({}, ("lease=1 s",)),
        ({}, ("leases.lease=1",)),
    ],
)
def test_variables_and_flags_are_checked_as_the_file_is(
    environment: dict[str, str], flags: tuple[str, ...]
) -> None:
    (problem,) = of("", environment, *flags).problems
    assert problem.startswith(("$HOLDFAST_LEASES", "--set"))


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"[leases\n", "it is not TOML"),
        (b"\xff", "UTF-8"),
        (b"#" * (FILE_BYTES_MAX + 1), "longer than"),
        (b"leases = 3\n", "leases must be a section"),
        (b"x = " + b"[" * 100_000, "it is not TOML"),
    ],
)
def test_what_is_no_file_of_settings_is_one_line(content: bytes, said: str) -> None:
    (problem,) = read_content(content, "holdfast.toml", {}, ()).problems
    assert said in problem
    assert "\n" not in problem
