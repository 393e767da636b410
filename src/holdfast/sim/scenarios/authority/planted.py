"""Bugs planted in the embedded authority, its client, and the recipes."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Final

import apsw
import msgspec

from holdfast.authority import (
    client,
    election,
    groups,
    keys,
    membership,
    names,
    server,
    sessions,
    sqlite_file,
    stores,
    transactions,
)
from holdfast.authority.client import AuthorityClient, Subscriptions
from holdfast.authority.contract import (
    Change,
    Compare,
    Delete,
    Put,
    Refused,
    Request,
    Result,
    Txn,
    Unknown,
)
from holdfast.authority.control_records import Standing, Status, read_standing
from holdfast.authority.identity import Identity
from holdfast.authority.recipe import Guard, InDoubt, Recipe, Removed, Seen, change, put, read
from holdfast.authority.sqlite import Leases, SqliteStore
from holdfast.model.ids import Epoch, LeaseId, Nonce, Revision
from holdfast.sim.runner.planted import Planted, Planting, replacing

_commit = SqliteStore._commit
_expire = SqliteStore.expire
_give_up_overdue = AuthorityClient._give_up_overdue
_leases_init = Leases.__init__
_prepare = sqlite_file._prepare
_start = Subscriptions._start


# --- the store


def _prepare_without_sync(db: apsw.Connection) -> None:
    _prepare(db)
    db.execute("PRAGMA synchronous = OFF")


def _commit_in_spite_of_errors(store: SqliteStore) -> None:
    """Rolls back what could not be committed, and continues."""
    try:
        _commit(store)
    except apsw.Error:
        if store._db.in_transaction:
            store._db.execute("ROLLBACK")


def _apply_without_commit(store: SqliteStore, requests: Sequence[Request], now_ns: int) -> list[Result]:
    """Commits only with the next tick: fewer syncs, faster answers."""
    return [store._judge(request, now_ns) for request in requests]


def _expire_with_commit(store: SqliteStore, now_ns: int) -> list[LeaseId]:
    ended = _expire(store, now_ns)
    store._commit()
    return ended


@contextmanager
def _answer_before_commit() -> Iterator[None]:
    with (
        replacing(SqliteStore, "apply", _apply_without_commit),
        replacing(SqliteStore, "expire", _expire_with_commit),
    ):
        yield


def _forget_deadlines(leases: Leases, db: apsw.Connection, now_ns: int) -> None:
    _leases_init(leases, db, now_ns)
    for held in leases._held.values():
        held.deadline_ns = now_ns


def _restored_with_old_floors(
    identity: Identity, above_epoch: Epoch, *, nonce: Nonce, wall_ns: int
) -> Identity:
    return msgspec.structs.replace(identity, generation=identity.generation + 1, nonce=nonce)


# --- the wire


def _give_up_as_refused(core: AuthorityClient) -> None:
    """Reports an unanswered change as refused after the deadline, as if it had not happened."""
    told = core._on_authority
    pending = (*core._sent.values(), *core._unsent)
    compares = {each.token: len(each.request.compares) for each in pending if isinstance(each.request, Txn)}

    def tell(token: Any, result: Result) -> None:
        if isinstance(result, Unknown) and token in compares:
            result = Refused((None,) * compares[token], Revision(0))
        told(token, result)

    core._on_authority = tell
    try:
        _give_up_overdue(core)
    finally:
        core._on_authority = told


def _start_after_a_gap(subscriptions: Subscriptions, subscription: Any, session: int) -> None:
    if subscription.number:
        subscription.next += 1
    _start(subscriptions, subscription, session)


# --- the recipes


def changing(
    compares_kept: Callable[[Compare], bool] = lambda compare: True,
    changes_kept: Callable[[Change], bool] = lambda change: True,
    *,
    only: Callable[[Sequence[Change]], bool] = lambda changes: True,
) -> Callable[..., Recipe[Any]]:
    """Make a version of the step of all recipes that leaves out some of its comparisons or changes."""

    def broken(compares: Sequence[Compare], changes: Sequence[Change], *, nonce: Nonce) -> Recipe[Any]:
        if only(changes):
            compares = [each for each in compares if compares_kept(each)]
            changes = [each for each in changes if changes_kept(each)]
        return (yield from change(compares, changes, nonce=nonce))

    return broken


def _is_binding(changes: Sequence[Change]) -> bool:
    return isinstance(changes[0], Put) and changes[0].key.startswith(keys.NAMES)


def _is_creation(changes: Sequence[Change]) -> bool:
    return isinstance(changes[0], Put) and changes[0].key.startswith(keys.GROUPS)


def is_decision(changes: Sequence[Change]) -> bool:
    return not any(isinstance(each, Delete) for each in changes)


def _unbind_anybody(name: str, *, owner: sessions.Session, nonce: Nonce) -> Recipe[Any]:
    found = yield from read(keys.name(name), names.Entry)
    if found.value is None:
        return Removed()
    changes: list[Change] = [Delete(found.key), put(keys.NAME_GUARD, Guard(nonce=nonce))]
    result = yield from change([found.unchanged()], changes, nonce=nonce)
    return result if isinstance(result, InDoubt) else Removed()


def read_standing_as_closed() -> Recipe[Standing]:
    standing = yield from read_standing()
    last = standing.last.value
    if last is None:
        return standing
    closed = msgspec.structs.replace(last, status=Status.COMMIT)
    return replace(standing, last=Seen(standing.last.key, closed, standing.last.modified))


_bug: Final = Planting("authority")


PLANTED = (
    _bug(
        "timeout-is-refusal",
        "A1",
        "A change unanswered by its deadline is reported as refused.",
        AuthorityClient,
        "_give_up_overdue",
        _give_up_as_refused,
    ),
    _bug(
        "changes-sent-again",
        "A1",
        "After a reconnection changes are sent again, as reads are.",
        client._Pending,
        "is_read",
        property(lambda pending: True),
    ),
    _bug(
        "copies-applied-again",
        "A1",
        "The server does not remember which requests it has taken.",
        server._Session,
        "take",
        lambda session, ask: True,
    ),
    _bug(
        "watch-gap",
        "A3",
        "A watch is resumed one revision too late.",
        Subscriptions,
        "_start",
        _start_after_a_gap,
    ),
    _bug(
        "leases-forgotten",
        "A4",
        "After a restart leases expire at once.",
        Leases,
        "__init__",
        _forget_deadlines,
    ),
    _bug(
        "old-epochs",
        "A5",
        "A restored authority issues its numbers from where the copy stood.",
        sqlite_file,
        "restored",
        _restored_with_old_floors,
    ),
    _bug(
        "no-sync",
        "A6",
        "SQLite runs with synchronous=OFF.",
        sqlite_file,
        "_prepare",
        _prepare_without_sync,
    ),
    _bug(
        "no-sync-at-opening",
        "A6",
        "What a killed process left unsynced is served without being synced.",
        sqlite_file,
        "settle",
        lambda db, vfs: None,
        profile="bursts",
    ),
    _bug(
        "failed-sync-believed",
        "D1",
        "Frames whose sync has failed are synced again, not written again, by the next process.",
        sqlite_file,
        "rewrite_wal",
        lambda path, vfs: None,
        profile="syncs",
        runs_max=600,
    ),
    _bug(
        "errors-survived",
        "A6",
        "After an error of the disk the store rolls back and goes on.",
        SqliteStore,
        "_commit",
        _commit_in_spite_of_errors,
    ),
    Planted(
        name="authority-answers-before-commit",
        rule="A6",
        scenario="authority",
        summary="Answers leave at once and are committed with the next tick.",
        plant=_answer_before_commit,
    ),
    _bug(
        "unbind-anybody",
        "A7",
        "Unbinding does not look whose entry it removes.",
        names,
        "unbind",
        _unbind_anybody,
    ),
    _bug(
        "bind-unchecked",
        "A7",
        "Binding over a dead entry does not compare what was checked.",
        names,
        "change",
        changing(lambda compare: False, only=_is_binding),
    ),
    _bug(
        "created-on-guesses",
        "V6",
        "The creation of a group does not compare its guess that there is no such group.",
        groups,
        "change",
        changing(lambda compare: compare.key.startswith(keys.VIEWS) is False, only=_is_creation),
    ),
    _bug(
        "incarnation-reused",
        "V2",
        "The session is opened without raising the host's incarnation.",
        sessions,
        "change",
        changing(changes_kept=lambda each: not each.key.startswith("hosts/")),
    ),
    _bug(
        "strangers-welcome",
        "V5",
        "A wiped, copied or rolled-back store is opened as the one the authority knows.",
        stores,
        "_objection",
        lambda found, expected, expected_nonce, generation: None,
    ),
    _bug(
        "decision-unbound",
        "N-2",
        "A decision is put without comparing the term and the open record.",
        transactions,
        "change",
        changing(lambda compare: False, only=is_decision),
    ),
    _bug(
        "initial-left-open",
        "N-3",
        "A new term leaves an old transaction open.",
        election,
        "_closing",
        lambda standing, nonce: [],
    ),
    _bug(
        "anybody-elected",
        "IM-35",
        "A host that did not take part in the last commit may become coordinator.",
        election,
        "_is_eligible",
        lambda standing, member: True,
    ),
    _bug(
        "join-while-open",
        "IM-34",
        "A host may join while a transaction is open.",
        membership,
        "read_standing",
        read_standing_as_closed,
    ),
)
