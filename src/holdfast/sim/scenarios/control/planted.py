"""Bugs planted in the control plane: each leaves out one rule of its two-phase commit or of its roles."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, Final

from holdfast.authority import election, membership, transactions
from holdfast.authority.control_records import MANAGER, Member, Standing, Status, Transaction
from holdfast.authority.recipe import Contended, InDoubt, NoAnswer, Seen
from holdfast.authority.transactions import set_transaction_status
from holdfast.control.coordination import coordinator as coordinator_module
from holdfast.control.coordination import members
from holdfast.control.coordination.bootstrap import Bootstrap
from holdfast.control.coordination.coordinator import Coordinator, Update
from holdfast.control.coordination.messages import Decided, Prepare, Prepared
from holdfast.control.coordination.participant import Manager
from holdfast.control.coordination.ports import Accepted
from holdfast.control.coordination.replica import ContextReplica
from holdfast.control.coordination.state_file import Context
from holdfast.model.errors import InvalidRequest, Rejected
from holdfast.model.ids import HostId, Term
from holdfast.sim.runner.planted import Planted, Planting, replacing
from holdfast.sim.scenarios.authority.planted import changing, is_decision, read_standing_as_closed

_accepted = Coordinator._accepted
_close = Coordinator.close
_decide = Coordinator._decide
_hear_of = Manager._hear_of
_keep = ContextReplica._keep
_prepare = Coordinator._prepare
_settle = Bootstrap._settle
_set_status = set_transaction_status


# --- the commit point


def _tell_first(coordinator: Coordinator, host: HostId, update: Update) -> None:
    """Tells all participants the decision before it is posted."""
    is_last = list(update.missing) == [host] and update.decision is None
    if is_last:
        for each in update.participants:
            coordinator._send(each, Decided(coordinator.term, update.cas, True))
    _accepted(coordinator, host, update)


def _accept_first(coordinator: Coordinator, host: HostId, update: Update) -> None:
    """Answers clients when all participants have accepted, before the decision is posted."""
    is_last = list(update.missing) == [host] and update.decision is None
    if is_last:
        tells, update.tells = update.tells, []
        for tell, reply in zip(tells, update.replies, strict=True):
            tell(Accepted(update.cas, reply))
        update.replies = []
    _accepted(coordinator, host, update)


def _fail_in_doubt(coordinator: Coordinator, update: Update, status: Status, why: str = "") -> None:
    """Treats a commit without an answer as one that was not made."""
    update.decision = status
    if status is Status.ROLLBACK:
        _decide(coordinator, update, status, why)
        return

    def answered(answer: Any) -> None:
        if isinstance(answer, InDoubt | NoAnswer | Contended):
            update.tell_failed(Rejected("no answer"))
            coordinator._finish(update, is_commit=False)
        else:
            coordinator._decided(update, answer)

    nonce = coordinator.me.ports.nonce()
    coordinator.ask(_set_status(coordinator.term, update.cas, status, nonce=nonce), answered)


def _commit_without_all(coordinator: Coordinator, update: Update, status: Status, why: str = "") -> None:
    """Commits although some participants have not accepted in time, expecting that they will catch up."""
    _decide(coordinator, update, Status.COMMIT, why)


def _close_with_failures(coordinator: Coordinator) -> None:
    """Reports whatever is in progress when the role ends as failed."""
    update = coordinator._update
    if update is not None:
        update.tell_failed(Rejected("it no longer coordinates"))
    _close(coordinator)


# --- replicas


def _keep_unsynced(replica: ContextReplica, asked: Prepare) -> None:
    """Accepts an update as soon as it is read."""
    replica._send(Prepared(replica.term, asked.cas))
    _keep(replica, asked)


def _make_of_anything(replica: ContextReplica, asked: Prepare) -> Context | None:
    body = replica.me.archive.context.body
    try:
        for change in asked.changes:
            body, _ = replica.me.application.apply(body, change)
    except InvalidRequest:
        return None
    return Context(asked.cas, body)


def _prepare_over_holes(replica: ContextReplica, asked: Prepare) -> None:
    """Applies the changes to whatever context the replica has."""
    archive = replica.me.archive
    if archive.log is not None and archive.log.cas == asked.cas:
        replica._send(Prepared(replica.term, asked.cas))
    elif not replica._is_writing and asked.cas > archive.context.cas:
        proposed = _make_of_anything(replica, asked)
        if proposed is not None:
            archive.keep_log(
                proposed, replica.still(lambda: replica._send(Prepared(replica.term, asked.cas)))
            )


def _skip_holes(replica: ContextReplica, cas: int) -> None:
    """Ignores updates that the replica has missed."""


# --- bootstrap and elections


def _drop_initial(bootstrap: Bootstrap, standing: Standing, left: Any) -> None:
    if isinstance(left, Transaction) and left.status is Status.INITIAL:
        bootstrap.me.archive.drop_log(bootstrap.still(bootstrap._survey))
    else:
        _settle(bootstrap, standing, left)


def _promote_initial(bootstrap: Bootstrap, standing: Standing, left: Any) -> None:
    if isinstance(left, Transaction) and left.status is not Status.ROLLBACK:
        bootstrap.me.archive.promote(left.cas, bootstrap.still(bootstrap._survey))
    else:
        _settle(bootstrap, standing, left)


def _elect_anybody(standing: Standing, member: Any) -> bool:
    return MANAGER in member.roles


def _prepare_unkept(coordinator: Coordinator, update: Update, transaction: Transaction) -> None:
    """Counts itself as accepted before its own log is durable."""
    _prepare(coordinator, update, transaction)
    coordinator._accepted(coordinator.me.host, update)


def _ignore_log(bootstrap: Bootstrap, standing: Standing, left: Any) -> None:
    """Leaves an undecided update to whoever coordinates next."""
    mine = standing.member(bootstrap.me.host)
    if mine is None or mine.value.incarnation != bootstrap.me.incarnation:
        bootstrap._join(standing)
    else:
        bootstrap._take_role(standing)


def _coordinates_again(standing: Standing) -> Seen[Member] | None:
    """Takes any process of the elected host for the coordinator that was elected."""
    elected = None if standing.term.value is None else standing.term.value.coordinator
    return None if elected is None else standing.member(elected.host)


def _follow_at_once(manager: Manager, term: Term) -> None:
    """Lets a replica that hears of a new term continue to follow without bootstrap."""
    if isinstance(manager._tenure, ContextReplica):
        manager._follow(term, manager._tenure.coordinator)
    else:
        _hear_of(manager, term)


def _is_silent_for_ever(manager: Manager, host: HostId, term: Term) -> bool:
    """Never again believes a host to be alive that was silent once, however often it is elected."""
    return host in manager._silent


@contextmanager
def _alone() -> Iterator[None]:
    """Lets the coordinator commit alone."""
    with (
        replacing(coordinator_module, "chosen", lambda standing, host, without, wanted: [host]),
        replacing(coordinator_module, "are_too_few", lambda standing, members: False),
    ):
        yield


def _any_manager(standing: Standing, host: HostId) -> bool:
    found = standing.member(host)
    return found is not None and MANAGER in found.value.roles


def _cas_after_committed(standing: Standing) -> int:
    """Reuses the number of an update that was rolled back."""
    return max(standing.committed_cas, standing.floors.cas) + 1


@contextmanager
def _where_updates_open(module: object, attribute: str, broken: object) -> Iterator[None]:
    with replacing(transactions, attribute, broken), replacing(module, attribute, broken):
        yield


_bug: Final = Planting("control")


PLANTED: Final = (
    _bug(
        "status-unbound",
        "N-2",
        "A decision is put without comparing the term and the open record.",
        transactions,
        "change",
        changing(lambda compare: False, only=is_decision),
        "usurpers",
    ),
    _bug(
        "initial-dropped",
        "N-3",
        "A log is dropped while its transaction may still be committed.",
        Bootstrap,
        "_settle",
        _drop_initial,
        "terms",
    ),
    _bug(
        "initial-promoted",
        "IM-33",
        "A log is taken for committed while its transaction is open.",
        Bootstrap,
        "_settle",
        _promote_initial,
    ),
    _bug(
        "told-before-posted",
        "IM-30",
        "Replicas hear the decision before it is posted.",
        Coordinator,
        "_accepted",
        _tell_first,
    ),
    _bug(
        "success-before-posted",
        "IM-13",
        "Clients hear of success before the commit is posted.",
        Coordinator,
        "_accepted",
        _accept_first,
        "terms",
    ),
    _bug(
        "doubt-is-failure",
        "IM-132",
        "A commit without an answer is rolled back.",
        Coordinator,
        "_decide",
        _fail_in_doubt,
        "network",
    ),
    _bug(
        "commits-without-all",
        "IM-24",
        "An update is committed although a participant did not accept it.",
        Coordinator,
        "_decide",
        _commit_without_all,
    ),
    _bug(
        "unsettled-is-failure",
        "IM-14",
        "Clients are told of failure when only the record can say.",
        Coordinator,
        "close",
        _close_with_failures,
        "terms",
    ),
    _bug(
        "accepts-unsynced",
        "IM-23",
        "A replica accepts before its log is durable.",
        ContextReplica,
        "_keep",
        _keep_unsynced,
    ),
    _bug(
        "hole-accepted",
        "IM-140",
        "A replica that missed updates takes part in the next.",
        ContextReplica,
        "_prepare",
        _prepare_over_holes,
    ),
    _bug(
        "hole-unnoticed",
        "IM-80",
        "A replica that missed updates stays behind.",
        ContextReplica,
        "_compare",
        _skip_holes,
    ),
    _bug(
        "elected-without-context",
        "T3",
        "A host without the committed context is elected.",
        election,
        "_is_eligible",
        _elect_anybody,
        "terms",
    ),
    _bug(
        "joins-while-open",
        "IM-34",
        "A newcomer is admitted during a transaction.",
        membership,
        "read_standing",
        read_standing_as_closed,
    ),
    _bug(
        "log-not-kept",
        "IM-22",
        "The coordinator does not wait for its own log.",
        Coordinator,
        "_prepare",
        _prepare_unkept,
    ),
    _bug(
        "log-ignored",
        "IM-65",
        "A role is taken although a log is left over.",
        Bootstrap,
        "_settle",
        _ignore_log,
    ),
    _bug(
        "role-resumed",
        "IM-2",
        "A coordinator that was started again goes on in its term.",
        Standing,
        "coordinator",
        _coordinates_again,
    ),
    _bug(
        "bootstrap-skipped",
        "IM-63",
        "A replica goes on into a new term without bootstrap.",
        Manager,
        "_hear_of",
        _follow_at_once,
        "terms",
    ),
    _bug(
        "term-leaves-open",
        "T2",
        "A new term leaves open what the old one had opened.",
        election,
        "_closing",
        lambda standing, nonce: [],
    ),
    _bug(
        "silent-for-ever",
        "IM-106",
        "A host that was silent is deposed in every newer term, before it can speak.",
        Manager,
        "_is_silent",
        _is_silent_for_ever,
        "parted",
    ),
    Planted(
        name="control-alone",
        rule="T4",
        scenario="control",
        summary="The coordinator changes the context alone while others are there.",
        plant=_alone,
    ),
    Planted(
        name="control-takes-part-without-context",
        rule="T3",
        scenario="control",
        summary="A host without the committed context takes part in an update.",
        plant=partial(_where_updates_open, members, "holds_context", _any_manager),
    ),
    Planted(
        name="control-cas-again",
        rule="IM-19",
        scenario="control",
        summary="The number of an update that was rolled back is given again.",
        plant=partial(_where_updates_open, coordinator_module, "next_cas", _cas_after_committed),
    ),
)
