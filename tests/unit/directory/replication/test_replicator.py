"""Masters that are linked come to have the same, send little twice, and guard each other."""

from typing import Any

import pytest
from directory_links import CONFIG, Linked, Mesh
from directory_replica import ADMIN, SUFFIX, person
from msgspec import structs

from holdfast.clock.vector import Vector
from holdfast.directory.replica.changelog import csn_of
from holdfast.directory.replica.maps import UPDATES
from holdfast.directory.replica.update import decoded_update
from holdfast.directory.replication.admission import NotReady, ReferredElsewhere
from holdfast.directory.replication.housekeeping import RetirementNeedsForce
from holdfast.directory.replication.link import Phase
from holdfast.directory.replication.messages import (
    CannotSupply,
    Have,
    Hello,
    Reason,
    Refused,
    Updates,
    decode_message,
)
from holdfast.directory.replication.ports import ReplicationConfig
from holdfast.directory.replication.replicator import RELAY, TELL, TICK
from holdfast.model.csn import Csn
from holdfast.model.errors import InvalidRequest
from holdfast.model.ids import ReplicaId
from holdfast.model.validation import insist_valid

RING = ((1, 2), (2, 3), (3, 4), (1, 4))


def populated(count: int, links: Any, **settings: Any) -> Mesh:
    mesh = Mesh(count, links, **settings)
    mesh[1].master.populate()
    mesh.connect()
    mesh.settle()
    return mesh


def updates_sent(mesh: Mesh) -> int:
    return sum(len(batch.updates) for each in mesh.masters.values() for batch in each.wires.of(Updates))


@pytest.mark.covers("CSN-66")
@pytest.mark.parametrize(
    "links", [((1, 2), (2, 3), (3, 4)), RING, tuple((a, b) for a in range(1, 5) for b in range(a + 1, 5))]
)
def test_chain_ring_and_mesh_end_alike(links: Any) -> None:
    """Changes made anywhere arrive everywhere, through others where there is no link. Store, links, clock and
    timers are not those of a host: replication stands on ports, and its services can be exchanged."""
    mesh = populated(4, links)
    for number in range(1, 5):
        mesh[number].master.do(person(f"p{number}"))
    mesh.settle()
    assert len({mesh[n].dump() for n in range(1, 5)}) == 1
    assert len(mesh[4].master.dns("(uid=*)")) == 4


@pytest.mark.covers("CSN-62")
def test_nothing_goes_round_in_circles() -> None:
    """In a ring each change is sent along each link once at most, and then no more."""
    mesh = populated(4, RING)
    before = updates_sent(mesh)
    mesh[1].master.do(person("ann"))
    mesh.settle(rounds=20)
    assert 3 <= updates_sent(mesh) - before <= 4


@pytest.mark.covers("CSN-54")
def test_what_is_on_its_way_to_the_disk_is_neither_sent_nor_claimed() -> None:
    """Of two changes that were begun the first is committed: it alone is sent, and the vector ends with it.
    The second follows when it is on the disk, after the first."""
    mesh = populated(2, ((1, 2),))
    one = mesh[1]
    before = len(one.wires.of(Updates))
    first, second = (
        one.replica.execute(person(each), ADMIN, lambda csn: None) for each in ("first", "second")
    )
    assert one.replica.vector.get(ReplicaId(1)) < first
    one.fire()
    assert [batch for batch in one.wires.of(Updates)[before:] if batch.updates] == []
    one.master.store.commit(1)
    sent = [decoded_update(each).csn for batch in one.wires.of(Updates)[before:] for each in batch.updates]
    assert sent == [first]
    assert one.replica.vector.get(ReplicaId(1)) == first
    mesh.settle()
    sent = [decoded_update(each).csn for batch in one.wires.of(Updates)[before:] for each in batch.updates]
    assert sent == [first, second]


def test_a_change_of_another_is_one_transaction_and_is_confirmed_when_it_is_on_the_disk() -> None:
    """What comes next does not wait behind a second sync, and nothing is confirmed before the first."""
    mesh = populated(2, ((1, 2),))
    mesh[1].master.do(person("ann"))
    batches = [data for peer, data in mesh[1].wires.queue if isinstance(decode_message(data), Updates)]
    mesh[1].wires.queue.clear()
    assert len(batches) == 1
    receiver = mesh[2]
    receiver.replicator.on_message("m1", decode_message(batches[0]))
    assert receiver.master.store.on_its_way == 1
    number = decode_message(batches[0]).number
    link = receiver.replicator.links["m1"]
    assert link.consumer.done == number - 1
    receiver.master.store.commit()
    assert link.consumer.done == number


