"""The simulated network delays, loses, duplicates, reorders and cuts as told."""

from collections import Counter

from sim_world import make_world, probe

from holdfast.sim import MILLISECOND, SECOND, World
from holdfast.sim.engine.options import NetworkOptions


def pair(options: NetworkOptions | None = None) -> World:
    world = make_world(network=options or NetworkOptions())
    probe(world, "a")
    probe(world, "b")
    return world


def sent(world: World, count: int = 1000) -> list[int]:
    """Return what b has received after a has sent that many numbers."""
    for number in range(count):
        world.after(number * MILLISECOND, world.nodes["a"].core.ports.network.send, "b", number)
    world.run_until(world.now + count * MILLISECOND + 10 * SECOND)
    return [message for peer, message in world.nodes["b"].core.messages if peer == "a"]


def test_without_faults_everything_arrives_once() -> None:
    assert sorted(sent(pair())) == list(range(1000))


def test_delay_is_at_least_the_minimum() -> None:
    world = pair(NetworkOptions(delay_min_ns=5 * MILLISECOND))
    world.nodes["a"].core.ports.network.send("b", "hello")
    world.run_until(5 * MILLISECOND - 1)
    assert world.nodes["b"].core.messages == []
    world.run_until(SECOND)
    assert world.nodes["b"].core.messages == [("a", "hello")]


def test_unequal_delays_reorder() -> None:
    arrived = sent(pair(NetworkOptions(delay_mean_ns=20 * MILLISECOND)))
    assert arrived != sorted(arrived)
    assert sorted(arrived) == list(range(1000))


def test_loss_loses_about_its_share() -> None:
    assert 600 < len(sent(pair(NetworkOptions(loss=0.3)))) < 800


def test_duplication_repeats_about_its_share_once() -> None:
    counts = Counter(sent(pair(NetworkOptions(duplicate=0.3))))
    assert set(counts.values()) == {1, 2}
    assert 200 < sum(count == 2 for count in counts.values()) < 400


def test_a_late_message_reaches_the_next_incarnation() -> None:
    """A message may outlive the restart of both its sender and its receiver."""
    world = pair(NetworkOptions(late=1.0, late_max_ns=2 * SECOND))
    for number in range(20):
        world.nodes["a"].core.ports.network.send("b", number)
    for name in ("a", "b"):
        world.nodes[name].kill()
        world.nodes[name].start()
    world.run_until(3 * SECOND)
    assert sorted(message for _, message in world.nodes["b"].core.messages) == list(range(20))


def test_a_cut_is_one_way_and_counts() -> None:
    world = pair()
    world.network.cut([("a", "b")])
    world.network.cut([("a", "b")])
    world.network.mend([("a", "b")])
    assert sent(world, 10) == []
    world.nodes["b"].core.ports.network.send("a", "back")
    world.run_until(world.now + SECOND)
    assert world.nodes["a"].core.messages == [("b", "back")]
    world.network.mend([("a", "b")])
    assert len(sent(world, 10)) == 10


def test_a_cut_hits_messages_in_flight() -> None:
    world = pair(NetworkOptions(delay_min_ns=10 * MILLISECOND))
    world.nodes["a"].core.ports.network.send("b", "caught")
    world.run_until(MILLISECOND)
    world.network.cut([("a", "b")])
    world.run_until(SECOND)
    assert world.nodes["b"].core.messages == []


def test_a_dead_node_receives_nothing_and_a_stale_handle_sends_nothing() -> None:
    world = pair()
    stale = world.nodes["a"].core.ports.network
    world.nodes["a"].kill()
    world.nodes["a"].start()
    stale.send("b", "from the dead")
    receiver = world.nodes["b"].core
    world.nodes["b"].kill()
    world.nodes["a"].core.ports.network.send("b", "to the dead")
    world.run_until(SECOND)
    world.nodes["b"].start()
    world.run_until(2 * SECOND)
    assert receiver.messages == []
    assert world.nodes["b"].core.messages == []


def test_messages_pass_the_codec() -> None:
    class Reverse:
        def encode(self, message: object) -> bytes:
            assert isinstance(message, bytes)
            return message[::-1]

        def decode(self, data: bytes) -> object:
            return "decoded", data[::-1]

    world = pair()
    world.network.codec = Reverse()
    world.nodes["a"].core.ports.network.send("b", b"abc")
    world.run_until(SECOND)
    assert world.nodes["b"].core.messages == [("a", ("decoded", b"abc"))]


def test_a_message_to_nobody_is_lost() -> None:
    world = pair()
    world.nodes["a"].core.ports.network.send("nobody", "hello")
    world.run_until(SECOND)
    assert world.violations == []
