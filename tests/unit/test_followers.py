"""Those who follow a group are told when it is served in a new view, and nobody else is."""

from holdfast.housing.followers import FOLLOWERS_MAX, Followers
from holdfast.model.calls import Redirected, ToClient
from holdfast.model.ids import Epoch, GroupId, HostId
from holdfast.model.reference import Reference

ONE, OTHER = GroupId(1), GroupId(2)


class Connection:
    def __init__(self) -> None:
        self.told: list[ToClient] = []

    def send(self, message: ToClient) -> None:
        self.told.append(message)

    def hang_up(self, why: str) -> None:
        raise AssertionError(why)


def reference(group: GroupId) -> Reference:
    return Reference(group, "g", Epoch(2), HostId("b"), ())


def test_a_follower_is_told_once_of_its_own_groups() -> None:
    followers, client, stranger = Followers(), Connection(), Connection()
    followers.add(ONE, client)
    followers.add(ONE, client)
    followers.add(OTHER, stranger)
    followers.tell(reference(ONE))
    assert client.told == [Redirected(0, reference(ONE))]
    assert stranger.told == []


def test_one_that_has_gone_is_told_nothing_and_leaves_nothing_behind() -> None:
    followers, client = Followers(), Connection()
    followers.add(ONE, client)
    followers.add(OTHER, client)
    followers.on_gone(client)
    followers.on_gone(client)
    followers.tell(reference(ONE))
    assert client.told == []


def test_their_number_is_bounded() -> None:
    followers, clients = Followers(), [Connection() for _ in range(FOLLOWERS_MAX + 1)]
    for client in clients:
        followers.add(ONE, client)
    followers.tell(reference(ONE))
    assert sum(len(client.told) for client in clients) == FOLLOWERS_MAX
    followers.on_gone(clients[-1])
