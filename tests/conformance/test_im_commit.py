"""The two-phase commit of the index coordinator's checklist (IM B to D): each message, each file."""

from collections.abc import Callable

import pytest
from control_stage import HOSTS, Sent, Stage

from holdfast.authority.control_records import Status
from holdfast.control.coordination.messages import Decided, Prepare, Prepared
from holdfast.control.coordination.ports import Accepted, Failed, ParticipantRole
from holdfast.control.coordination.state_file import Context, StateFile
from holdfast.model.errors import InvalidRequest
from holdfast.sim.engine.node import Life
from holdfast.sim.engine.options import MILLISECOND
from holdfast.sim.scenarios.control.host import BAD, DIRECTORY

SLOW = 100
"""By which a disk is slower: all others have accepted an update long before its one write is done."""


@pytest.fixture
def stage() -> Stage:
    return Stage.settled("first", "second")


def posting(status: Status) -> Callable[[Sent], bool]:
    def matches(sent: Sent) -> bool:
        posted = sent.posts()
        return posted is not None and posted.status is status

    return matches


def files_of(stage: Stage, name: str) -> list[str]:
    return stage.node(name).disk.open(DIRECTORY, Life(), None).list()


# --- the answers to a client


@pytest.mark.covers("IM-11", "IM-74", "IM-79")
def test_a_client_hears_of_success_or_of_failure(stage: Stage) -> None:
    """Success when all hosts have it and the record says so; a change that cannot be made fails alone."""
    wished = [stage.wish(token) for token in ("third", f"{BAD}fourth", "fifth")]
    stage.until(lambda: all(each.outcome is not None for each in wished))
    third, bad, fifth = (each.outcome for each in wished)
    assert isinstance(third, Accepted)
    assert isinstance(fifth, Accepted)
    assert isinstance(bad, Failed)
    assert isinstance(bad.why, InvalidRequest)
    stage.settle()
    for outcome in (third, fifth):
        record = stage.record(outcome.cas)
        assert record is not None
        assert record.status is Status.COMMIT
        assert {each.host for each in record.participants} == set(HOSTS)
    assert {tuple(stage.tokens(name)) for name in HOSTS} == {("first", "second", "third", "fifth")}


# --- durable media


@pytest.mark.covers("IM-16", "IM-17", "IM-69", "IM-71")
def test_everybody_keeps_the_context_on_durable_media(stage: Stage) -> None:
    """All lose their power, and what is not on disk; whoever is elected works on with its own copy."""
    contexts = {stage.archive(name).context for name in HOSTS}
    for name in HOSTS:
        stage.node(name).power_cut()
        assert {stage.on_disk(name)[0]} == contexts
    for name in HOSTS:
        stage.node(name).start()
    stage.settle()
    assert {stage.archive(name).context for name in HOSTS} == contexts
    stage.accepted("third")
    assert stage.tokens(stage.coordinator) == ["first", "second", "third"]


@pytest.mark.covers("IM-21", "IM-22", "IM-23")
@pytest.mark.parametrize("slow", HOSTS)
def test_the_new_copy_is_a_durable_log_beside_the_old_one_before_commit_is_posted(
    stage: Stage, slow: str
) -> None:
    """On the coordinator and on every replica, also on one whose disk takes longer than all the rest: it
    outlasts a power cut, and the old copy is the valid one."""
    stage.node(slow).disk.slow_factor = SLOW
    found: dict[str, tuple[Context, Context | None]] = {}

    def look(sent: Sent) -> bool:
        assert {stage.tokens(name)[-1] for name in HOSTS} == {"second"}
        for name in HOSTS:
            stage.node(name).power_cut()
            found[name] = stage.on_disk(name)
        return False

    stage.on_send(posting(Status.COMMIT), look)
    stage.wish("third")
    stage.until(lambda: bool(found))
    for name in HOSTS:
        context, log = found[name]
        assert log is not None
        assert (context.cas, log.cas) == (2, 3)
        assert log.body != context.body
    assert len(set(found.values())) == 1


@pytest.mark.covers("IM-29")
def test_at_commit_the_log_becomes_the_context_and_is_gone(stage: Stage) -> None:
    """On coordinator and replica alike there is one file, and it holds what was logged."""
    logged: dict[str, Context | None] = {}

    def look(sent: Sent) -> None:
        logged.update({name: stage.on_disk(name)[1] for name in HOSTS})

    stage.on_send(posting(Status.COMMIT), look)
    stage.accepted("third")
    for name in HOSTS:
        assert files_of(stage, name) == ["context"]
        stage.node(name).power_cut()
        assert stage.on_disk(name) == (logged[name], None)


# --- the order of things


