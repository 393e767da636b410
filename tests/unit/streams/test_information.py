"""The loss information: every item of it, the same for the same situation (LOSS-39 to 47, 110)."""

from stream_group import ORIGIN, message

from holdfast.model.ids import SECOND
from holdfast.streams.gaps import Gap
from holdfast.streams.holding import Figures
from holdfast.streams.information import (
    LossInfo,
    Recovery,
    Situation,
    decode_information,
    encode_information,
    information,
)
from holdfast.streams.message import Ages
from holdfast.streams.priorities import Lost

NOW = 100 * SECOND


def situation(attempt: int = 1) -> Situation:
    after = message(58, 1, "asks", distances=(13,), cumulative=(5,), ages=Ages(NOW - 2 * SECOND))
    return Situation(
        origin=ORIGIN,
        gap=Gap(46, 57),
        now_ns=NOW,
        detected_ns=NOW - SECOND,
        before_created_ns=NOW - 5 * SECOND,
        following=[after, message(59)],
        servers=3,
        was_only_server=True,
        figures=Figures(received=45, repeated=2, asked=1, first_ns=SECOND, last_ns=10 * SECOND),
        recovery=Recovery(True, ("b",), 7, False, True, 12),
        peer_priorities=(1,),
        is_all_at_peers=False,
        losses_before=2,
        lost_before=9,
        rules=("rule 1: topics news",),
        attempt=attempt,
        recovered=[message(50)],
        failure="timeout (b)",
        shown=1,
    )


def test_it_has_every_item() -> None:
    info = information(situation())
    assert (info.source, info.stream, info.topic) == ("exchange", "gold", "asks")
    assert (info.first, info.last, info.count, info.after) == (46, 57, 12, 58)
    assert (info.servers, info.is_only_server, info.was_only_server) == (3, False, True)
    assert (info.transport.received, info.transport.rate, info.transport.asked) == (45, 5.0, 1)
    assert (info.priority.levels, info.priority.at_least) == ((Lost.NO,), (Lost.YES,))
    assert (info.age.least_ns, info.age.most_ns) == (2 * SECOND, 5 * SECOND)
    assert [each.number for each in info.next_messages] == [58]
    assert (info.recovery.holders, info.recovery.estimated_ms, info.recovery.has_source) == (("b",), 12, True)
    assert (info.losses_before, info.lost_before, info.rules) == (2, 9, ("rule 1: topics news",))
    assert ([each.number for each in info.recovered], info.failure) == ([50], "timeout (b)")


def test_it_is_the_same_for_the_same_situation_and_can_be_kept() -> None:
    info = information(situation())
    assert encode_information(information(situation())) == encode_information(info)
    assert decode_information(encode_information(info)) == info
    assert information(situation(attempt=2)) != info


def test_of_a_tail_nothing_is_known_but_the_sources_word() -> None:
    on = situation()
    on.following, on.gap = [], Gap(46, 57, is_tail=True)
    info = information(on)
    assert (info.after, info.topic, info.next_messages, info.age.methods) == (None, "", (), ())
    assert isinstance(info, LossInfo)