@pytest.mark.covers("CSN-62")
def test_a_change_is_not_sent_back_to_whom_it_came_from() -> None:
    """Also before the sender has said that it has it: it does not say so of its own changes."""
    mesh = populated(2, ((1, 2),))
    sent = len([each for batch in mesh[2].wires.of(Updates) for each in batch.updates])
    for number in range(3):
        mesh[1].master.do(person(f"a{number}"))
        mesh[1].fire(TELL)
        while mesh[1].wires.queue:
            _, data = mesh[1].wires.queue.popleft()
            mesh[2].replicator.on_message("m1", decode_message(data))
        mesh[2].master.store.commit()
        mesh[2].fire(TELL)
        mesh[2].fire(RELAY)
    assert mesh[2].master.dns("(uid=*)") == mesh[1].master.dns("(uid=*)")
    assert len([each for batch in mesh[2].wires.of(Updates) for each in batch.updates]) == sent


def issue_after_a_statement(mesh: Mesh, count: int) -> list[Csn]:
    """Let the first master make a statement and then change something, *count* times; its link hears of
    nothing until all of it is on the disk."""
    one = mesh[1]
    newest = one.replica.vector.get(ReplicaId(1))
    mesh.world.run_until(mesh.world.now + CONFIG.statement_ns)
    one.fire(TICK)
    one.master.store.commit()
    stated = one.roster.statements[ReplicaId(1)].csn
    assert newest is not None
    assert newest < stated
    return [one.master.do(person(f"after-{number}")) for number in range(count)]


@pytest.mark.covers("CSN-62")
def test_a_statement_that_is_older_than_changes_lets_none_be_sent_twice() -> None:
    """A master speaks and then changes something while a link is cut. When it heals, the statement goes along
    with the changes that came after it: they are sent once, on by the next one, too, and none goes back."""
    mesh = populated(3, ((1, 2), (2, 3)))
    mesh.cut(1, 2)
    before = {name: len(each.wires.sent) for name, each in mesh.masters.items()}
    issued = issue_after_a_statement(mesh, 7)
    mesh.join(1, 2)
    mesh.deliver()
    mesh.settle()
    sent = [
        (name, peer, decoded_update(each).csn)
        for name, master in mesh.masters.items()
        for peer, message in master.wires.sent[before[name] :]
        if isinstance(message, Updates)
        for each in message.updates
    ]
    assert sent == [("m1", "m2", each) for each in issued] + [("m2", "m3", each) for each in issued]
    assert mesh[3].dump() == mesh[1].dump()
    link = mesh[1].replicator.links["m2"]
    assert link.supplier is not None
    assert link.supplier.sent == 7


def test_a_statement_is_on_the_disk_before_the_vector_passes_it() -> None:
    """Changes that came after it wait for it, also where they would fit into the same batch: a process that
    ends between the two would have passed a statement that it does not have, and ask for it never again."""
    mesh = populated(2, ((1, 2),))
    one, two = mesh[1], mesh[2]
    mesh.cut(1, 2)
    issued = issue_after_a_statement(mesh, 3)
    stated = one.roster.statements[ReplicaId(1)]
    before = len(one.wires.of(Updates))
    mesh.join(1, 2)
    mesh.deliver()
    sent = [(each.statements, len(each.updates)) for each in one.wires.of(Updates)[before:]]
    assert sent == [((stated,), 0), ((), 3)]
    assert two.roster.statements[ReplicaId(1)] == stated
    assert two.replica.vector.covers(issued[-1])


