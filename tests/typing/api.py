"""The public API the way a user writes it. Checked by mypy, never run.

What must type-check stands plainly; what must not carries an ignore with its code, and mypy (strict) reports
the ignore as unused on the day the mistake would pass.
"""

import asyncio
from collections.abc import Callable
from typing import Any, Protocol, assert_never, assert_type
from uuid import UUID

import holdfast as hf
from holdfast.authority import contract
from holdfast.authority.contract import Absent, Applied, Get, Got, Invalid, Put, Refused, Txn, Unknown
from holdfast.authority.recipe import Authority, Recipe, perform
from holdfast.calling.config import CallPolicy
from holdfast.client.proxy import Group
from holdfast.clock import Vector
from holdfast.faults.events import Location
from holdfast.faults.reports import FaultKind, FaultReport
from holdfast.faults.told_events import Gap, Told
from holdfast.model.calls import CallOutcomeUnknown, RequestId
from holdfast.model.csn import Csn, parse
from holdfast.model.errors import (
    Conflict,
    Corruption,
    HoldfastError,
    InvalidRequest,
    OutcomeUnknown,
    Overloaded,
    Rejected,
    Unavailable,
    invariant,
)
from holdfast.model.ids import Epoch, GroupId, HostId, LeaseId, Position, ReplicaId, Revision, Term
from holdfast.model.ports import Clock, Fault, NoFault, NoTrace, Timers, Trace
from holdfast.sequence.member import Member
from holdfast.sequence.ports import Application
from holdfast.sim.checkers import (
    Append,
    CompareAndSet,
    History,
    Operation,
    Read,
    Violation,
    Write,
    exactly_once,
    order,
    unique,
)
from holdfast.sim.checkers import order as order_module
from holdfast.sim.checkers.linearizability import check
from holdfast.sim.checkers.models import CounterModel, ListModel, RegisterModel
from holdfast.styles.active import Active
from holdfast.styles.cold import Cold
from holdfast.styles.ports import Sequence
from holdfast.styles.stateless import Stateless
from holdfast.styles.warm import Warm

# --- ids are distinct types


def follow(epoch: Epoch, position: Position) -> None: ...


def ids() -> None:
    follow(Epoch(1), Position(2))
    follow(Term(1), Position(2))  # type: ignore[arg-type]  # a term is no epoch
    follow(Position(1), Epoch(2))  # type: ignore[arg-type]  # nor is a position
    follow(1, 2)  # type: ignore[arg-type]  # nor is a bare number
    host: HostId = "a"  # type: ignore[assignment]  # a host's id is named as such
    print(host)


# --- errors say what the caller may do next


def next_step(error: HoldfastError) -> str:
    assert_type(error.code, str)
    match error:
        case Conflict() | Overloaded() | Rejected():
            return "try again"
        case OutcomeUnknown(request=request, waited_s=waited_s):
            assert_type(waited_s, float)
            return f"ask for the outcome of {request}"
        case Unavailable():
            return "wait"
        case InvalidRequest():
            return "correct it"
        case Corruption(file=file, offset=offset):
            assert_type(offset, int)
            return f"repair {file}"
    return "report it"


def errors() -> None:
    invariant(1 < 2, "arithmetic")
    raise OutcomeUnknown("call 7", waited_s=2.5)


def errors_are_built_in_full() -> None:
    raise OutcomeUnknown("call 7")  # type: ignore[call-arg]  # how long did you wait?


# --- change sequence numbers and vectors


def csns(text: str) -> list[Csn]:
    csn = parse(text)
    assert_type(csn, Csn)
    assert_type(csn.replica, ReplicaId)
    assert_type(csn.text(), str)
    assert_type(csn < csn.part(1), bool)
    Csn(1, 2, 3)  # type: ignore[arg-type]  # a replica is not a bare number
    csn.sequence = 3  # type: ignore[misc]  # a value does not change
    vector = Vector.of("g1", [csn])
    assert_type(vector.covers(csn), bool)
    assert_type(vector.get(csn.replica), Csn | None)
    return sorted([csn, Csn(1, 2, ReplicaId(3))])


