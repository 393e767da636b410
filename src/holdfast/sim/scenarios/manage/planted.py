"""Bugs planted in the replication manager: in what it plans, and in the steps it takes."""

from collections.abc import Callable
from typing import Any, Final

from holdfast.authority import placement
from holdfast.authority.recipe import Recipe
from holdfast.control.replication import planner as planner_module
from holdfast.control.replication.spec import HostFact
from holdfast.model.ids import GroupId, Nonce, Revision
from holdfast.sim.runner.planted import Planting

_changed = placement._changed


def _change_without_comparing(
    group: GroupId, decide: Callable[..., Any], *, nonce: Nonce, as_of: Revision | None = None
) -> Recipe[Any]:
    return _changed(group, decide, nonce=nonce)


_bug: Final = Planting("manage", runs_max=60)

PLANTED: Final = (
    _bug(
        "moves-before-the-named-are-in-sync",
        "W2",
        "A member that is not named goes as soon as the named ones are placed.",
        planner_module._Planner,
        "_awaited",
        lambda planner, group, spec: [],
        "management",
    ),
    _bug(
        "any-host-will-do",
        "W2",
        "A member is placed on a host whatever that is for.",
        HostFact,
        "has_role",
        lambda fact, role: True,
        "management",
    ),
    _bug(
        "does-not-say-who-never-leads",
        "W3",
        "Members that are to lead no more are not told so.",
        planner_module._Planner,
        "_let_lead",
        lambda planner, group, spec, is_whole: None,
        "management",
    ),
    _bug(
        "acts-on-an-old-plan",
        "T1",
        "What was planned is done to whatever record stands by then.",
        placement,
        "_changed",
        _change_without_comparing,
        "management",
    ),
    _bug(
        "restores-nothing",
        "FTC-135",
        "No member is placed for one that is lost or taken away.",
        planner_module._Planner,
        "_place",
        lambda planner, group, wish, good, count, wanted: [],
        "management",
    ),
)