def test_a_statement_waits_for_the_changes_before_it() -> None:
    """More of them than fit into one batch: it goes with the last."""
    mesh = populated(2, ((1, 2),))
    one = mesh[1]
    mesh.cut(1, 2)
    for number in range(CONFIG.batch_updates + 3):
        one.master.do(person(f"before-{number}"))
    issue_after_a_statement(mesh, 0)
    stated = one.roster.statements[ReplicaId(1)]
    before = len(one.wires.of(Updates))
    mesh.join(1, 2)
    mesh.deliver()
    sent = [each for each in one.wires.of(Updates)[before:] if each.updates or each.statements]
    assert len(sent) > 1
    assert [stated in each.statements for each in sent] == [False] * (len(sent) - 1) + [True]


@pytest.mark.covers("CSN-62")
def test_what_came_with_an_older_statement_is_not_sent_back_and_may_be_followed_on() -> None:
    """Before either is on the disk: the batch that comes next follows on the changes, not the statement."""
    mesh = populated(2, ((1, 2),))
    one, two = mesh[1], mesh[2]
    mesh.cut(1, 2)
    issue_after_a_statement(mesh, 3)
    before = len(two.wires.of(Updates))
    mesh.join(1, 2)
    _, hello = two.wires.queue.popleft()
    one.replicator.on_message("m2", decode_message(hello))
    one.master.do(person("later"))
    while one.wires.queue:
        two.replicator.on_message("m1", decode_message(one.wires.queue.popleft()[1]))
    assert two.replicator.links["m1"].phase is Phase.OPEN
    two.master.store.commit()
    two.fire(RELAY)
    assert [batch for batch in two.wires.of(Updates)[before:] if batch.updates] == []
    assert two.dump() == one.dump()


@pytest.mark.covers("CSN-62")
def test_a_master_with_news_of_its_own_leaves_others_changes_to_their_issuer() -> None:
    """One that has got a change of another sends its own at once, and that one only when its issuer has had
    time to."""
    mesh = populated(3, ((1, 2), (2, 3), (1, 3)))
    mesh[1].master.do(person("ann"))
    for peer, data in list(mesh[1].wires.queue):
        if peer == "m2":
            mesh[2].replicator.on_message("m1", decode_message(data))
    mesh[2].master.store.commit()
    before = len(mesh[2].wires.sent)
    own = mesh[2].master.do(person("bob"))
    mesh[2].master.store.commit()
    sent = [
        decoded_update(each).csn
        for peer, message in mesh[2].wires.sent[before:]
        if peer == "m3" and isinstance(message, Updates)
        for each in message.updates
    ]
    assert sent == [own]
    assert len(mesh[2].master.dns("(uid=*)")) == 2


@pytest.mark.covers("CSN-62")
def test_a_mesh_sends_own_changes_once() -> None:
    """Who has a link to the issuer is not sent a change by a third: relays wait, and then know better."""
    mesh = populated(3, ((1, 2), (2, 3), (1, 3)))
    before = updates_sent(mesh)
    mesh[1].master.do(person("ann"))
    mesh.deliver()
    mesh.settle()
    assert updates_sent(mesh) - before == 2


def test_a_link_goes_on_where_it_was_cut() -> None:
    mesh = populated(2, ((1, 2),))
    mesh.cut(1, 2)
    for number in range(5):
        mesh[1].master.do(person(f"a{number}"))
        mesh[2].master.do(person(f"b{number}"))
    before = updates_sent(mesh)
    mesh.join(1, 2)
    mesh.settle()
    assert updates_sent(mesh) - before == 10
    assert mesh[1].dump() == mesh[2].dump()


def test_a_window_bounds_what_is_on_its_way() -> None:
    """Nothing more is sent before the peer has committed what it was sent."""
    config = structs.replace(CONFIG, window_updates=2, batch_updates=2)
    mesh = Mesh(2, ((1, 2),), config=config)
    mesh[1].master.populate()
    for number in range(6):
        mesh[1].master.do(person(f"a{number}"))
    mesh[1].replicator.on_up("m2")
    mesh[2].replicator.on_up("m1")
    hello = mesh[2].wires.of(Hello)[0]
    mesh[1].replicator.on_message("m2", hello)
    mesh[2].wires.queue.clear()
    assert sum(len(batch.updates) for batch in mesh[1].wires.of(Updates)) == 2
    mesh.settle()
    assert mesh[1].dump() == mesh[2].dump()