# --- ports, as someone binds them


class FrozenClock:
    def now(self) -> int:
        return 0

    def wall(self) -> int:
        return 0


class FloatClock:
    def now(self) -> float:
        return 0.0

    def wall(self) -> float:
        return 0.0


def core(clock: Clock, trace: Trace, fault: Fault) -> int:
    trace.note("started", at=clock.now())
    return clock.now() if fault.maybe("rare") else 0


def ports(timers: Timers) -> None:
    core(FrozenClock(), NoTrace(), NoFault())
    core(FloatClock(), NoTrace(), NoFault())  # type: ignore[arg-type]  # time is an integer
    timers.cancel(timers.set(1_000, "tag"))
    timers.cancel(5)  # type: ignore[arg-type]  # not a timer


# --- the authority: a result is told apart by its class, and none is forgotten


def settle(result: contract.Result) -> str:
    match result:
        case Applied(revision=revision):
            assert_type(revision, Revision)
            return "applied"
        case Refused(found=found):
            assert_type(found, tuple[contract.KeyValue | None, ...])
            return "refused"
        case Unknown() | Invalid():
            return result.reason
        case contract.Elsewhere():
            return "the authority has moved"
        case Got() | contract.Listed() | contract.LeaseGranted() | contract.LeaseGone():
            return "not a change"
    assert_never(result)


def settle_carelessly(result: contract.Result) -> str:
    match result:
        case Applied() | Refused():
            return "settled"
    assert_never(result)  # type: ignore[arg-type]  # Unknown, among others, was forgotten


def create(key: str, value: bytes) -> Recipe[bool]:
    """A recipe of a user's own."""
    result = yield Txn(compares=(Absent(key),), changes=(Put(key, value, lease=LeaseId(4)),))
    if isinstance(result, Unknown):
        again = yield Get(key)
        return isinstance(again, Got) and again.item is not None and again.item.value == value
    return isinstance(result, Applied)


async def authority(backend: Authority) -> None:
    assert_type(await perform(backend, create("a", b"1")), bool)
    assert_type(await backend.ask(Get("a")), contract.Result)
    async for event in backend.watch("prefix/", Revision(1)):
        assert_type(event, contract.Events | contract.Compacted)
    await backend.ask("a")  # type: ignore[arg-type]  # not a request
    Put("a", "text")  # type: ignore[arg-type]  # values are bytes


# --- checking a service of one's own


def checkers(now: Callable[[], int]) -> list[Violation]:
    history = History(now)
    asked = history.begin("client", "x", Write(1))
    history.ok(asked)
    history.ok(history.begin("client", "x", Read()), 1)
    history.unknown(history.begin("client", "x", CompareAndSet(1, 2)))
    history.failed(history.begin("client", "x", Append("token")))
    history.ok(3)  # type: ignore[arg-type]  # not a handle
    history.begin("client", "x", "read")  # type: ignore[arg-type]  # not a request
    operations = history.operations()
    assert_type(operations, tuple[Operation, ...])
    return [
        *check(operations, RegisterModel),
        *check(operations, lambda: RegisterModel(initial=0), steps_max=1000),
        *check(operations, CounterModel),
        *check(operations, ListModel),
        *unique.check_register(operations),
        *unique.check_list(operations),
        *unique.check_counter(operations),
        *exactly_once.check(operations, {"a": ["token"], "b": ("token",)}),
        *order_module.check({"a": {"x": 1}, "b": {"x": 1}}),
        *order.no_gap("log", [1, 2, 3], first=1),
        *order.strictly_increasing("watch", [1, 5]),
        *order.no_repetition("stream", ["m1", "m2"]),
        *order.prefix_agreement({"a": [1, 2], "b": [1]}),
    ]


# --- writing a class


