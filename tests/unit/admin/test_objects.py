"""Members that the application made itself (FTC-234): one object, whatever other copies are made."""

import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from fake_group import FakeGroup
from group_classes import Spy, TellsUpdates, definition
from style_groups import CONFIG, write

from holdfast.app_code.loader import definition_of, offer_classes
from holdfast.authority.groups import GroupRecord, Placement
from holdfast.execution.timers import Timers
from holdfast.model.admin.errors import ObjectNotAdded
from holdfast.model.ids import GroupId, HostId, Nonce, Position, StoreId
from holdfast.model.properties import CONSISTENCY_STYLE, ConsistencyStyle

HERE = HostId("here")
SOURCE = """
import sys
class Bare:
    def look(self):
        pass

class Box:
    def __init__(self, content=""):
        self.content = content

    def look(self):
        return self.content

    def get_state(self):
        return self.content.encode()

    def set_state(self, state):
        self.content = state.decode()

OWN = Box("mine")
BARE = Bare()
"""


@pytest.fixture
def app(tmp_path: Path) -> Iterator[Any]:
    (tmp_path / "boxes.py").write_text(SOURCE)
    before = list(sys.path)
    offer_classes(tmp_path)
    import boxes  # type: ignore[import-not-found]  # it was written just now

    yield boxes
    sys.path[:] = before
    del sys.modules["boxes"]


def record(
    own: str, class_name: str = "boxes:Box", style: str = "active", properties: str = "{}"
) -> GroupRecord:
    return GroupRecord(
        group=GroupId(1),
        class_name=class_name,
        style=style,
        members=(Placement(host=HERE, store=StoreId(""), own=own),),
        nonce=Nonce("n"),
        name="boxed",
        arguments='["the groups"]' if class_name == "boxes:Box" else "[]",
        properties=properties,
    )


@pytest.mark.covers("FTC-234")
def test_the_member_is_the_applications_object_with_the_state_of_the_group(app: Any) -> None:
    """On another host a member is newly made, and so is every other copy beside the member."""
    found = definition_of(record("boxes:OWN"), HERE)
    beside = found.apart().make(Timers())
    assert (beside is app.OWN, app.OWN.content) == (False, "mine")
    assert found.make(Timers()) is app.OWN
    assert app.OWN.content == "the groups"
    assert definition_of(record("boxes:OWN"), HostId("elsewhere")).make(Timers()) is not app.OWN


@pytest.mark.parametrize(
    ("style", "properties"),
    [("stateless", "{}"), ("warm_passive", f'{{"{CONSISTENCY_STYLE}": {ConsistencyStyle.CONS_APP_CTRL:d}}}')],
)
def test_where_no_state_is_kept_for_the_group_its_own_stays(app: Any, style: str, properties: str) -> None:
    found = definition_of(record("boxes:OWN", style=style, properties=properties), HERE)
    assert found.make(Timers()) is app.OWN
    assert app.OWN.content == "mine"


@pytest.mark.covers("FTC-193")
@pytest.mark.parametrize(
    ("own", "class_name", "said"),
    [
        ("boxes:NONE", "boxes:Box", "assigns no 'NONE'"),
        ("boxes", "boxes:Box", "is not a class: write package.module:Class"),
        ("boxes:sys", "boxes:Box", "assigns no 'sys'"),
        ("os:environ", "boxes:Box", "there is no module os in"),
        ("nowhere:OWN", "boxes:Box", "there is no module nowhere in"),
        ("boxes:OWN", "boxes:Bare", "is no object of boxes:Bare"),
        ("boxes:BARE", "boxes:Bare", "must have get_state and set_state"),
    ],
)
def test_what_cannot_be_a_member_is_not_added(app: Any, own: str, class_name: str, said: str) -> None:
    with pytest.raises(ObjectNotAdded, match=said):
        definition_of(record(own, class_name), HERE)


class OwnSpy(TellsUpdates, Spy):
    pass


def test_a_state_for_a_learner_is_made_without_touching_the_member() -> None:
    """A primary has executed uncommitted calls and has no checkpoint: the learner gets the initial state.

    *If that were made with the member itself*, the member would start over below the calls it has executed.
    """
    own = OwnSpy()

    def taken(made: Any) -> object:
        own.set_state(made.get_state())
        return own

    group = FakeGroup("cold", replace(definition(OwnSpy), own=taken), CONFIG)
    write(group, 1)
    assert own.lines == ["line 1"]
    assert group.replicas["a"].capture().position == Position(0)
    assert own.lines == ["line 1"]