def test_a_peer_that_sends_too_much_is_refused() -> None:
    mesh = populated(2, ((1, 2),))
    tight = structs.replace(CONFIG, window_bytes=300)
    mesh[2].begin(tight)
    mesh[2].replicator.on_up("m1")
    generous = structs.replace(mesh[1].wires.of(Hello)[0], window_bytes=1 << 20)
    mesh[2].replicator.on_message("m1", generous)
    first = mesh[1].wires.of(Updates)[0]
    many = structs.replace(first, number=1, after=(), updates=first.updates * 4, statements=())
    mesh[2].replicator.on_message("m1", many)
    assert mesh[2].replicator.links["m1"].problem is not None
    assert mesh[2].replicator.links["m1"].problem.reason is Reason.INVALID


def test_a_batch_that_follows_on_what_is_not_here_is_refused() -> None:
    """A lost batch is noticed, although CSNs need not be without gaps."""
    mesh = populated(2, ((1, 2),))
    link = mesh[2].replicator.links["m1"]
    missing = Csn(2**31, 0, ReplicaId(1))
    before = mesh[2].replica.vector
    mesh[2].replicator.on_message("m1", Updates(number=link.consumer.done + 1, after=(missing,)))
    assert link.phase is Phase.ENDED
    assert mesh[2].replica.vector == before


def test_an_idle_master_moves_its_vector_without_entries() -> None:
    mesh = populated(2, ((1, 2),))
    before, entries = mesh[1].replica.vector.get(ReplicaId(2)), mesh[1].dump()
    sent = updates_sent(mesh)
    mesh.settle(rounds=5)
    assert mesh[1].replica.vector.get(ReplicaId(2)) > before
    assert updates_sent(mesh) == sent
    assert len(mesh[1].master.dns()) == 2
    assert mesh[1].replica.vector.covers_all(mesh[2].replica.vector) or entries


def test_a_silent_link_is_given_up() -> None:
    mesh = populated(2, ((1, 2),))
    mesh.links.clear()
    mesh.settle(rounds=8)
    assert "m2" not in mesh[1].replicator.links
    assert "m2" in mesh[1].wires.closed


# --- the changelog


@pytest.mark.covers("CSN-57")
def test_what_all_have_is_trimmed_and_nothing_else() -> None:
    mesh = populated(2, ((1, 2),))
    mesh.settle()
    trimmed = mesh[1].replica.trimmed.get(ReplicaId(1))
    assert trimmed is not None, "what both have is kept for nobody"
    newest = max(csn_of(row) for row in mesh[1].master.image.maps[UPDATES].rows)
    assert newest > trimmed, "but for the newest, which nobody is rid of"
    assert newest.replica == 1
    mesh.cut(1, 2)
    kept = mesh[1].master.do(person("ann"))
    mesh[1].master.do(person("bob"))
    mesh.settle()
    assert mesh[1].replica.trimmed.get(ReplicaId(1)) < kept


def test_a_known_replica_that_said_nothing_stops_trimming() -> None:
    """Nothing is known of it, so it has nothing (G5)."""
    mesh = populated(2, ((1, 2),))
    mesh[1].replicator.keep(mesh[1].roster.count(ReplicaId(9)), lambda: None)
    for number in range(4):
        mesh[1].master.do(person(f"a{number}"))
    before = mesh[1].replica.trimmed
    mesh.settle()
    assert mesh[1].replica.trimmed == before


@pytest.mark.covers("CSN-57")
def test_what_is_too_old_is_kept_no_longer_for_one_that_is_away() -> None:
    """However little it is; the one that lacks it is marked. Until then it is kept."""
    mesh = populated(3, ((1, 2), (1, 3)), config=structs.replace(CONFIG, log_age_s=60))
    mesh.cut(1, 3)
    kept = mesh[1].master.do(person("ann"))
    mesh[1].master.do(person("bob"))
    mesh.settle()
    assert not mesh[1].roster.lagging
    assert mesh[1].replica.trimmed.get(ReplicaId(1)) < kept
    mesh.settle(seconds=30)
    assert list(mesh[1].roster.lagging) == [ReplicaId(3)]
    assert mesh[1].replica.trimmed.get(ReplicaId(1)) >= kept


