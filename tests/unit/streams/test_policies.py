"""The ready policies."""

from holdfast.model.ids import SECOND
from holdfast.streams.actions import Drop, Recover, Suspend
from holdfast.streams.ages import TIMESTAMPS, AgeInterval
from holdfast.streams.information import LossInfo
from holdfast.streams.policies import gap_fill, market_data, strict
from holdfast.streams.priorities import Lost, PriorityIndication


def info(**more: object) -> LossInfo:
    return LossInfo("s", "gold", 1, 2, 3, 2, 4, **more)  # type: ignore[arg-type]


def test_each_answers_as_it_says() -> None:
    assert strict(None, info()) == Recover() | Suspend()
    assert gap_fill(None, info()) == Recover() | Drop()
    assert market_data(None, info()) == Recover() | Drop()
    assert market_data(None, info(priority=PriorityIndication((Lost.NO,)))) == Drop()
    assert market_data(None, info(priority=PriorityIndication((Lost.YES,)))) == Recover() | Drop()
    assert market_data(None, info(age=AgeInterval(2 * SECOND, None, (TIMESTAMPS,)))) == Drop()
