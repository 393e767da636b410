"""Bugs planted in the clock."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from holdfast.clock import generator as generator_module
from holdfast.clock.errors import ClockFileMissing, SkewTooLarge
from holdfast.clock.generator import Generator, Phase
from holdfast.clock.offsets import LogicalTime
from holdfast.clock.state import CLOCK_FILE, NEW_FILE, ClockState, FutureStore, Reservation
from holdfast.clock.vector import PendingList
from holdfast.model.csn import TIMESTAMP_MAX, Csn
from holdfast.model.errors import Corruption
from holdfast.model.ids import SECOND
from holdfast.model.ports import Token
from holdfast.sim.runner.planted import Planted, replacing

_due_reservation = Generator._due_reservation
_encode = Reservation.encode
_load = FutureStore.load
_observe = LogicalTime.observe
_observe_and_store = Generator.observe
_on_synced = FutureStore.on_synced
_sample = LogicalTime.sample


def _encode_the_present(reservation: Reservation) -> bytes:
    return _encode(replace(reservation, timestamp=reservation.state.position[0], sequence=0))


def _start_from_the_system_clock(
    system_ns: int, *, file: Reservation | None, csnstate: ClockState | None
) -> LogicalTime:
    return LogicalTime(system_ns)


def _wrap_sequence(time: LogicalTime) -> None:
    time.sequence = 0


def _follow_the_clock_back(time: LogicalTime, system_ns: int) -> None:
    time.system_ns = system_ns
    time.timestamp = time.logical_ns // SECOND
    time.sequence = 0


def _ignore_peers(time: LogicalTime, peer: str, csn: Csn, *, system_ns: int, max_skew_s: int | None) -> int:
    return 0


def _limit_each_step(
    time: LogicalTime, peer: str, csn: Csn, *, system_ns: int, max_skew_s: int | None
) -> int:
    limit_s = None if max_skew_s is None else max_skew_s + time.network_ns // SECOND
    return _observe(time, peer, csn, system_ns=system_ns, max_skew_s=limit_s)


def _change_before_refusing(
    time: LogicalTime, peer: str, csn: Csn, *, system_ns: int, max_skew_s: int | None
) -> int:
    try:
        return _observe(time, peer, csn, system_ns=system_ns, max_skew_s=max_skew_s)
    except SkewTooLarge:
        time.network_ns += SECOND
        raise


def _forget_the_sequence(generator: Generator) -> Reservation | None:
    due = _due_reservation(generator)
    return due and replace(due, sequence=0)


def _sample_without_limit(time: LogicalTime, system_ns: int, *, until: int) -> None:
    _sample(time, system_ns, until=TIMESTAMP_MAX + 1)


def _allow_all_time(generator: Generator) -> None:
    generator._limit = TIMESTAMP_MAX + 1 if generator._phase is Phase.RUNNING else 0


@contextmanager
def _pass_the_stored_future() -> Iterator[None]:
    with (
        replacing(LogicalTime, "sample", _sample_without_limit),
        replacing(Generator, "_set_limit", _allow_all_time),
    ):
        yield


def _store_without_sync(store: FutureStore, reservation: Reservation) -> None:
    store._number += 1
    store._storing = reservation
    store._disk.append(NEW_FILE, reservation.encode())
    store._replace(True)


def _store_without_directory_sync(store: FutureStore, ok: bool) -> None:
    if not ok:
        store._fail("the sync failed")
        return
    store._disk.rename(NEW_FILE, CLOCK_FILE)
    # Any completed sync is accepted: this one is of the file, whose new name is not on the disk yet.
    store._disk.sync(CLOCK_FILE, ("clock", "directory", store._number))


def _ignore_failed_sync(store: FutureStore, token: Token, ok: bool) -> bool:
    return _on_synced(store, token, True)


def _begin_anew_when_damaged(store: FutureStore, *, is_new: bool) -> Reservation | None:
    try:
        return _load(store, is_new=is_new)
    except ClockFileMissing:
        raise
    except Corruption:
        return None


def _sure_at_once(generator: Generator, peer: str, csn: Csn, *, override_reason: str | None = None) -> bool:
    _observe_and_store(generator, peer, csn, override_reason=override_reason)
    return True


def _send_past_those_in_flight(pending: PendingList, *, below: Csn | None = None) -> list[Csn]:
    sendable = sorted(csn for csn, is_committed in pending._is_committed.items() if is_committed)
    for csn in sendable:
        del pending._is_committed[csn]
    return sendable


PLANTED = (
    Planted(
        name="clock-stores-the-present",
        rule="CSN-24",
        scenario="clock",
        summary="the stored timestamp is the present one, not a future one",
        plant=lambda: replacing(Reservation, "encode", _encode_the_present),
    ),
    Planted(
        name="clock-ignores-the-stored-timestamp",
        rule="CSN-37",
        scenario="clock",
        summary="a restart begins at the system clock",
        plant=lambda: replacing(generator_module, "resumed", _start_from_the_system_clock),
    ),
    Planted(
        name="clock-wraps-the-sequence",
        rule="CSN-35",
        scenario="clock",
        summary="S begins at 0 again within the same T",
        plant=lambda: replacing(LogicalTime, "roll_over", _wrap_sequence),
    ),
    Planted(
        name="clock-follows-the-system-back",
        rule="CSN-30",
        scenario="clock",
        summary="the local offset does not grow when the system clock is set back",
        plant=lambda: replacing(LogicalTime, "_set_back", _follow_the_clock_back),
    ),
    Planted(
        name="clock-ignores-peers",
        rule="CSN-20",
        scenario="clock",
        summary="CSNs of other servers are not fed to the generator",
        plant=lambda: replacing(LogicalTime, "observe", _ignore_peers),
    ),
    Planted(
        name="clock-limits-skew-per-step",
        rule="CSN-34",
        scenario="clock",
        summary="csn_max_skew limits each step instead of the sum",
        plant=lambda: replacing(LogicalTime, "observe", _limit_each_step),
    ),
    Planted(
        name="clock-changes-before-refusing",
        rule="CSN-33",
        scenario="clock",
        summary="a refused peer has moved the network offset all the same",
        plant=lambda: replacing(LogicalTime, "observe", _change_before_refusing),
    ),
    Planted(
        name="clock-passes-the-stored-future",
        rule="CSN-24",
        scenario="clock",
        summary="CSNs pass the stored timestamp while the store is late",
        plant=_pass_the_stored_future,
        profile="slow-kills",
    ),
    Planted(
        name="clock-stores-without-sync",
        rule="CSN-25",
        scenario="clock",
        summary="the clock file is renamed without having been synced",
        plant=lambda: replacing(FutureStore, "store", _store_without_sync),
    ),
    Planted(
        name="clock-stores-without-directory-sync",
        rule="CSN-25",
        scenario="clock",
        summary="the new clock file counts before its name is on the disk",
        plant=lambda: replacing(FutureStore, "_replace", _store_without_directory_sync),
    ),
    Planted(
        name="clock-ignores-a-failed-sync",
        rule="D1",
        scenario="clock",
        summary="a failed sync of the clock file counts as a sync",
        plant=lambda: replacing(FutureStore, "on_synced", _ignore_failed_sync),
    ),
    Planted(
        name="clock-begins-anew-when-damaged",
        rule="CSN-25",
        scenario="clock",
        summary="a damaged clock file is taken for none",
        plant=lambda: replacing(FutureStore, "load", _begin_anew_when_damaged),
    ),
    Planted(
        name="clock-forgets-the-sequence",
        rule="CSN-43",
        scenario="clock",
        summary="a stop in good order stores T but not S",
        plant=lambda: replacing(Generator, "_due_reservation", _forget_the_sequence),
    ),
    Planted(
        name="clock-is-sure-too-early",
        rule="CSN-21",
        scenario="clock",
        summary="what a peer showed counts as known before it is stored",
        plant=lambda: replacing(Generator, "observe", _sure_at_once),
    ),
    Planted(
        name="clock-sends-past-those-in-flight",
        rule="CSN-54",
        scenario="clock",
        summary="a vector claims a CSN while a smaller one is in flight",
        plant=lambda: replacing(PendingList, "take_sendable", _send_past_those_in_flight),
    ),
)