@pytest.mark.covers("CSN-57", "CSN-58")
def test_a_log_that_is_too_long_marks_who_lacks_it_first() -> None:
    """The mark is on the disk before the changes go, and the replica is told what it must do."""
    config = structs.replace(CONFIG, log_updates=3)
    mesh = populated(3, ((1, 2), (1, 3)), config=config)
    mesh.cut(1, 3)
    for number in range(8):
        mesh[1].master.do(person(f"a{number}"))
    one = mesh[1]
    for _ in range(10):
        mesh.world.run_until(mesh.world.now + 200_000_000)
        mesh[2].fire()
        one.fire()
        waiting = [change for batch in one.master.image.on_their_way for change in batch.changes]
        marks = [at for at, (_, key, _) in enumerate(waiting) if key.startswith(b"lagging/")]
        gone = [at for at, (name, _, value) in enumerate(waiting) if name == "updates" and value is None]
        if marks:
            assert not gone or marks[0] < gone[0]
        mesh.deliver()
    assert list(one.roster.lagging) == [ReplicaId(3)]
    mesh.join(1, 3)
    mesh.settle()
    assert one.wires.of(CannotSupply)
    assert mesh[3].replicator.links["m1"].shortage is not None
    assert mesh[3].master.dns("(uid=*)") == [], "it is given nothing with a gap before it"


def test_a_store_put_back_that_nobody_can_bring_up_to_date_is_stuck() -> None:
    """It may not issue changes, lacks what is kept nowhere, and a peer has all that it has: it is filled anew
    without asking people. One that serves clients is not, nor one that alone has something."""
    config = structs.replace(CONFIG, log_updates=3)
    mesh = populated(3, ((1, 2), (1, 3)), config=config)
    mesh.cut(1, 3)
    for number in range(8):
        mesh[1].master.do(person(f"a{number}"))
    mesh.settle(rounds=10)
    mesh.join(1, 3)
    mesh.settle()
    three = mesh[3]
    assert three.replicator.links["m1"].shortage is not None
    assert not three.replicator.is_stuck
    three.roster.own = structs.replace(three.roster.own, is_ready=False)
    assert three.replicator.is_stuck
    three.master.do(person("known-here-alone"))
    assert not three.replicator.is_stuck
    mesh.settle()
    assert three.replicator.is_stuck


def test_own_changes_that_nobody_else_has_are_kept_whatever_the_bound() -> None:
    """With them gone, filling this store anew would lose what was acknowledged here."""
    config = structs.replace(CONFIG, log_updates=3)
    mesh = populated(2, ((1, 2),), config=config)
    mesh.cut(1, 2)
    for number in range(8):
        mesh[1].master.do(person(f"a{number}"))
    mesh.settle()
    mesh.join(1, 2)
    mesh.settle()
    assert len(mesh[2].master.dns("(uid=*)")) == 8


def test_two_sides_that_are_cut_off_for_long_can_give_each_other_all() -> None:
    """What only half of the replicas have stays in the log, whatever its bound. If both sides had trimmed,
    neither could be brought up to date, and filling one from the other would lose what it acknowledged."""
    mesh = populated(4, RING, config=structs.replace(CONFIG, log_updates=3))
    mesh.cut(2, 3)
    mesh.cut(1, 4)
    for number in range(8):
        mesh[1].master.do(person(f"a{number}"))
        mesh[4].master.do(person(f"b{number}"))
    mesh.settle(rounds=10)
    mesh.join(2, 3)
    mesh.settle(rounds=10)
    for number in range(1, 5):
        assert len(mesh[number].master.dns("(uid=*)")) == 16
        assert all(link.shortage is None for link in mesh[number].replicator.links.values())


def test_one_side_that_is_most_trims_and_gets_what_the_other_has() -> None:
    """The log stays bounded where most replicas are; the one that was away gives what it has, and knows that
    it must be filled anew."""
    mesh = populated(3, ((1, 2), (2, 3)), config=structs.replace(CONFIG, log_updates=3))
    mesh.cut(2, 3)
    for number in range(8):
        mesh[1].master.do(person(f"a{number}"))
        mesh[3].master.do(person(f"b{number}"))
    mesh.settle(rounds=10)
    mesh.join(2, 3)
    mesh.settle(rounds=10)
    assert len(mesh[1].master.dns("(uid=*)")) == len(mesh[2].master.dns("(uid=*)")) == 16
    assert mesh[3].replicator.links["m2"].shortage is not None


