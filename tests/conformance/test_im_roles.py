"""Roles of the index coordinator's checklist (IM A and F): who has which when, and what each then does."""

import itertools

import msgspec
import pytest
from control_stage import HOSTS, Stage

from holdfast.authority import keys
from holdfast.authority.wire import WatchEvents
from holdfast.control.coordination.config import ControlConfig
from holdfast.control.coordination.messages import Declined, Hello, Prepare, Whole
from holdfast.control.coordination.ports import Accepted, ParticipantRole
from holdfast.control.coordination.state_file import Context, StateFile
from holdfast.model.ids import HostId
from holdfast.node.session import LEASE_S
from holdfast.sim.engine.node import Life
from holdfast.sim.engine.options import MILLISECOND, SECOND
from holdfast.sim.scenarios.authority.server import AUTHORITY
from holdfast.sim.scenarios.control.host import CONFIG, DIRECTORY, LEASE_SECONDS

MIXED = ["coordinator", "onlooker", "replica"]


@pytest.fixture
def stage() -> Stage:
    return Stage.settled("first", "second")


def roles_of(stage: Stage, name: str, incarnation: int = 1) -> list[ParticipantRole]:
    return stage.book.roles[f"{name}#{incarnation}"]


def others_of(name: str) -> list[str]:
    return [each for each in (AUTHORITY, *HOSTS) if each != name]


# --- bootstrap


@pytest.mark.covers("IM-64", "IM-61", "IM-62", "IM-67", "IM-68")
def test_everybody_starts_in_bootstrap_and_becomes_what_the_term_says() -> None:
    """The host whose name the term has is the coordinator; the others are its replicas."""
    stage = Stage.settled()
    elected = stage.term().coordinator
    assert elected is not None
    for name in HOSTS:
        became = ParticipantRole.COORDINATOR if name == elected.host else ParticipantRole.REPLICA
        assert roles_of(stage, name) == [ParticipantRole.BOOTSTRAP, became]
        assert stage.manager(name).coordinator == elected.host


@pytest.mark.covers("IM-2", "IM-5", "IM-64")
def test_a_restarted_coordinator_does_not_resume(stage: Stage) -> None:
    """It is back before anybody has missed it, and in the term it was elected in it coordinates no more."""
    coordinator, term = stage.coordinator, stage.term().term
    stage.restart(coordinator, MILLISECOND)
    stage.until(lambda: stage.node(coordinator).incarnation == 2 and stage.role(coordinator) is not None)
    assert stage.role(coordinator) is ParticipantRole.BOOTSTRAP
    stage.settle()
    assert stage.term().term > term
    member = stage.member(coordinator)
    assert member is not None
    assert member.incarnation == 2, "it has joined again"


@pytest.mark.covers("IM-5", "IM-63", "IM-61", "IM-111", "IM-112")
@pytest.mark.parametrize("cause", ["a new term", "silence", "a death"])
def test_every_change_of_role_leads_through_bootstrap(stage: Stage, cause: str) -> None:
    """Whatever began it: coordinator and replicas are in bootstrap before they are anything else."""
    old = stage.coordinator
    if cause == "a new term":
        stage.usurp(stage.replicas[0])
    elif cause == "silence":
        stage.node(old).pause()
        stage.world.after(2 * CONFIG.silence_ns, stage.node(old).resume)
    else:
        incarnation = stage.host(old).incarnation
        assert incarnation is not None
        stage.restart(old)
        for name in stage.replicas:
            stage.manager(name).on_death(HostId(old), incarnation)
    stage.until(lambda: stage.term().term > 1)
    stage.settle()
    elected = stage.term().coordinator
    assert elected is not None
    for name in HOSTS:
        roles = roles_of(stage, name, stage.node(name).incarnation)
        assert roles[-1] is (ParticipantRole.COORDINATOR if name == elected.host else ParticipantRole.REPLICA)
        assert all(ParticipantRole.BOOTSTRAP in pair for pair in itertools.pairwise(roles))
        assert stage.manager(name).term == stage.term().term


