"""Books that are fed by streams and answer losses as they are told to."""

import pytest

import holdfast as hf


class Book:
    """Notes what it gets; each subclass decides about loss in its own way."""

    streams = hf.StreamSettings(grace_ms=10, recover_ms=60, retry_ms=10, attempts=1)
    numbers: list[int]
    notices: list[str]

    def __init__(self) -> None:
        self.numbers = []
        self.notices = []

    def on_message(self, message: hf.StreamMessage) -> None:
        self.numbers.append(message.number)

    def on_action(self, notice: hf.Notice) -> None:
        self.notices.append(f"{notice.kind} {notice.first}-{notice.last}")


INFOS: list[hf.LossInfo] = []


def answering(*actions: hf.Action, **settings: object) -> type:
    """A book that answers its losses with these, the last one again and again."""
    INFOS.clear()

    class Answering(Book):
        streams = hf.StreamSettings(**{**_SHORT, **settings})  # type: ignore[arg-type]

        def on_loss(self, info: hf.LossInfo) -> hf.Action:
            INFOS.append(info)
            return actions[min(len(INFOS), len(actions)) - 1]

    return Answering


_SHORT: dict[str, object] = {"grace_ms": 10, "recover_ms": 60, "retry_ms": 10, "attempts": 1, "decide_ms": 50}
RETAIN = pytest.mark.parametrize("retain", ["memory", "none"])