# --- who is let in


def hello(one: Linked, **changes: Any) -> Hello:
    vector = Vector.of("g", [Csn(1, 0, ReplicaId(7))])
    greeting = Hello(
        suffix=SUFFIX,
        generation="g",
        replica=ReplicaId(7),
        vector=vector.text(),
        is_ready=True,
        window_updates=10,
        window_bytes=1000,
    )
    return structs.replace(greeting, **changes)


def refusal(one: Linked, greeting: Hello) -> Refused | None:
    one.replicator.on_up("stranger")
    link = one.replicator.links["stranger"]
    one.replicator.on_message("stranger", greeting)
    return link.problem


@pytest.mark.covers("CSN-70")
def test_a_peer_of_other_data_moves_nobodys_time() -> None:
    """Generations are compared before clocks (G4)."""
    mesh = populated(1, ())
    state = mesh[1].master.generator.status().state
    ahead = Vector.of("other", [Csn(state.position[0] + 1000, 0, ReplicaId(7))])
    refused = refusal(mesh[1], hello(mesh[1], generation="other", vector=ahead.text()))
    assert refused is not None
    assert refused.reason is Reason.GENERATION
    assert mesh[1].master.generator.status().state.network_ns == state.network_ns


@pytest.mark.covers("CSN-64")
def test_a_peer_whose_vector_is_ahead_moves_the_generator_past_it() -> None:
    """From the greeting on: before any of its changes has come."""
    mesh = populated(2, ((1, 2),))
    generator = mesh[1].master.generator
    ahead = Csn(generator.status().state.position[0] + 1000, 0, ReplicaId(7))
    vector = Vector.of(mesh[1].replica.vector.generation, [ahead])
    assert refusal(mesh[1], hello(mesh[1], vector=vector.text())) is None
    mesh.settle()
    assert mesh[1].master.do(person("ann")) > ahead


def test_a_peer_whose_clock_is_far_ahead_is_refused_and_writes_go_on() -> None:
    mesh = populated(1, ())
    time_s = mesh[1].master.generator.status().state.position[0]
    ahead = Vector.of("g", [Csn(time_s + 7200, 0, ReplicaId(7))])
    refused = refusal(mesh[1], hello(mesh[1], vector=ahead.text()))
    assert refused is not None
    assert refused.reason is Reason.SKEW
    assert mesh[1].master.do(person("ann")).timestamp < time_s + 60


@pytest.mark.covers("CSN-40")
def test_a_peer_with_our_own_id_is_refused() -> None:
    mesh = populated(1, ())
    refused = refusal(mesh[1], hello(mesh[1], replica=ReplicaId(1)))
    assert refused is not None
    assert refused.reason is Reason.DUPLICATE


@pytest.mark.covers("CSN-40")
def test_two_peers_with_one_id_are_not_both_let_in() -> None:
    mesh = populated(1, ())
    assert refusal(mesh[1], hello(mesh[1])) is None
    mesh[1].replicator.on_up("other")
    link = mesh[1].replicator.links["other"]
    mesh[1].replicator.on_message("other", hello(mesh[1]))
    assert link.problem is not None
    assert link.problem.reason is Reason.DUPLICATE


def test_a_peer_with_another_suffix_or_format_is_refused() -> None:
    mesh = populated(1, ())
    for change, reason in (({"suffix": "dc=other"}, Reason.SUFFIX), ({"format": 9}, Reason.FORMAT)):
        refused = refusal(mesh[1], hello(mesh[1], **change))
        assert refused is not None
        assert refused.reason is reason


@pytest.mark.covers("CSN-70")
def test_vectors_of_other_data_end_the_session_and_nothing_else() -> None:
    """Whoever says one generation and sends vectors of another is refused; the process goes on."""
    mesh = populated(2, ((1, 2),))
    refused = refusal(mesh[1], hello(mesh[1], vector=Vector.of("other", [Csn(1, 0, ReplicaId(7))]).text()))
    assert refused is not None
    assert refused.reason is Reason.INVALID
    mesh[1].replicator.on_message("m2", Have("other", 0))
    assert mesh[1].replicator.links["m2"].phase is Phase.ENDED