@pytest.mark.covers("IM-66")
@pytest.mark.parametrize("way", ["pushed", "polled"])
def test_the_coordinator_is_learnt_by_push_and_by_poll(way: str) -> None:
    """Either alone is enough to leave an old term: the authority's events, or asking when all are lost."""
    config = CONFIG if way == "polled" else msgspec.structs.replace(CONFIG, poll_ns=3600 * SECOND)
    stage = Stage.settled("first", config=config)
    cut_off = [(one, other) for one in HOSTS for other in HOSTS if one != other]
    stage.network.cut(cut_off)  # nobody hears of it from another host
    if way == "polled":
        stage.network.watch = lambda sent: not isinstance(sent.message, WatchEvents)
    stage.usurp(stage.replicas[0])
    stage.until(lambda: stage.term().term > 1)
    began = stage.world.now
    stage.until(lambda: all(stage.manager(name).term > 1 for name in HOSTS))
    assert stage.world.now - began < (2 * CONFIG.poll_ns if way == "polled" else CONFIG.poll_ns // 10)
    stage.network.mend(cut_off)
    stage.until(lambda: ParticipantRole.COORDINATOR in stage.roles().values())
    elected = stage.term().coordinator
    assert elected is not None
    assert stage.role(elected.host) is ParticipantRole.COORDINATOR


# --- coordinator


@pytest.mark.covers("IM-4")
def test_a_cut_off_coordinator_has_stopped_when_another_is_crowned(stage: Stage) -> None:
    """The isolation time is a setting, shorter than a session lasts: at no moment are there two at work."""
    coordinator = stage.coordinator
    assert CONFIG.isolation_ns < LEASE_SECONDS * SECOND
    assert ControlConfig().isolation_ns < LEASE_S * SECOND, "and so in real hosts"
    stage.cut(coordinator, *others_of(coordinator))
    stage.until(lambda: coordinator not in str(stage.truth.items.get(keys.session(HostId(coordinator)))))
    assert stage.role(coordinator) is ParticipantRole.BOOTSTRAP


@pytest.mark.covers("IM-105")
def test_a_silent_replica_is_taken_off_the_list(stage: Stage) -> None:
    """And updates go on without it; when it is heard again it joins anew and has caught up."""
    silent, began = stage.replicas[0], stage.world.now
    stage.node(silent).pause()
    stage.until(lambda: stage.member(silent) is None)
    assert stage.world.now - began < LEASE_SECONDS * SECOND, "its silence counts, and not its session's end"
    wished = stage.wish("without it")
    stage.until(lambda: wished.outcome is not None)
    assert isinstance(wished.outcome, Accepted)
    stage.node(silent).resume()
    stage.settle()
    assert stage.tokens(silent) == ["first", "second", "without it"]


@pytest.mark.covers("IM-106", "IM-126")
def test_a_silent_coordinator_is_replaced_by_a_replica(stage: Stage) -> None:
    """The domain is not without one for long, and has everything it had."""
    silent, began = stage.coordinator, stage.world.now
    stage.node(silent).pause()
    stage.settle(without=silent)
    assert stage.coordinator != silent
    assert stage.world.now - began < LEASE_SECONDS * SECOND, "nobody waits for its session to end"
    wished = stage.wish("third")
    stage.until(lambda: wished.outcome is not None)
    stage.node(silent).resume()
    stage.settle()
    assert stage.tokens(silent)[:2] == ["first", "second"]


# --- replica


@pytest.mark.covers("IM-17", "IM-75", "IM-76", "IM-70")
def test_a_replica_fetches_the_context_on_entry_and_keeps_it(stage: Stage) -> None:
    """It says what it holds, gets the coordinator's copy where that is another, and has it on disk."""
    replica = stage.replicas[0]
    stage.node(replica).power_cut()
    stage.node(replica).disk.wipe()
    before = len(stage.network.sent)
    stage.node(replica).start()
    stage.settle()
    said = [
        sent
        for sent in stage.network.sent[before:]
        if isinstance(sent.message, Hello) and sent.source == replica
    ]
    got = [
        sent
        for sent in stage.network.sent[before:]
        if isinstance(sent.message, Whole) and sent.target == replica
    ]
    assert {sent.target for sent in said} == {sent.source for sent in got} == {stage.coordinator}
    stage.node(replica).power_cut()
    assert stage.on_disk(replica)[0] == stage.archive(stage.coordinator).context


@pytest.mark.covers("IM-77")
def test_a_replica_takes_updates_from_its_coordinator_only(stage: Stage) -> None:
    """Of the same term, but from a host that was not elected: an error, and nothing is logged."""
    replica, other = stage.replicas
    context = stage.archive(replica).context
    asked = Prepare(stage.term().term, 3, context.cas, context.digest, (b"x",), b"")
    stage.network.send(other, replica, asked)
    stage.until(
        lambda: any(
            isinstance(sent.message, Declined) and (sent.source, sent.target) == (replica, other)
            for sent in stage.network.sent
        ),
        "the error",
    )
    stage.network.send(other, replica, Whole(stage.term().term, Context(7, b"")))
    stage.run(SECOND)
    assert stage.on_disk(replica) == (context, None)
    assert stage.role(replica) is ParticipantRole.REPLICA


@pytest.mark.covers("IM-78", "IM-72")
def test_a_replica_that_is_ahead_of_its_coordinator_loses_what_is_newer(stage: Stage) -> None:
    """The coordinator's copy wins, though the replica was heard; and it is never elected for being ahead."""
    replica = stage.replicas[0]
    stage.node(replica).kill()
    ahead = Context(9, b"newer than what was committed")
    disk = stage.node(replica).disk.open(DIRECTORY, Life(), lambda token, ok: archive.on_synced(token, ok))
    archive = StateFile(disk, lambda error: None)
    kept: list[bool] = []
    archive.replace(ahead, lambda: kept.append(True))
    stage.until(lambda: bool(kept))
    stage.node(replica).start()
    stage.settle()
    assert stage.tokens(replica) == ["first", "second"]
    assert stage.on_disk(replica)[0] == stage.archive(stage.coordinator).context
    assert stage.term().term == 1


@pytest.mark.covers("IM-80")
def test_a_replica_that_was_cut_off_goes_through_bootstrap(stage: Stage) -> None:
    """It hears no beats; the others have moved on when it is back, and it catches up."""
    lonely = stage.replicas[0]
    stage.cut(lonely, *others_of(lonely))
    stage.until(lambda: stage.member(lonely) is None)
    wished = stage.wish("without it")
    stage.until(lambda: wished.outcome is not None)
    assert stage.role(lonely) is ParticipantRole.BOOTSTRAP
    assert "without it" not in stage.tokens(lonely)
    stage.mend(lonely, *others_of(lonely))
    stage.settle()
    assert stage.tokens(lonely) == ["first", "second", "without it"]


def test_a_replica_that_was_cut_off_and_looks_on_afterwards_knows_the_coordinator_again() -> None:
    """Its place was taken meanwhile. Nobody speaks to it unasked: it must ask whom it took for dead."""
    stage = Stage.settled(config=msgspec.structs.replace(CONFIG, participants=2))
    stage.wish("first")
    stage.until(lambda: sorted(role.value for role in stage.roles().values() if role) == MIXED)
    replica = stage.replicas[0]
    stage.cut(replica, *others_of(replica))
    stage.until(lambda: stage.role(replica) is ParticipantRole.BOOTSTRAP)
    stage.until(lambda: len(stage.replicas) == 1, "another in its place")
    wished = stage.wish("without it")
    stage.until(lambda: wished.outcome is not None)
    stage.run(2 * CONFIG.poll_ns)  # by then the coordinator does not speak to it any more
    coordinator = stage.coordinator
    stage.mend(replica, *others_of(replica))
    stage.until(lambda: stage.manager(replica).coordinator == coordinator)
    assert stage.term().term == 1


@pytest.mark.covers("IM-108", "IM-109")
def test_an_election_cancels_what_is_under_way(stage: Stage) -> None:
    """Everybody has logged an update when another host is elected: it is rolled back, and its client told."""
    coordinator, usurper = stage.coordinator, stage.replicas[0]

    def usurp(sent: object) -> None:
        stage.usurp(usurper)
        stage.network.cut([(coordinator, AUTHORITY)])
        stage.world.after(200 * MILLISECOND, stage.network.mend, [(coordinator, AUTHORITY)])

    stage.on_send(lambda sent: "control/committed" in sent.changes, usurp)
    wished = stage.wish("third")
    stage.until(lambda: stage.term().term > 1)
    stage.settle()
    record = stage.record(3)
    assert record is not None
    assert record.status.value == "rollback"
    assert not isinstance(wished.outcome, Accepted)
    assert wished.outcome is not None
    for name in HOSTS:
        context, log = stage.on_disk(name)
        assert (context.cas, log) == (2, None)


# --- a link that is broken between two of them


@pytest.mark.covers("IM-106")
def test_two_that_do_not_hear_each_other_depose_each_other_no_sooner_than_silence_shows(stage: Stage) -> None:
    """Whoever a newer term names is given time to speak; once they hear each other the domain goes on."""
    one, other = stage.coordinator, stage.replicas[0]
    term, since = stage.term().term, stage.world.now
    stage.cut(one, other)
    stage.run(12 * CONFIG.silence_ns)
    assert 1 <= stage.term().term - term <= (stage.world.now - since) // CONFIG.silence_ns
    stage.mend(one, other)
    stage.settle()
    stage.accepted("heard again")


def test_one_broken_link_does_not_stop_updates(stage: Stage) -> None:
    """The next coordinator does not wait for whom it has not heard before, and whoever the update was made
    without can be elected no more, so it deposes nobody: it follows, and is back when it is heard."""
    one, other = stage.coordinator, stage.replicas[0]
    stage.cut(one, other)
    stage.until(
        lambda: (
            [stage.role(each) for each in (one, other)]
            == [ParticipantRole.REPLICA, ParticipantRole.COORDINATOR]
        )
    )
    wished = stage.wish("through the third")
    stage.until(lambda: wished.outcome is not None)
    assert isinstance(wished.outcome, Accepted)
    coordinator, term = stage.coordinator, stage.term().term
    stage.run(12 * CONFIG.silence_ns)
    assert (stage.coordinator, stage.term().term) == (coordinator, term)
    stage.mend(one, other)
    stage.settle()
    stage.accepted("heard again")
    last = stage.last()
    assert last is not None
    assert {each.host for each in last.participants} == set(HOSTS)
