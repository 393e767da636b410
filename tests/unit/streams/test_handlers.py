"""Which classes take part in streams, and how those that cannot are told (LOSS-103)."""

import pytest

from holdfast.streams import policies
from holdfast.streams.actions import Action, Drop, Ignore
from holdfast.streams.config import StreamSettings
from holdfast.streams.handlers import BadHandlers, handlers_of
from holdfast.streams.information import LossInfo
from holdfast.streams.message import StreamMessage


class Single:
    on_loss = policies.strict

    def on_message(self, message: StreamMessage) -> None: ...


class Batched:
    streams = StreamSettings(retain="none")

    def on_messages(self, batch: list[StreamMessage]) -> None: ...


class Namesake:
    def on_message(self, message: str) -> None: ...

    def on_loss(self, what: str) -> None: ...


class Two(Single, Batched):
    pass


class Unannotated(Single):
    def on_loss(self, info):  # type: ignore[no-untyped-def, override]
        return Drop()


class WrongSettings(Single):
    streams = "none"


class BadDefault(Single):
    streams = StreamSettings(default=Drop() & Ignore(topic="x"), decide_ms=1, grace_ms=5)


class Deciding(Single):
    def on_loss(self, info: LossInfo) -> Action:
        return Drop()


def test_the_annotation_says_whether_a_class_takes_part() -> None:
    single, batched = handlers_of(Single), handlers_of(Batched)
    assert single is not None
    assert batched is not None
    assert (single.is_batch, single.decides, single.notifies) == (False, True, False)
    assert (batched.is_batch, batched.decides, batched.settings.carries) == (True, False, False)
    assert handlers_of(Namesake) is None
    assert handlers_of(Deciding) is not None


@pytest.mark.parametrize(
    ("cls", "said"),
    [
        (Two, "both on_message and on_messages"),
        (Unannotated, "on_loss must say what it takes"),
        (WrongSettings, "is a holdfast.StreamSettings, not str"),
        (BadDefault, "a default registers no rules; decide_ms: at least grace_ms"),
    ],
)
def test_one_clear_error_for_what_cannot_work(cls: type, said: str) -> None:
    with pytest.raises(BadHandlers, match=said):
        handlers_of(cls)