def test_words_before_a_greeting_end_the_session() -> None:
    mesh = populated(1, ())
    mesh[1].replicator.on_up("stranger")
    link = mesh[1].replicator.links["stranger"]
    mesh[1].replicator.on_message("stranger", Have("g", 0))
    assert link.phase is Phase.ENDED


def test_a_store_that_was_put_back_hears_it_from_its_peer() -> None:
    """A peer has what this replica issued and does not remember: it issues nothing more (G3)."""
    mesh = populated(2, ((1, 2),))
    image = mesh[1].master.image.copy()
    mesh[1].master.do(person("ann"))
    mesh.settle()
    one = mesh[1]
    one.master.image.maps = image.maps
    one.master.restart()
    one.begin(peers=("m2",))
    mesh.cut(1, 2)
    mesh.join(1, 2)
    mesh.settle()
    assert one.told_over == 1
    with pytest.raises(NotReady):
        one.replicator.check_write()


def test_a_replica_waits_for_its_peers_before_it_issues() -> None:
    """After an opening they may know that the store was put back; without them it goes on after a while."""
    mesh = populated(2, ((1, 2),))
    patient = structs.replace(CONFIG, hear_first_ns=10**9)
    mesh[1].begin(patient, peers=("m2",))
    with pytest.raises(NotReady, match="m2"):
        mesh[1].replicator.check_write()
    mesh[1].master.run(1.1)
    mesh[1].replicator.check_write()


# --- ids that come and go


def test_a_newcomer_is_counted_before_it_issues() -> None:
    """It has data and a new id; it becomes ready when it has what its sponsor had."""
    mesh = Mesh(2, ((1, 2),))
    mesh[1].master.populate()
    two = mesh[2]
    two.master.replica.keep([], "nothing")
    two.roster.own = structs.replace(two.roster.own, is_ready=False, known=(ReplicaId(1),))
    with pytest.raises(NotReady):
        two.replicator.check_write()
    mesh.connect()
    mesh.settle()
    assert mesh[1].roster.is_counted(ReplicaId(2))
    assert two.roster.own.is_ready
    two.replicator.check_write()
    assert Vector.parse(two.roster.own.base).covers(
        mesh[1].master.replica.trimmed.newest() or Csn(0, 0, ReplicaId(1))
    )


def test_retiring_a_replica_that_may_live_needs_force_and_says_what_is_lost() -> None:
    mesh = populated(2, ((1, 2),))
    with pytest.raises(RetirementNeedsForce, match="what it issued after"):
        mesh[1].replicator.retire(ReplicaId(2))
    with pytest.raises(InvalidRequest, match="no replica 77"):
        mesh[1].replicator.retire(ReplicaId(77))
    with pytest.raises(InvalidRequest, match="let it leave"):
        mesh[1].replicator.retire(ReplicaId(1))
    assert "lost is" in mesh[1].replicator.retire(ReplicaId(2), force=True)
    mesh.settle()
    assert mesh[2].told_over == 1


def test_nothing_is_said_of_a_replica_that_is_over_while_more_of_it_is_on_its_way() -> None:
    """A change of it waits for the disk. Then another peer passes an older one on: what is called over and
    how far it is known is said only when both are on the disk, or others would retire the id without it."""
    mesh = populated(3, ((1, 2), (2, 3), (1, 3)))
    one, two, three = mesh[1], mesh[2], mesh[3]

    def tell_one(sender: Linked) -> None:
        batches = [decode_message(data) for peer, data in sender.wires.queue if peer == "m1"]
        for each in batches:
            if isinstance(each, Updates):
                one.replicator.on_message(sender.name, each)

    three.master.do(person("ann"))
    for peer, data in three.wires.queue:
        if peer == "m2":
            two.replicator.on_message("m3", decode_message(data))
    two.master.store.commit()
    two.fire(RELAY)
    tell_one(three)
    one.master.store.commit()
    three.wires.queue.clear()
    later = three.master.do(person("bob"))
    tell_one(three)
    tell_one(two)
    one.replicator.retire(ReplicaId(3), force=True)
    said = one.roster.statements[ReplicaId(1)]
    mesh.world.run_until(mesh.world.now + CONFIG.statement_ns)
    one.fire(TICK)
    assert not one.replica.vector.covers(later)
    assert one.roster.statements[ReplicaId(1)] == said
    one.master.store.commit()
    mesh.world.run_until(mesh.world.now + CONFIG.statement_ns)
    one.fire(TICK)
    said = one.roster.statements[ReplicaId(1)]
    assert said.over == (ReplicaId(3),)
    assert Vector.parse(said.vector).covers(later)


