"""Planted bugs: planting fails when the attribute does not exist, and is undone completely."""

import pytest

from holdfast.model.errors import InvalidRequest
from holdfast.sim.runner.planted import planted_bug, planted_bugs, replacing
from holdfast.sim.runner.scenario import scenario_class


class Base:
    def inherited(self) -> str:
        return "right"


class Owner(Base):
    limit = 3

    @staticmethod
    def check() -> bool:
        return True


def test_replacing_is_undone_also_for_inherited_and_static_members() -> None:
    with (
        replacing(Owner, "limit", 0),
        replacing(Owner, "check", staticmethod(lambda: False)),
        replacing(Owner, "inherited", lambda self: "wrong"),
    ):
        assert (Owner.limit, Owner.check(), Owner().inherited()) == (0, False, "wrong")
        assert Base().inherited() == "right"
    assert (Owner.limit, Owner.check(), Owner().inherited()) == (3, True, "right")
    assert "inherited" not in vars(Owner)
    assert isinstance(vars(Owner)["check"], staticmethod)


def test_replacing_is_undone_after_a_failure() -> None:
    with pytest.raises(ZeroDivisionError), replacing(Owner, "limit", 0):
        1 // Owner.limit
    assert Owner.limit == 3


def test_there_must_be_something_to_break() -> None:
    with pytest.raises(LookupError, match="no 'lmit'"), replacing(Owner, "lmit", 0):
        pass


def test_every_planted_bug_can_be_planted_and_names_what_exists() -> None:
    """A renamed method or scenario must fail here, and not show as a bug that is never found."""
    bugs = planted_bugs() + planted_bugs("register")
    assert len({bug.name for bug in bugs}) == len(bugs)
    for bug in bugs:
        assert bug.rule
        assert bug.summary
        scenario_class(bug.scenario)
        with bug.plant():
            pass


def test_the_simulators_own_bugs_come_only_when_asked_for() -> None:
    assert [bug for bug in planted_bugs() if bug.scenario == "register"] == []
    assert planted_bug("register-acknowledges-early").rule == "S3"


def test_an_unknown_bug_is_refused() -> None:
    with pytest.raises(InvalidRequest):
        planted_bug("absent")
