"""What people edit takes effect when it was applied, and not before."""

from pathlib import Path

from holdfast.model.ids import SECOND
from holdfast.settings import file as settings_file
from holdfast.settings.contract import FLAGS

GOOD = '[leases]\nlease = "2 s"\n'
BAD = '[leases]\nlease = "2"\n'


def lease_ns(directory: Path) -> int:
    return settings_file.read_applied(directory, {}).insist().settings.host.leases.lease_ns


def test_a_file_is_in_force_once_it_is_applied(tmp_path: Path) -> None:
    before = lease_ns(tmp_path)
    (tmp_path / settings_file.FILE).write_text(GOOD)
    assert lease_ns(tmp_path) == before
    assert settings_file.apply(tmp_path, {}).problems == ()
    assert lease_ns(tmp_path) == 2 * SECOND


def test_a_file_with_mistakes_changes_nothing(tmp_path: Path) -> None:
    (tmp_path / settings_file.FILE).write_text(GOOD)
    settings_file.apply(tmp_path, {})
    (tmp_path / settings_file.FILE).write_text(BAD)
    assert len(settings_file.apply(tmp_path, {}).problems) == 1
    assert (tmp_path / settings_file.APPLIED).read_text() == GOOD


def test_a_mistake_in_the_environment_changes_nothing_either(tmp_path: Path) -> None:
    (tmp_path / settings_file.FILE).write_text(GOOD)
    assert settings_file.apply(tmp_path, {"HOLDFAST_LEASES_LEASE": "x"}).problems
    assert not (tmp_path / settings_file.APPLIED).exists()


def test_removing_the_file_goes_back_to_the_defaults(tmp_path: Path) -> None:
    before = lease_ns(tmp_path)
    (tmp_path / settings_file.FILE).write_text(GOOD)
    settings_file.apply(tmp_path, {})
    (tmp_path / settings_file.FILE).unlink()
    settings_file.apply(tmp_path, {})
    assert lease_ns(tmp_path) == before


def test_processes_inherit_the_flags(tmp_path: Path) -> None:
    found = settings_file.read_applied(tmp_path, {FLAGS: "leases.lease=3 s\noutput.form=json"}).insist()
    assert found.settings.host.leases.lease_ns == 3 * SECOND
    assert found.settings.output.form == "json"