def test_a_replica_that_has_left_is_retired_without_loss() -> None:
    mesh = populated(3, ((1, 2), (2, 3), (1, 3)))
    mesh[3].master.do(person("ann"))
    mesh[3].replicator.leave()
    mesh.settle()
    with pytest.raises(ReferredElsewhere):
        mesh[3].replicator.check_write()
    assert mesh[1].replicator.retire(ReplicaId(3)) == "nothing is lost"
    mesh.cut(1, 3)
    mesh.cut(2, 3)
    mesh.settle(rounds=10)
    for number in (1, 2):
        assert mesh[number].replica.vector.retired == (ReplicaId(3),)
        assert mesh[number].replica.vector.get(ReplicaId(3)) is None
    assert mesh[1].dump() == mesh[2].dump()
    assert len(mesh[2].master.dns("(uid=ann)")) == 1


def test_two_newcomers_bring_each_other_what_is_left_of_replicas_that_are_over() -> None:
    """Each was counted and filled on its own side, and has changes of a replica that is over which the other
    lacks. If both refused, no filling from their own sides would ever help."""
    mesh = populated(2, ((1, 2),))
    one = mesh[1]
    one.replicator.keep(one.roster.end(ReplicaId(5)), lambda: None)
    left = Vector.of("g", [Csn(1, 0, ReplicaId(5)), Csn(1, 0, ReplicaId(7))]).text()
    assert refusal(one, hello(one, vector=left)) is None
    assert one.replicator.links["stranger"].phase is Phase.OPEN
    put_back = refusal(one, hello(one, replica=ReplicaId(8), vector=left, is_ready=False))
    assert put_back is not None
    assert put_back.reason is Reason.NEEDS_INITIALISATION


def test_nothing_is_retired_while_a_replica_is_unknown_here() -> None:
    """It may have more of the replica that is over than all who are known here (G3)."""
    mesh = Mesh(3, ((1, 2), (2, 3), (1, 3)))
    present = [ReplicaId(n) for n in (1, 2, 3, 9)]
    for each in mesh.masters.values():
        each.begin(allotted=lambda: present)
    mesh[1].master.populate()
    mesh.connect()
    mesh[3].replicator.leave()
    mesh.settle()
    assert mesh[1].replicator.retire(ReplicaId(3)) == "nothing is lost"
    mesh.cut(1, 3)
    mesh.cut(2, 3)
    mesh.settle(rounds=10)
    assert mesh[1].replica.vector.retired == mesh[2].replica.vector.retired == ()
    present.remove(ReplicaId(9))
    mesh.settle(rounds=10)
    assert mesh[1].replica.vector.retired == mesh[2].replica.vector.retired == (ReplicaId(3),)


def test_a_read_only_replica_refers_writers() -> None:
    mesh = Mesh(1, (), is_read_only=True)
    with pytest.raises(ReferredElsewhere) as caught:
        mesh[1].replicator.check_write()
    assert caught.value.masters == ("m1", "m2")


# --- a second store


def test_a_second_store_confirms_or_the_client_hears_that_none_did() -> None:
    mesh = populated(2, ((1, 2),))
    answers: list[Any] = []
    mesh[1].replicator.acknowledge(mesh[1].master.do(person("ann")), answers.append)
    assert answers == []
    mesh.deliver()
    assert answers == [None]
    mesh.cut(1, 2)
    mesh[1].replicator.acknowledge(mesh[1].master.do(person("bob")), answers.append)
    mesh.settle(rounds=15)
    assert len(answers) == 2
    assert "committed here only" in str(answers[1])


def test_settings_are_checked() -> None:
    with pytest.raises(InvalidRequest, match=r"window_updates must be within.*silence_ns"):
        insist_valid(ReplicationConfig(window_updates=0, silence_ns=1), "replication")
