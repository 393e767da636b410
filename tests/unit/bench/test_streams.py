"""What `holdfast bench streams` says at the end is all that it measured."""

from holdfast.bench.streams import BATCHED, POLICIES, SHAPES, SINGLE, Measured, judged
from holdfast.bench.systems.corosync import Delivered


def measured() -> Measured:
    """Both sides measured once with each load, the peer twice as fast."""
    found = Measured()
    for shape in (*map(str, SHAPES), f"{BATCHED}, three senders", f"{SINGLE}, three senders"):
        found.ours[shape], found.theirs[shape] = [Delivered(10.0, 5.0)], [Delivered(20.0, 10.0)]
    for shape in SHAPES:
        found.counting[str(shape)] = [Delivered(40.0, 10.0)]
    for shape in (BATCHED, SINGLE):
        what = f"{shape}, at half of corosync's rate"
        found.ours[what], found.theirs[what] = (
            [Delivered(5.0, 0.0, 30.0, 60.0)],
            [Delivered(5.0, 0.0, 10.0, 60.0)],
        )
    found.whole = [Delivered(10.0, 5.0)]
    found.lossy = {policy: [Delivered(9.0, 5.0)] for policy in POLICIES}
    found.back_s, found.meanwhile = [(3.0, 2.0)], [(9.5, 10.0)]
    return found


def test_each_load_is_beside_its_peer_in_wall_time_and_per_cpu_second() -> None:
    said = {each.name: each for each in judged(measured())}
    assert len(said) == len(judged(measured())), "each has a name of its own"
    for shape in SHAPES:
        one = said[str(shape)]
        assert (one.ratio, one.target) == (0.5, 0.6 if shape.is_batched else 1.5)
        assert said[f"{shape}: deliveries per CPU second"].ratio == 0.5
        assert said[f"{shape}: beside the client that only counts"].ratio == 0.25
    for shape in (BATCHED, SINGLE):
        assert said[f"{shape}, three senders"].ratio == 0.5
        assert said[f"{shape}, at half of corosync's rate: p50"].met
        assert said[f"{shape}, at half of corosync's rate: p99"].ratio == 1.0
    assert {shape.bytes for shape in SHAPES} == {64, 1_024}


def test_loss_and_suspension_are_beside_the_same_without() -> None:
    said = {each.name: each for each in judged(measured())}
    assert (said["1 % lost, drop"].ratio, said["1 % lost, drop"].target) == (0.9, 0.95)
    assert said["1 % lost, recover"].ratio == 0.9
    assert said["suspended with 100 MB, until it is back"].met
    assert said["delivered meanwhile"].ratio == 0.95


def test_without_a_peer_the_rest_is_said_all_the_same() -> None:
    found = measured()
    found.absent = "no corosync here"
    assert [each.name for each in judged(found)] == [
        "1 % lost, drop",
        "1 % lost, recover",
        "suspended with 100 MB, until it is back",
        "delivered meanwhile",
    ]


def test_one_part_is_judged_by_itself() -> None:
    """Each part has its own runs without loss, so none needs another's."""
    found = Measured(whole=[Delivered(10.0, 5.0)], lossy={"drop": [Delivered(9.0, 5.0)]})
    assert [(each.name, each.ratio) for each in judged(found)] == [("1 % lost, drop", 0.9)]
