"""Tests that followers of a group learn of its new views, followers of the hosts learn of their addresses,
and nobody else is told anything."""

from holdfast.authority.sessions import Session
from holdfast.groups.subscribers import FOLLOWED_MAX, FOLLOWERS_MAX, GroupSubscribers, HostSubscribers
from holdfast.model.calls import HOSTS_MAX, HostAt, Redirected, ToClient, Whereabouts
from holdfast.model.ids import Epoch, GroupId, HostId, Incarnation, Nonce
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
    followers, client, stranger = GroupSubscribers(), Connection(), Connection()
    followers.add(ONE, client)
    followers.add(ONE, client)
    followers.add(OTHER, stranger)
    followers.tell(reference(ONE))
    assert client.told == [Redirected(0, reference(ONE))]
    assert stranger.told == []


def test_one_that_has_gone_is_told_nothing_and_leaves_nothing_behind() -> None:
    followers, client = GroupSubscribers(), Connection()
    followers.add(ONE, client)
    followers.add(OTHER, client)
    followers.on_gone(client)
    followers.on_gone(client)
    followers.tell(reference(ONE))
    assert client.told == []


def test_their_number_is_bounded() -> None:
    followers, clients = GroupSubscribers(), [Connection() for _ in range(FOLLOWERS_MAX + 1)]
    for client in clients:
        followers.add(ONE, client)
    followers.tell(reference(ONE))
    assert sum(len(client.told) for client in clients) == FOLLOWERS_MAX
    followers.on_gone(clients[-1])


def test_one_client_follows_so_many_groups_and_no_more() -> None:
    """The bound counts groups that do not exist, too, so that nobody can fill a host by making up group
    ids."""
    followers, client = GroupSubscribers(), Connection()
    for number in range(FOLLOWED_MAX + 2):
        followers.add(GroupId(number), client)
    followers.add(GroupId(0), client)
    for number in (0, FOLLOWED_MAX - 1, FOLLOWED_MAX, FOLLOWED_MAX + 1):
        followers.tell(reference(GroupId(number)))
    assert client.told == [Redirected(0, reference(GroupId(each))) for each in (0, FOLLOWED_MAX - 1)]
    followers.on_gone(client)
    assert followers.count == 0


def test_nothing_is_kept_of_a_group_that_is_removed() -> None:
    """Clients stay for months, while groups come and go."""
    followers, client = GroupSubscribers(), Connection()
    followers.add(ONE, client)
    followers.add(OTHER, client)
    followers.forget(ONE)
    followers.forget(ONE)
    assert followers.count == 1
    followers.tell(reference(ONE))
    assert client.told == []
    followers.on_gone(client)
    assert followers.count == 0


def session(host: str, incarnation: int) -> Session:
    address = f"{host}:{7400 + incarnation}"
    return Session(host=HostId(host), incarnation=Incarnation(incarnation), address=address, nonce=Nonce("n"))


def at(host: str, incarnation: int) -> HostAt:
    return HostAt(HostId(host), Incarnation(incarnation), f"{host}:{7400 + incarnation}")


def test_where_the_hosts_are_is_told_at_once_and_whenever_it_changes() -> None:
    followers, early, late = HostSubscribers(), Connection(), Connection()
    followers.add(early)
    followers.tell([session("a", 1)])
    followers.tell([session("a", 1)])
    followers.add(late)
    followers.tell([session("a", 2)])
    first, second = Whereabouts((at("a", 1),)), Whereabouts((at("a", 2),))
    assert early.told == [Whereabouts(()), first, second]
    assert late.told == [first, second]


def test_who_has_gone_is_not_told_where_the_hosts_are() -> None:
    followers, client = HostSubscribers(), Connection()
    followers.add(client)
    followers.on_gone(client)
    followers.on_gone(client)
    followers.tell([session("a", 1)])
    assert client.told == [Whereabouts(())]


def test_of_very_many_hosts_only_so_many_are_told() -> None:
    followers, client = HostSubscribers(), Connection()
    followers.tell(session(f"h{number}", 1) for number in range(HOSTS_MAX + 1))
    followers.add(client)
    (told,) = client.told
    assert isinstance(told, Whereabouts)
    assert len(told.hosts) == HOSTS_MAX
