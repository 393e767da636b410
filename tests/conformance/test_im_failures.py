"""The failure rules of the index coordinator's checklist (IM M): each meets its very step, and no other."""

from collections.abc import Callable
from functools import cache

import pytest
from control_stage import HOSTS, Sent, Stage, steps_of, stop_at

from holdfast.authority.control_records import Status
from holdfast.control.coordination.messages import Beat, Decided, Declined, Newer, Prepare, Prepared
from holdfast.control.coordination.participant import NotCoordinator
from holdfast.control.coordination.ports import Accepted, Failed, ParticipantRole, Unsettled
from holdfast.model.errors import Rejected, Unavailable
from holdfast.model.ids import HostId, Term
from holdfast.sim.engine.options import MILLISECOND, SECOND
from holdfast.sim.scenarios.authority.server import AUTHORITY
from holdfast.sim.scenarios.control.host import CONFIG

EVERYBODY = (AUTHORITY, *HOSTS)


def sends(kind: type, target: str | None = None) -> Callable[[Sent], bool]:
    return lambda sent: isinstance(sent.message, kind) and target in (None, sent.target)


def posts(status: Status) -> Callable[[Sent], bool]:
    """Its sender asks the authority to give a transaction that status."""

    def matches(sent: Sent) -> bool:
        posted = sent.posts()
        return posted is not None and posted.status is status

    return matches


def two() -> Stage:
    return Stage.settled("first", "second")


@pytest.fixture
def stage() -> Stage:
    return two()


# --- the authority out of reach


@pytest.mark.covers("IM-131", "IM-10")
def test_an_update_that_cannot_be_opened_fails_and_leaves_nothing_to_see(stage: Stage) -> None:
    """The opening never arrives: the client gets an error, and the next update has the next number."""
    coordinator, before = stage.coordinator, stage.last()
    stage.on_send(posts(Status.INITIAL), lambda sent: stage.cut(coordinator, AUTHORITY))
    wished = stage.wish("lost")
    stage.until(lambda: wished.outcome is not None)
    assert isinstance(wished.outcome, Failed)
    assert isinstance(wished.outcome.why, Unavailable | Rejected)
    assert stage.last() == before
    stage.mend(coordinator, AUTHORITY)
    stage.settle()
    following = stage.accepted("next")
    assert before is not None
    assert following == Accepted(before.cas + 1, b"2")
    assert stage.tokens(stage.coordinator) == ["first", "second", "next"]


@pytest.mark.covers("IM-131", "IM-10")
def test_an_opening_whose_answer_is_lost_is_closed_again(stage: Stage) -> None:
    """It was opened and nobody heard so: the client gets an error, the record ends as rollback."""
    coordinator = stage.coordinator
    stage.on_send(posts(Status.INITIAL), lambda sent: stage.network.cut([(AUTHORITY, coordinator)]))
    wished = stage.wish("lost")
    stage.until(lambda: wished.outcome is not None)
    assert isinstance(wished.outcome, Failed)
    assert stage.is_open()
    stage.network.mend([(AUTHORITY, coordinator)])
    stage.until(lambda: stage.ended(3, Status.ROLLBACK), "the end of what was opened in doubt")
    stage.settle()
    assert stage.tokens(stage.coordinator) == ["first", "second"]