class Shop:
    """A group's class, with everything a method may ask of its context."""

    def buy(self, item: str) -> str:
        assert_type(hf.context.time(), float)
        assert_type(hf.context.random.random(), float)
        assert_type(hf.context.uuid4(), UUID)
        assert_type(hf.context.this_group, str)
        assert_type(hf.context.trace_id, str)
        assert_type(hf.context.traceparent, str)
        timer = hf.context.call_later(1.5, self.buy, item)
        assert_type(hf.context.cancel(timer), bool)
        hf.context.cron("*/5 * * * *", "buy", item)
        hf.context.call_later("soon", "buy")  # type: ignore[arg-type]  # not a delay
        return item

    async def order(self, item: str) -> None:
        await hf.context.group("stock").reserve(item, number=1)
        other = hf.context.group("other", Shop, timeout_s=1)
        assert_type(await other.call(Shop.buy, item), str)
        assert_type(await other.call(Shop.order, item), None)
        assert_type(await other.call("anything", 1), Any)
        await other.call(Shop.buy, 1)  # type: ignore[call-overload]  # not an item
        hf.context.group("other", timeout_s="1")  # type: ignore[call-overload]  # not a number
        await hf.context.group("abroad", Shop, domain="holdfast://127.0.0.1:7400/d").buy(item)

    @hf.query
    def price(self, item: str) -> int:
        return len(item)


def queries_keep_their_types(shop: Shop) -> None:
    assert_type(shop.price("tea"), int)
    shop.price(1)  # type: ignore[arg-type]  # not an item


# --- the seam between a sequence and what stands on it


def a_style_is_an_application(style: Cold | Warm | Active | Stateless) -> Application:
    return style


def a_member_is_a_sequence(member: Member) -> Sequence:
    return member


# --- calling a group


class Ledger:
    """A class as users write it."""

    def deposit(self, who: str, amount: int) -> int:
        return amount

    async def audit(self, *, since: str) -> list[str]:
        return [since]


class LedgerCalls(Protocol):
    """The same, as an awaiting caller sees it."""

    async def deposit(self, who: str, amount: int) -> int: ...


async def calling(url: str) -> None:
    async with hf.connect(url, policy=CallPolicy(duration_ns=5)) as domain:
        untyped = await domain.group("ledger")
        assert_type(await untyped.deposit("alice", 5), Any)
        ledger = await domain.group("ledger", Ledger)
        assert_type(ledger, Group[Ledger])
        assert_type(await ledger.call(Ledger.deposit, "alice", 5), int)
        assert_type(await ledger.call(Ledger.deposit, who="alice", amount=5), int)
        assert_type(await ledger.call(Ledger.audit, since="monday"), list[str])
        ledger.call(Ledger.deposit, "alice", "five")  # type: ignore[call-overload]  # not an amount
        ledger.call(Ledger.deposit, "alice")  # type: ignore[call-overload]  # one argument is missing
        slow = ledger.options(duration_s=60, ordered=True, consistency="stale", stale_s=0.5)
        assert_type(await slow.call(Ledger.deposit, "alice", 5), int)
        ledger.options(consistency="fresh")  # type: ignore[arg-type]  # no such consistency
        awaited = ledger.typed(LedgerCalls)
        assert_type(await awaited.deposit("alice", 5), int)
        await awaited.deposit("alice")  # type: ignore[call-arg]  # one argument is missing
        try:
            await asyncio.gather(*(ledger.call(Ledger.deposit, "bob", n) for n in range(10)))
        except CallOutcomeUnknown as unknown:
            assert_type(unknown.request_id, RequestId)
            await domain.outcome(unknown.request_id)
            assert_type(await domain.outcome(unknown.request_id, int), int)
        except hf.ResultDoesNotFit as unfit:
            assert_type(unfit.request_id, RequestId)


async def managing(url: str) -> None:
    async with hf.connect(url) as domain:
        assert_type(await domain.properties.set(InitialNumberReplicas=5), dict[str, Any])
        await domain.type_properties(Ledger).remove("CheckpointInterval")
        made = await domain.objects.create("ledger:Ledger", {"name": "books"})
        assert_type(made.factory_creation_id, GroupId)
        alone = await domain.factory("host2").create("ledger:Ledger")
        await domain.factory("host2").delete(alone.factory_creation_id)
        books = await domain.group("books", Ledger)
        reference = await books.create_member("host3")
        assert_type([each.location for each in reference.members], list[str])
        await books.properties.set(MinimumNumberReplicas=2)
        assert_type((await books.properties.get())["org.omg.ft.MinimumNumberReplicas"], Any)


