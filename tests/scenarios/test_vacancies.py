"""A host without the class of a group still stores the group's sequence (O3)."""

import pytest
from called_domain import CalledDomain
from telling import listed, primary, told

from holdfast.authority.groups import GroupRecord
from holdfast.execution.definition import Definition
from holdfast.model.errors import InvalidRequest
from holdfast.sim.scenarios.groups.host import Host


@pytest.mark.parametrize("style", ["active", "warm_passive", "cold_passive"])
def test_a_member_without_its_class_acknowledges_and_never_leads(
    monkeypatch: pytest.MonkeyPatch, style: str
) -> None:
    """Two members must have an operation, and of a, b, c one lacks the class and one is gone: calls
    continue."""
    define = Host._define

    def missing(host: Host, record: GroupRecord) -> Definition:
        if host._name == "c" and record.name == "g":
            raise InvalidRequest("there is no module shop")
        return define(host, record)

    monkeypatch.setattr(Host, "_define", missing)
    monkeypatch.setattr(Host, "_on_fault", lambda *_: None)
    domain = CalledDomain()
    told(domain, f"groups {style}")
    assert listed(domain) == ["a", "b", "c"]
    assert told(domain, "call a 1 append one") == ["a: one 1"]
    fitness = told(domain, "fitness")
    assert "c: unfit, its class cannot be loaded: there is no module shop" in fitness
    told(domain, "hand over from a to c")
    assert primary(domain) == "a"
    told(domain, "pause a", "run 3000ms", "await service")
    assert primary(domain) == "b"
    assert told(domain, "call b 2 append two")[-1:] == ["b: two 2"]
