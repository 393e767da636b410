"""How soon a process is restarted."""

from holdfast.agent.restart_policy import DELAY_NS_MAX, FIRST_DELAY_NS, GROWN_UP_NS, Restarts
from holdfast.model.ids import SECOND


def test_a_process_that_lived_well_is_back_at_once_however_often() -> None:
    state = Restarts()
    for _ in range(50):
        state, delay = state.after_death(GROWN_UP_NS)
        assert delay == 0
    assert state.count == 50


def test_a_process_that_keeps_dying_young_waits_longer_each_time_up_to_a_bound() -> None:
    state, delays = Restarts(), []
    for _ in range(40):
        state, delay = state.after_death(SECOND // 100)
        delays.append(delay)
    assert delays[:4] == [0, FIRST_DELAY_NS, 2 * FIRST_DELAY_NS, 4 * FIRST_DELAY_NS]
    assert delays == sorted(delays)
    assert delays[-1] == DELAY_NS_MAX


def test_one_good_life_clears_the_record() -> None:
    state = Restarts()
    for _ in range(5):
        state, _ = state.after_death(0)
    state, _ = state.after_death(GROWN_UP_NS)
    assert state.after_death(0)[1] == 0
