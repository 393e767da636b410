"""What an agent repeats to hosts that subscribe later."""

from holdfast.agent.known_deaths import DEATHS_KEPT, KnownDeaths
from holdfast.model.ids import HostId, Incarnation
from holdfast.node.messages import HostDied


class Clock:
    time = 0

    def now(self) -> int:
        return self.time

    def wall(self) -> int:
        return self.time


def died(number: int, how: str = "ended", *, will_be_quoted: bool = False) -> HostDied:
    return HostDied(
        host=HostId("b"),
        incarnation=Incarnation(number),
        proof="lock",
        how=how,
        will_be_quoted=will_be_quoted,
    )


def test_a_death_is_repeated_with_its_age() -> None:
    """A host that connects later must not take an old death for one that has just happened (K7)."""
    clock = Clock()
    known = KnownDeaths(clock)
    known.add(died(1))
    clock.time = 70
    known.add(died(2))
    clock.time = 100
    assert [(each.incarnation, each.age_ns) for each in known.repeated()] == [(1, 100), (2, 30)]


def test_only_the_newest_are_repeated() -> None:
    known = KnownDeaths(Clock())
    for number in range(DEATHS_KEPT + 3):
        known.add(died(number))
    assert next(each.incarnation for each in known.repeated()) == 3


def test_the_full_word_of_a_death_replaces_the_first() -> None:
    """Who subscribes between the two hears the first, and then the second as all others do."""
    known = KnownDeaths(Clock())
    known.add(died(1, "exited", will_be_quoted=True))
    assert [each.how for each in known.repeated()] == ["exited"]
    known.add(died(1, "exited: no room"))
    assert [each.how for each in known.repeated()] == ["exited: no room"]
    known.add(died(2, "exited", will_be_quoted=True))
    known.add(died(3))
    assert [each.incarnation for each in known.repeated()] == [1, 2, 3]