class Pager:
    async def push_structured_event(self, told: Told) -> None:
        print(told.number)


async def hearing_of_faults(url: str) -> None:
    async with hf.connect(url) as domain:
        async for news in domain.faults.watch("$type_name == 'HostCrash'", after=7):
            assert_type(news, Told | Gap)
        assert_type(await domain.faults.list(parts=True), list[Told])
        report = FaultReport(FaultKind.HANG, "main", Location.parse("host2"))
        assert_type(await domain.faults.push(report, once="host2 hangs"), int)
        chosen = await domain.faults.create_subscription_filter("EXTENDED_TCL")
        assert_type(await domain.faults.connect_structured_fault_consumer(Pager(), chosen), int)
        await domain.faults.connect_sequence_fault_consumer(Pager())  # type: ignore[arg-type]  # takes no batches


def calling_plainly(url: str) -> None:
    with hf.connect_sync(url) as domain:
        ledger = domain.group("ledger", Ledger)
        assert_type(ledger.deposit("alice", 5), int)
        ledger.deposit("alice", "five")  # type: ignore[arg-type]  # not an amount
        assert_type(domain.group("ledger"), Any)


# --- interleaved classes and queries at any time


@hf.interleaved
class Bank:
    def __init__(self) -> None:
        self.total = 0

    async def move(self, amount: int) -> int:
        self.total += amount
        return self.total

    @hf.query
    def balance(self) -> int:
        return self.total

    @hf.query(anytime=True)
    def glance(self) -> int:
        return self.total


def interleaved_classes_keep_their_types(bank: Bank) -> None:
    assert_type(bank, Bank)
    assert_type(bank.glance(), int)
    assert_type(bank.balance(), int)
    hf.interleaved(bank.glance)  # type: ignore[type-var]  # it marks classes
    hf.query(anytime=1.5)  # type: ignore[call-overload]  # it is there or not


class Moody:
    """A class that has a state of its own form, with the exceptions it may raise."""

    def __init__(self) -> None:
        self.state = b""

    def get_state(self) -> bytes:
        if not self.state:
            raise hf.NoStateAvailable("not now")
        return self.state

    def set_state(self, state: bytes) -> None:
        if not state:
            raise hf.InvalidState("empty")

    def get_update(self) -> bytes:
        raise hf.NoUpdateAvailable

    def set_update(self, update: bytes) -> None:
        raise hf.InvalidUpdate(f"{len(update)} bytes")

    async def ask(self) -> str:
        try:
            hf.context.cron("every day", "ask")
            return str(await hf.context.group("other").answer())
        except (hf.BadSchedule, hf.NotOrdered, hf.TooManyTimers, hf.BadCall) as error:
            return error.code
        except (hf.MethodRaised, hf.CallRefused, hf.NestedOutcomeUnknown) as error:
            return error.code


def sends_are_typed_as_the_methods_are() -> None:
    hf.context.send("bank").move(1)
    hf.context.send("bank", Bank, expires_s=5).call(Bank.move, 1)
    hf.context.send("bank", Bank).call(Bank.move, "1")  # type: ignore[call-overload]  # an amount is a number
    hf.context.send("bank", expires="soon")  # type: ignore[call-overload]  # it is expires_s


class Archive(hf.Stored):
    """A class with a database of its own."""

    schema = "CREATE TABLE documents (id TEXT PRIMARY KEY, body TEXT)"

    def put(self, id: str, body: str) -> None:
        assert_type(self.database, hf.Database)
        self.database.execute("INSERT INTO documents VALUES (?, ?)", id, body)
        self.database.execute("INSERT INTO documents VALUES (?, ?)", id, [body])  # type: ignore[arg-type]  # no value of SQLite's
