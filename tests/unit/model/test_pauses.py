"""A process that stood still knows it, and from when on it has looked in time again."""

from holdfast.model.pauses import PauseDetector


class Hands:
    at = 1_000

    def now(self) -> int:
        return self.at

    def wall(self) -> int:
        return self.at


def test_a_look_that_comes_much_too_late_ends_a_pause() -> None:
    clock = Hands()
    pauses = PauseDetector(clock, missed=2)
    assert pauses.look(10) == 0
    clock.at += 20
    assert pauses.look(10) == 0  # late, but no pause
    assert pauses.since() == 0
    clock.at += 21
    assert pauses.since() == clock.at  # it is missing a look now
    assert pauses.look(10) == 21
    ended_at = clock.at
    clock.at += 10
    assert pauses.look(10) == 0
    assert pauses.since() == ended_at


def test_who_has_never_looked_was_not_paused() -> None:
    clock = Hands()
    pauses = PauseDetector(clock)
    clock.at += 10**12
    assert pauses.since() == 0
    assert pauses.look(10) == 0
