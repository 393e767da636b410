"""A destination: every output once, in order, whichever member serves it."""

from holdfast.execution.outputs import Output, OutputId
from holdfast.streams.collecting import (
    PATIENCE_NS,
    Collected,
    Collector,
    OutputAsk,
    OutputBatch,
    OutputGap,
    decode_ask,
    decode_batch,
    encode_output,
)


def out(position: int, index: int = 0) -> Output:
    return Output(OutputId(position, index), "t", b"x")


def batch(
    *outputs: Output,
    previous: OutputId | None = None,
    lacks: OutputId | None = None,
    is_leader: bool = True,
    serves: bool = True,
) -> OutputBatch:
    return OutputBatch("book", 1, is_leader, serves, previous, outputs, lacks)


def ids(found: list[Collected]) -> list[tuple[int, int]]:
    return [(each.id.position, each.id.index) for each in found if isinstance(each, Output)]


def test_repetitions_are_dropped() -> None:
    """Two members send the same: it is handed on once."""
    made = Collector("book", None, is_all=True)
    assert made.on_up("a", 0) == OutputAsk("book", None, is_any=True)
    made.on_up("b", 0)
    assert ids(made.on_batch("a", batch(out(1), out(1, 1), out(3)), 0)[0]) == [(1, 0), (1, 1), (3, 0)]
    assert ids(made.on_batch("b", batch(out(1), out(3), out(4), is_leader=False), 0)[0]) == [(4, 0)]
    assert made.repeated == 2
    assert made.last == OutputId(4, 0)


def test_it_goes_on_by_id_at_another_member() -> None:
    made = Collector("book", OutputId(7, 2))
    assert made.on_up("a", 0).after == OutputId(7, 2)
    made.on_batch("a", batch(out(8), previous=OutputId(7, 2)), 0)
    made.on_down("a")
    assert made.on_batch("a", batch(out(9)), 0) == ([], [])
    assert made.on_up("b", 0) == OutputAsk("book", OutputId(8, 0))


def test_what_was_lost_on_the_way_is_asked_for() -> None:
    """A batch that does not join on to what is there is asked for again, from there."""
    made = Collector("book", OutputId(1, 0))
    made.on_up("a", 0)
    found, asks = made.on_batch("a", batch(out(5), previous=OutputId(4, 0)), 0)
    assert found == []
    assert asks == [("a", OutputAsk("book", OutputId(1, 0)))]
    found, _ = made.on_batch("a", batch(out(4), out(5), previous=OutputId(1, 0)), 0)
    assert ids(found) == [(4, 0), (5, 0)]


def test_only_what_nobody_has_is_a_gap() -> None:
    """A leader that was started anew lacks earlier outputs: the other member is asked, which has them."""
    made = Collector("book", OutputId(3, 0))
    made.on_up("a", 0)
    made.on_up("b", 0)
    since = OutputId(9, 0)
    found, asks = made.on_batch("a", batch(out(10), lacks=since), 0)
    assert (found, asks) == ([], [("b", OutputAsk("book", OutputId(3, 0), is_any=True))])
    assert made.on_batch("a", batch(lacks=since), 0) == ([], [])
    found, _ = made.on_batch("b", batch(out(4), out(10), previous=OutputId(3, 0), is_leader=False), 0)
    assert ids(found) == [(4, 0), (10, 0)]


def test_a_gap_is_told() -> None:
    made = Collector("book", OutputId(3, 0))
    made.on_up("a", 0)
    made.on_up("b", 0)
    made.on_batch("a", batch(out(10), lacks=OutputId(9, 0)), 0)
    assert made.on_batch("b", batch(out(12), lacks=OutputId(11, 0), is_leader=False), 0)[0] == []
    found, _ = made.on_batch("a", batch(out(10), lacks=OutputId(9, 0)), 0)
    assert found == [OutputGap(OutputId(3, 0), OutputId(9, 0)), out(10)]


def test_one_that_takes_whatever_there_is_has_no_gap() -> None:
    made = Collector("book", None)
    made.on_up("a", 0)
    assert ids(made.on_batch("a", batch(out(10), lacks=OutputId(9, 0)), 0)[0]) == [(10, 0)]


def test_cut_off_from_the_leader_alone() -> None:
    """Another member serves, until the leader is heard again."""
    made = Collector("book", OutputId(1, 0))
    made.on_up("b", 0)
    follows = batch(is_leader=False, serves=False)
    assert made.on_batch("b", follows, PATIENCE_NS // 2) == ([], [])
    assert made.on_tick(PATIENCE_NS - 1) == []
    assert made.on_tick(PATIENCE_NS) == [("b", OutputAsk("book", OutputId(1, 0), is_any=True))]
    found, _ = made.on_batch("b", batch(out(2), previous=OutputId(1, 0), is_leader=False), PATIENCE_NS)
    assert ids(found) == [(2, 0)]
    made.on_up("a", PATIENCE_NS)
    _, asks = made.on_batch("a", batch(previous=OutputId(2, 0)), PATIENCE_NS)
    assert asks == [("b", OutputAsk("book", OutputId(2, 0)))]
    assert made.on_tick(PATIENCE_NS + 1) == []


def test_messages_are_read_back() -> None:
    ask = OutputAsk("book", OutputId(1, 2), is_any=True, udp="127.0.0.1:1", secret=b"s" * 32)
    assert decode_ask(encode_output(ask)) == ask
    said = batch(out(1), out(2, 3), previous=OutputId(0, 0), lacks=OutputId(0, 1))
    assert decode_batch(encode_output(said)) == said
