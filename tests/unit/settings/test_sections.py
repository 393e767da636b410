"""Every documented field of a config struct is a setting, and what cannot be is named with its reason."""

import msgspec

from holdfast.node.host_config import HostConfig
from holdfast.settings.sections import AT_RESTART, NOT_SET, Settings, differing, merged, sections, settings


def test_every_field_is_a_setting_and_documented() -> None:
    for section in sections():
        fields = [each.field for each in section.settings] + list(NOT_SET.get(section.name, ()))
        assert sorted(fields) == sorted(section.defaults.__struct_fields__)
        assert section.about
        assert [each.name for each in section.settings if not each.about] == []


def test_names_are_unique_and_exceptions_exist() -> None:
    assert len(settings()) == sum(len(each.settings) for each in sections())
    for section, fields in (*AT_RESTART.items(), *NOT_SET.items()):
        assert set(fields) <= set(getattr(HostConfig(), section).__struct_fields__)


def test_the_defaults_are_right_and_can_be_written_and_read() -> None:
    for section in sections():
        assert section.defaults.validate() == []  # type: ignore[attr-defined]  # the contract of all of them
    for each in settings().values():
        number, unit = each.kind.shown(each.default)
        text = f"{number} {unit.removesuffix('/s')}".strip()
        plain = each.kind.name in ("number", "flag")
        written = each.default if plain else text
        assert each.kind.parsed(written) == each.default, each.name


def test_a_running_host_takes_what_is_live_and_keeps_the_rest() -> None:
    wanted = Settings().replaced(
        {
            "leases": {"lease_ns": 2_000_000_000},
            "execution": {"checkpoint_interval_ns": 5, "gate_ns": 7},
            "connections": {"connections_max": 3},
        }
    )
    found = merged(Settings(), wanted)
    assert found.host.leases == wanted.host.leases
    assert found.host.execution == msgspec.structs.replace(
        Settings().host.execution, checkpoint_interval_ns=5
    )
    assert found.host.connections == Settings().host.connections
    assert [each.name for each in differing(found, wanted)] == [
        "execution.gate",
        "connections.connections_max",
    ]