@pytest.mark.covers("IM-27", "IM-28", "IM-30", "IM-37")
def test_accepted_by_all_then_posted_then_told_to_all(stage: Stage) -> None:
    """Commit is posted once everybody has accepted, stands before anybody is told, and then everybody is."""
    accepted: set[str] = set()
    stood: list[bool] = []

    def look(sent: Sent) -> bool:
        if isinstance(sent.message, Prepared):
            accepted.add(sent.source)
        if posting(Status.COMMIT)(sent):
            assert accepted == set(stage.replicas)
        if isinstance(sent.message, Decided):
            stood.append(stage.ended(3, Status.COMMIT))
        return True

    stage.network.watch = look
    before = len(stage.network.sent)
    stage.accepted("third")
    assert stood == [True, True]
    coordinator, term = stage.coordinator, stage.term().term
    told = [sent for sent in stage.network.sent[before:] if isinstance(sent.message, Decided | Prepare)]
    assert [(sent.target, type(sent.message)) for sent in told] == [
        (replica, kind) for kind in (Prepare, Decided) for replica in stage.replicas
    ]
    assert {sent.source for sent in told} == {coordinator}
    assert [sent.message for sent in told[2:]] == [Decided(term, 3, True)] * 2


@pytest.mark.covers("IM-37", "IM-76")
def test_every_message_may_come_twice() -> None:
    """Prepare, decision, fetch: each is what it is by its term and CAS (N-1)."""
    stage = Stage.settled(*(f"token {number}" for number in range(8)), duplicate=1.0)
    assert {tuple(stage.tokens(name)) for name in HOSTS} == {tuple(f"token {number}" for number in range(8))}
    assert [stage.record(cas) is not None for cas in range(1, 10)] == [True] * 8 + [False]


# --- a log that was left over


@pytest.mark.covers("IM-31", "IM-32", "IM-33", "IM-65")
@pytest.mark.parametrize("status", [Status.COMMIT, Status.ROLLBACK])
def test_a_left_over_log_is_settled_by_the_record(stage: Stage, status: Status) -> None:
    """A replica dies with its log; when it is back it asks what became of it, before it takes any role."""
    replica, other = stage.replicas
    stage.node(replica).supervised = False

    def die(sent: Sent) -> bool | None:
        match sent.message:
            case Prepared() if sent.source == other and status is Status.ROLLBACK:
                stage.node(replica).kill()
                return False
            case Decided() if sent.target == replica and status is Status.COMMIT:
                stage.node(replica).kill()
        return True

    stage.network.watch = die
    stage.wish("third")
    stage.until(lambda: stage.ended(3, status))
    stage.settle(without=replica)
    context, log = stage.on_disk(replica)
    assert log is not None
    assert (context.cas, log.cas) == (2, 3)
    stage.node(replica).start()
    stage.until(lambda: stage.role(replica) is ParticipantRole.REPLICA)
    context, log = stage.on_disk(replica)
    assert (context.cas, log) == (3 if status is Status.COMMIT else 2, None)


@pytest.mark.covers("IM-33", "IM-31")
def test_a_log_of_which_there_is_no_record_is_deleted(stage: Stage) -> None:
    """The context stays what it was."""
    replica = stage.replicas[0]
    stage.node(replica).kill()
    leave_log(stage, replica, Context(9, b"nobody has heard of this"))
    stage.node(replica).start()
    stage.until(lambda: stage.role(replica) is ParticipantRole.REPLICA)
    context, log = stage.on_disk(replica)
    assert (context.cas, log) == (2, None)


@pytest.mark.covers("IM-33")
def test_a_log_is_kept_while_its_transaction_is_open(stage: Stage) -> None:
    """Its coordinator may still commit it (N-3), and does: what was dropped would be missing."""
    coordinator, replica = stage.coordinator, stage.replicas[0]

    def wait(sent: Sent) -> bool:
        stage.node(coordinator).pause()
        stage.restart(replica, MILLISECOND)
        return True

    stage.on_send(lambda sent: isinstance(sent.message, Prepared) and sent.source == replica, wait)
    wished = stage.wish("third")
    stage.until(
        lambda: stage.role(replica) is ParticipantRole.BOOTSTRAP and stage.node(replica).incarnation == 2
    )
    stage.run(150 * MILLISECOND)
    assert stage.is_open()
    assert stage.on_disk(replica)[1] is not None
    stage.node(coordinator).resume()
    stage.until(lambda: wished.outcome is not None)
    assert wished.outcome == Accepted(3, b"2")
    stage.settle()
    assert stage.tokens(replica) == ["first", "second", "third"]


def leave_log(stage: Stage, name: str, log: Context) -> None:
    """Put a log beside the context of a host that is down."""
    disk = stage.node(name).disk.open(DIRECTORY, Life(), lambda token, ok: archive.on_synced(token, ok))
    archive = StateFile(disk, lambda error: None)
    kept: list[bool] = []
    archive.keep_log(log, lambda: kept.append(True))
    stage.until(lambda: bool(kept))