@pytest.mark.covers("IM-132")
@pytest.mark.parametrize("is_applied", [False, True], ids=["request-lost", "answer-lost"])
def test_a_commit_without_an_answer_is_neither_made_nor_undone(stage: Stage, is_applied: bool) -> None:
    """The coordinator keeps its log and its context, says nothing to anybody, and finds out."""
    coordinator = stage.coordinator
    links = [(AUTHORITY, coordinator)] if is_applied else [(AUTHORITY, coordinator), (coordinator, AUTHORITY)]
    stage.on_send(posts(Status.COMMIT), lambda sent: stage.network.cut(links))
    wished = stage.wish("doubtful")
    stage.run(CONFIG.isolation_ns * 2 // 3)
    record = stage.last()
    assert record is not None
    assert record.status is (Status.COMMIT if is_applied else Status.INITIAL)
    assert wished.outcome is None
    for name in HOSTS:
        context, log = stage.on_disk(name)
        assert log is not None
        assert (context.cas, log.cas) == (2, record.cas)
    stage.network.mend(links)
    stage.until(lambda: wished.outcome is not None)
    assert wished.outcome == Accepted(record.cas, b"2")
    stage.settle()
    assert {tuple(stage.tokens(name)) for name in HOSTS} == {("first", "second", "doubtful")}


@pytest.mark.covers("IM-132", "IM-141", "IM-3", "IM-14")
@pytest.mark.parametrize("is_applied", [False, True], ids=["request-lost", "answer-lost"])
def test_a_coordinator_that_never_hears_of_its_commit_steps_down(stage: Stage, is_applied: bool) -> None:
    """The client is left to the record, which says what the context then has."""
    coordinator = stage.coordinator
    links = [(AUTHORITY, coordinator)] if is_applied else [(AUTHORITY, coordinator), (coordinator, AUTHORITY)]
    stage.on_send(posts(Status.COMMIT), lambda sent: stage.network.cut(links))
    wished = stage.wish("doubtful")
    stage.until(lambda: stage.role(coordinator) is ParticipantRole.BOOTSTRAP)
    assert isinstance(wished.outcome, Unsettled)
    stage.network.mend(links)
    stage.settle()
    settled = stage.record(wished.outcome.cas)
    assert settled is not None
    assert settled.status is (Status.COMMIT if is_applied else Status.ROLLBACK)
    assert ("doubtful" in stage.tokens(stage.coordinator)) is is_applied


@pytest.mark.covers("IM-141", "IM-3", "IM-5")
def test_a_coordinator_cut_off_from_the_authority_stops_and_joins_anew(stage: Stage) -> None:
    """It refuses updates from the isolation time on, though its replicas still hear it."""
    coordinator, term = stage.coordinator, stage.term().term
    stage.cut(coordinator, AUTHORITY)
    began = stage.world.now
    stage.until(lambda: stage.role(coordinator) is not ParticipantRole.COORDINATOR)
    assert CONFIG.isolation_ns < stage.world.now - began < 2 * CONFIG.isolation_ns
    assert stage.role(coordinator) is ParticipantRole.BOOTSTRAP
    assert stage.term().term == term, "by its own clock, and not because another was elected"
    with pytest.raises(NotCoordinator):
        stage.manager(coordinator).update(b"late", lambda outcome: None)
    stage.mend(coordinator, AUTHORITY)
    stage.settle()
    assert stage.term().term > term, "a term that was given up is not taken up again"


# --- one of the others fails


@pytest.mark.covers("IM-133", "IM-24", "IM-25", "IM-26")
@pytest.mark.parametrize("how", ["refuses", "is silent", "dies"])
def test_one_replica_that_fails_in_phase_one_rolls_everybody_back(stage: Stage, how: str) -> None:
    """The record says rollback, each replica is told so, the client hears failure, no log is left."""
    coordinator, (one, other) = stage.coordinator, stage.replicas

    def refuse(sent: Sent) -> bool:
        if how == "dies":
            stage.die(sent)
        if how == "refuses":
            asked = sent.message
            assert isinstance(asked, Prepared)
            stage.network.send(one, coordinator, Declined(asked.term, asked.cas, "it was told to"))
        return False

    def refusing(sent: Sent) -> bool:
        return not (isinstance(sent.message, Prepared) and sent.source == one) or refuse(sent)

    stage.network.watch = refusing
    began = stage.world.now
    wished = stage.wish("refused")
    stage.until(lambda: stage.ended(3, Status.ROLLBACK), "the rollback")
    is_waited_for = stage.world.now - began >= CONFIG.prepare_ns
    assert is_waited_for is (how != "refuses"), "who refuses is not asked again and waited for"
    assert isinstance(wished.outcome, Failed)
    assert isinstance(wished.outcome.why, Rejected)
    stage.settle()
    last = stage.last()
    assert last is not None
    told = [sent for sent in stage.network.sent if sent.message == Decided(last.term, last.cas, False)]
    assert {sent.target for sent in told} >= {one, other}
    for name in HOSTS:
        context, log = stage.on_disk(name)
        assert (context.cas, log) == (2, None)


@pytest.mark.covers("IM-134", "IM-30", "IM-32")
@pytest.mark.parametrize("how", ["does not hear", "dies"])
def test_a_replica_that_misses_phase_two_settles_by_the_record(stage: Stage, how: str) -> None:
    """The update stands and its client is told so; whoever did not hear of it asks, and has it too."""
    deaf = stage.replicas[0]

    def miss(sent: Sent) -> bool:
        if how == "dies":
            stage.restart(deaf)
        return False

    stage.on_send(sends(Decided, deaf), miss)
    wished = stage.wish("missed")
    stage.until(lambda: wished.outcome is not None)
    assert wished.outcome == Accepted(3, b"2")
    assert stage.on_disk(deaf)[0].cas == 2
    stage.settle()
    assert stage.tokens(deaf) == ["first", "second", "missed"]
    assert stage.ended(3, Status.COMMIT)


@pytest.mark.covers("IM-140", "IM-80", "IM-81")
def test_a_replica_that_missed_an_update_goes_through_bootstrap(stage: Stage) -> None:
    """It was taken off the list unheard, and the others moved on: the coordinator's beat shows the hole."""
    coordinator, (one, other) = stage.coordinator, stage.replicas
    stage.run(200 * MILLISECOND)  # until both have heard that they hold what it holds
    stage.network.cut([(one, coordinator), (one, AUTHORITY), (AUTHORITY, one)])
    stage.until(lambda: stage.member(one) is None, "its removal from the list")
    wished = stage.wish("without it")
    stage.until(lambda: wished.outcome is not None)
    assert isinstance(wished.outcome, Accepted)
    stage.until(lambda: stage.role(one) is ParticipantRole.BOOTSTRAP)
    beats = [sent for sent in stage.network.sent if isinstance(sent.message, Beat) and sent.target == one]
    assert beats[-1].message == Beat(stage.term().term, 3)
    assert stage.world.now - beats[-1].at_ns < CONFIG.silence_ns // 2, "it was the hole, not silence"
    stage.network.mend([(one, coordinator), (one, AUTHORITY), (AUTHORITY, one)])
    stage.settle()
    assert stage.tokens(one) == stage.tokens(other) == ["first", "second", "without it"]


@pytest.mark.covers("IM-140", "IM-81")
def test_a_replica_that_is_asked_to_build_on_what_it_lacks_declines(stage: Stage) -> None:
    """An update on another context than its own: it takes no part, and goes through bootstrap."""
    stage.run(SECOND)  # by then it has heard that it holds what the coordinator does
    coordinator, replica = stage.coordinator, stage.replicas[0]
    term = stage.term().term
    stage.network.send(coordinator, replica, Prepare(term, 9, 8, b"", (b"x",), b""))
    stage.until(lambda: stage.role(replica) is ParticipantRole.BOOTSTRAP)
    declined = [sent.message for sent in stage.network.sent if isinstance(sent.message, Declined)]
    assert [(each.term, each.cas) for each in declined] == [(term, 9)]
    stage.settle()
    assert stage.tokens(replica) == ["first", "second"]


# --- the coordinator stops, at every single step of an update


@cache
def steps() -> list[Sent]:
    return steps_of(two(), "third")


@pytest.mark.covers("IM-135", "IM-136", "IM-109", "IM-13", "IM-126", "IM-129")
@pytest.mark.parametrize("how", ["killed", "power cut"])
def test_a_coordinator_that_dies_at_any_step_leaves_all_or_nothing(how: str) -> None:
    """Before commit is posted the update was never made; from then on every host has it."""

    def die(stage: Stage, sent: Sent) -> bool:
        if how == "power cut":
            stage.node(sent.source).power_cut()
        return stage.die(sent)

    posted = []
    for step, sent in enumerate(steps()):
        stopped = stop_at(step, two(), "third", die)
        assert stopped.is_committed is stopped.was_posted, f"before {sent}"
        assert {"third" in stopped.stage.tokens(name) for name in HOSTS} == {stopped.was_posted}
        record = stopped.stage.record(3)
        assert record is None or record.status is not Status.INITIAL
        posted.append(stopped.was_posted)
    assert posted == sorted(posted), "there is one commit point"
    assert set(posted) == {False, True}


@pytest.mark.covers("IM-135", "IM-141")
@pytest.mark.parametrize("how", ["paused", "cut off"])
def test_a_coordinator_that_stands_still_at_any_step_misleads_nobody(
    how: str, rounds: Callable[..., int]
) -> None:
    """Another is elected meanwhile; what the first one then goes on with is refused, or was done before."""

    def stand_still(stage: Stage, sent: Sent) -> None:
        if how == "paused":
            stage.node(sent.source).pause()
            stage.world.after(2500 * MILLISECOND, stage.node(sent.source).resume)
        else:
            others = [each for each in EVERYBODY if each != sent.source]
            stage.cut(sent.source, *others)
            stage.world.after(2500 * MILLISECOND, stage.mend, sent.source, *others)

    for step in range(0, len(steps()), rounds(short=3, long=1)):
        stopped = stop_at(step, two(), "third", stand_still)
        assert stopped.stage.term().term > 1
        assert stopped.is_committed or not stopped.was_posted
        assert {"third" in stopped.stage.tokens(name) for name in HOSTS} == {stopped.is_committed}


# --- who may do what


@pytest.mark.covers("IM-137", "IM-73")
def test_a_change_that_comes_to_a_replica_is_refused_with_the_coordinator_named(stage: Stage) -> None:
    """And where nobody is known, that is said."""
    for replica in stage.replicas:
        with pytest.raises(NotCoordinator) as refused:
            stage.manager(replica).update(b"here", lambda outcome: None)
        assert refused.value.coordinator == stage.coordinator
        assert stage.coordinator in str(refused.value)
    lonely = stage.replicas[0]
    stage.cut(lonely, *(each for each in EVERYBODY if each != lonely))
    stage.until(lambda: stage.role(lonely) is ParticipantRole.BOOTSTRAP)
    with pytest.raises(NotCoordinator) as refused:
        stage.manager(lonely).update(b"here", lambda outcome: None)
    assert refused.value.coordinator is None


@pytest.mark.covers("IM-138", "IM-34")
def test_a_newcomer_waits_until_the_transaction_has_ended(stage: Stage) -> None:
    """Started while one is open, it is no member and no replica before that has ended."""
    newcomer = stage.replicas[0]
    stage.on_send(sends(Prepare, newcomer), lambda sent: stage.restart(newcomer, MILLISECOND))
    stage.wish("without it")
    stage.until(
        lambda: stage.role(newcomer) is ParticipantRole.BOOTSTRAP and stage.node(newcomer).incarnation == 2
    )
    waited_from = stage.world.now
    while stage.is_open():
        member = stage.member(newcomer)
        assert member is None or member.incarnation == 1
        assert stage.role(newcomer) is ParticipantRole.BOOTSTRAP
        stage.run(MILLISECOND)
    assert stage.world.now - waited_from > 100 * MILLISECOND, "it did have to wait"
    stage.settle()
    member = stage.member(newcomer)
    assert member is not None
    assert member.incarnation == 2


@pytest.mark.covers("IM-139", "IM-35", "IM-128")
def test_without_a_living_holder_of_the_context_there_is_no_coordinator(stage: Stage) -> None:
    """Not even one that took part in the update before; when a holder returns it coordinates."""
    outsider, holders = stage.replicas[0], (stage.coordinator, stage.replicas[1])
    stage.node(outsider).kill()
    stage.until(lambda: stage.member(outsider) is None)
    wished = stage.wish("without it")
    stage.until(lambda: wished.outcome is not None)
    stage.settle(without=outsider)
    for name in holders:
        stage.node(name).kill()
    stage.node(outsider).start()
    stage.run(6 * SECOND)
    assert stage.roles() == {outsider: ParticipantRole.BOOTSTRAP} | dict.fromkeys(holders)
    stage.node(holders[1]).start()
    stage.settle(without=holders[0])
    assert stage.coordinator == holders[1]
    assert stage.tokens(outsider) == ["first", "second", "without it"]


def test_nobody_elects_processes_that_are_proved_dead(stage: Stage) -> None:
    """Their sessions stand for a while, and they alone hold the context: one term for them is enough."""
    outsider, holders = stage.replicas[0], (stage.coordinator, stage.replicas[1])
    stage.node(outsider).kill()
    stage.until(lambda: stage.member(outsider) is None)
    wished = stage.wish("without it")
    stage.until(lambda: wished.outcome is not None)
    stage.node(holders[1]).kill()
    stage.node(holders[1]).start()  # it comes back, and declares what it holds
    stage.settle(without=outsider)
    for name in holders:
        stage.node(name).kill()
    stage.node(outsider).start()
    stage.until(lambda: stage.role(outsider) is ParticipantRole.BOOTSTRAP)
    for name in holders:
        member = stage.member(name)
        assert member is not None
        stage.manager(outsider).on_death(HostId(name), member.incarnation)
    before = stage.term().term
    stage.run(SECOND // 2)
    assert all(stage.member(name) is not None for name in holders), "their sessions stand"
    assert stage.term().term <= before + 1


@pytest.mark.covers("IM-142", "IM-61")
@pytest.mark.parametrize("who", ["coordinator", "replica"])
def test_whoever_hears_of_a_newer_term_goes_to_bootstrap(stage: Stage, who: str) -> None:
    """In a request or in an answer; whatever else the message says is not acted on."""
    receiver = stage.coordinator if who == "coordinator" else stage.replicas[0]
    sender = next(name for name in HOSTS if name != receiver)
    newer = Term(stage.term().term + 1)
    stage.network.send(sender, receiver, Prepare(newer, 3, 2, b"", (b"x",), b""))
    stage.until(lambda: stage.role(receiver) is ParticipantRole.BOOTSTRAP)
    assert stage.manager(receiver).term == newer
    assert stage.archive(receiver).log is None


@pytest.mark.covers("IM-142")
@pytest.mark.parametrize("who", ["coordinator", "replica"])
def test_a_request_of_an_older_term_is_refused(stage: Stage, who: str) -> None:
    """Its sender is told which term there is, and nothing is done; at that it goes to bootstrap itself."""
    old = stage.coordinator
    stage.node(old).pause()
    stage.until(lambda: stage.term().term == 2 and ParticipantRole.COORDINATOR in stage.roles().values())
    stage.until(lambda: len([name for name in HOSTS if stage.role(name) is ParticipantRole.COORDINATOR]) == 2)
    new = next(name for name in HOSTS if name != old and stage.role(name) is ParticipantRole.COORDINATOR)
    receiver = new if who == "coordinator" else next(name for name in HOSTS if name not in (old, new))
    before = stage.archive(receiver).context
    stage.network.send(old, receiver, Prepare(Term(1), 3, before.cas, before.digest, (b"x",), b""))
    stage.until(
        lambda: any(
            sent.message == Newer(Term(2)) and (sent.source, sent.target) == (receiver, old)
            for sent in stage.network.sent
        ),
        "the refusal",
    )
    assert (stage.archive(receiver).context, stage.archive(receiver).log) == (before, None)
    stage.node(old).resume()
    stage.settle()
    assert stage.manager(old).term == 2
