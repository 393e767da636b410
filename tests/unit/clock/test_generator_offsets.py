"""Logical time only grows, under any mix of readings, peers, roll-overs and restarts."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.clock.errors import SkewTooLarge
from holdfast.clock.offsets import LogicalTime
from holdfast.model.csn import SEQUENCE_MAX, Csn
from holdfast.model.ids import SECOND, ReplicaId

START_S = 1000
MAX_SKEW_S = 20
FAR_S = 2000
"""A stored future timestamp that is never reached."""

readings = st.integers(900 * SECOND, 1100 * SECOND)
remotes = st.builds(
    Csn,
    st.integers(950, 1050),
    st.sampled_from([0, 1, 2, SEQUENCE_MAX - 1, SEQUENCE_MAX]),
    st.just(ReplicaId(2)),
)
steps = st.lists(
    st.one_of(
        st.tuples(st.just("sample"), readings),
        st.tuples(st.just("observe"), st.tuples(readings, remotes)),
        st.tuples(st.just("take"), st.none()),
        st.tuples(st.just("roll over"), st.none()),
        st.tuples(st.just("resume"), st.tuples(st.integers(950, 1050), st.integers(0, 5))),
    )
)


@pytest.mark.covers("CSN-19", "CSN-20", "CSN-27", "CSN-30", "CSN-31")
@given(steps)
def test_grows_whatever_happens(history: list[tuple[str, object]]) -> None:
    """(T, S) and both offsets never go back, T is the whole seconds of the sum, and the skew has its
    limit."""
    time = LogicalTime(START_S * SECOND)
    for step, argument in history:
        before = (time.timestamp, time.sequence, time.local_ns, time.network_ns)
        match step, argument:
            case "sample", int(system_ns):
                time.sample(system_ns, until=FAR_S)
            case "observe", (int(system_ns), Csn() as csn):
                observe(time, csn, system_ns)
            case "take", _:
                time.sequence += 1
            case "roll over", _:
                time.roll_over()
            case "resume", (int(timestamp), int(sequence)):
                if (timestamp, sequence) >= (time.timestamp, time.sequence):
                    time.resume(timestamp, sequence)
                    assert (time.timestamp, time.sequence) == (timestamp, sequence)
        assert (time.timestamp, time.sequence) >= before[:2]
        assert time.local_ns >= before[2]
        assert time.network_ns >= before[3]
        assert time.timestamp == time.logical_ns // SECOND
        assert time.network_ns <= MAX_SKEW_S * SECOND


def observe(time: LogicalTime, csn: Csn, system_ns: int) -> None:
    before = (time.timestamp, time.sequence, time.system_ns, time.local_ns, time.network_ns)
    try:
        ahead_ns = time.observe("b", csn, system_ns=system_ns, max_skew_s=MAX_SKEW_S)
    except SkewTooLarge:
        ahead_ns = -1
    if ahead_ns < 0:
        assert before == (time.timestamp, time.sequence, time.system_ns, time.local_ns, time.network_ns)
    else:
        assert (time.timestamp, time.sequence) > (csn.timestamp, csn.sequence)
        assert ahead_ns == time.network_ns - before[4]


@pytest.mark.covers("CSN-24")
@given(readings, st.integers(START_S + 1, START_S + 50))
def test_waits_below_what_is_stored(system_ns: int, until: int) -> None:
    """A reading beyond the stored future moves the time to just below it; an earlier one is taken as it
    is."""
    time = LogicalTime(START_S * SECOND)
    time.sample(system_ns, until=until)
    assert time.timestamp == min(max(system_ns // SECOND, START_S), until - 1)


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(1, 2 * SECOND)), max_size=60))
def test_the_foremost_clock_leads_for_ever(exchanges: list[tuple[int, int]]) -> None:
    """However three servers exchange CSNs, none is pulled past the one whose clock is foremost."""
    leads_ns = (0, 3_000_000, 700_000_000)
    times = [LogicalTime(START_S * SECOND + lead) for lead in leads_ns]
    now_ns = START_S * SECOND
    for sender, passed_ns in exchanges:
        now_ns += passed_ns
        times[sender].sample(now_ns + leads_ns[sender], until=FAR_S)
        csn = Csn(times[sender].timestamp, 0, ReplicaId(sender))
        for receiver, time in enumerate(times):
            if receiver != sender:
                time.observe("x", csn, system_ns=now_ns + leads_ns[receiver], max_skew_s=None)
    for lead_ns, time in zip(leads_ns, times, strict=True):
        assert lead_ns + time.network_ns <= max(leads_ns)


def test_what_peers_pulled_can_be_absorbed_and_time_stays() -> None:
    """The limit counts anew, the time is the same to the nanosecond, and it still only grows."""
    time = LogicalTime(START_S * SECOND)
    far = Csn(START_S + MAX_SKEW_S, 3, ReplicaId(2))
    time.observe("b", far, system_ns=START_S * SECOND, max_skew_s=MAX_SKEW_S)
    further = Csn(START_S + 2 * MAX_SKEW_S, 0, ReplicaId(2))
    with pytest.raises(SkewTooLarge):
        time.observe("b", further, system_ns=START_S * SECOND, max_skew_s=MAX_SKEW_S)
    before = (time.logical_ns, time.timestamp, time.sequence)
    assert time.absorb() == MAX_SKEW_S * SECOND
    assert (time.logical_ns, time.timestamp, time.sequence) == before
    assert (time.local_ns, time.network_ns) == (MAX_SKEW_S * SECOND, 0)
    time.observe("b", further, system_ns=START_S * SECOND, max_skew_s=MAX_SKEW_S)
    assert (time.timestamp, time.sequence) > (further.timestamp, further.sequence)
