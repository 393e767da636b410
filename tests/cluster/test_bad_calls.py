"""Bad calls and orders on real hosts: each gives one clear error, changes nothing, and the connection stays
open."""

import asyncio
import subprocess
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from direct import DirectCaller
from domain import HOLDFAST, Domain
from group_client import Client, run

import holdfast as hf
from holdfast.agent.status_client import addresses_of
from holdfast.cli.admin import give_at
from holdfast.client.proxy import Group
from holdfast.model.admin.groups import (
    UNKNOWN_ORDER,
    CreateGroup,
    GroupHistory,
    GroupList,
    HandedOver,
    ListGroups,
    SetPrimary,
    ShowHistory,
    decode_order_answer,
    encode_order,
)
from holdfast.model.errors import InvalidRequest
from holdfast.model.outcome import CallRefused, MethodRaised, Refused
from holdfast.net import Connection, ConnectionSettings, Kind, PeerIdentity, Reason, Requests, Role, connect

pytestmark = pytest.mark.cluster

APPS = Path(__file__).parent / "apps"
MEGABYTE = 1 << 20


@pytest.fixture(scope="module")
def domain(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Domain]:
    with Domain(tmp_path_factory.mktemp("bad") / "d", "--app", str(APPS)) as made:
        yield made


def with_strict(domain: Domain, work: Callable[[Client, Group[Any]], Awaitable[None]]) -> None:
    """Run *work* with a group in which nothing may have changed afterwards."""

    async def begin(client: Client) -> None:
        names = [each.name for each in await client.connection.groups()]
        strict = (
            await client.group("strict")
            if "strict" in names
            else await client.connection.create("strict:Strict", name="strict")
        )
        await work(client, strict)
        assert await strict.placed() == []

    run(domain, begin)


@pytest.mark.parametrize(
    ("method", "arguments", "said"),
    [
        ("nosuch", (), "has no method 'nosuch'; it has: "),
        ("_secret", (), "Strict._secret is private"),
        ("__init__", (), "Strict.__init__ is private"),
        ("get_state", (), "Holdfast's to call"),
        ("place", (), "missing a required argument: 'order'"),
        ("place", ({"item": "tea", "number": 1}, 2), "too many positional arguments"),
        ("place", ("tea",), "argument order: Expected `object`, got `str`"),
        ("place", ({"item": "tea", "number": "one"},), "argument order: Expected `int`, got `str`"),
        ("place", ({"item": "tea"},), "missing required field `number`"),
        ("placed", (1,), "too many positional arguments"),
    ],
)
def test_a_call_that_does_not_fit_is_refused(
    domain: Domain, method: str, arguments: tuple[Any, ...], said: str
) -> None:
    """The group itself refuses it, since this client knows nothing of its class."""

    async def work(client: Client, strict: Group[Any]) -> None:
        with pytest.raises(CallRefused) as refused:
            await strict.call(method, *arguments)
        assert refused.value.reason == "bad_call"
        assert said in str(refused.value)

    with_strict(domain, work)


def test_what_a_method_raises_or_cannot_return_is_told_as_such(domain: Domain) -> None:
    async def work(client: Client, strict: Group[Any]) -> None:
        with pytest.raises(MethodRaised) as raised:
            await strict.raise_error("alice")
        assert (raised.value.type_name, raised.value.text) == ("strict.Overdrawn", "alice has 0")
        with pytest.raises(MethodRaised, match="result cannot be sent"):
            await strict.get_socket()
        with pytest.raises(MethodRaised, match=r"result has \d+ bytes; at most"):
            await strict.give_back(9 * MEGABYTE)

    with_strict(domain, work)


def test_a_payload_over_the_limit_is_refused_before_it_is_sent(domain: Domain) -> None:
    async def work(client: Client, strict: Group[Any]) -> None:
        with pytest.raises(InvalidRequest, match="bytes of arguments; 8388608 are allowed"):
            await strict.keep("x" * (9 * MEGABYTE))
        with pytest.raises(InvalidRequest, match="has no form on the wire"):
            await strict.keep(object())

    with_strict(domain, work)


def test_a_request_past_its_expiration_is_never_executed(domain: Domain) -> None:
    """The group's time decides, whatever the client says (X2)."""

    async def work(client: Client, strict: Group[Any]) -> None:
        found = await client.info("strict")
        caller = DirectCaller("late", found.group, found.epoch)
        await caller.open(await client.address(found.primary), client.endpoint())
        try:
            outcome = await caller.outcome_of("keep", "x", expiration_s=1)
            assert isinstance(outcome, Refused)
            assert outcome.code == "expired"
            assert await caller.send("placed") is not None  # the connection stays open
        finally:
            caller.close()

    with_strict(domain, work)


def test_there_is_no_such_group(domain: Domain) -> None:
    async def work(client: Client, strict: Group[Any]) -> None:
        with pytest.raises(InvalidRequest, match="there is no group 'nobody'"):
            await client.group("nobody")
        with pytest.raises(InvalidRequest, match="there is no group 'nobody'"):
            await client.connection.delete("nobody")

    with_strict(domain, work)


@pytest.mark.parametrize(
    ("class_name", "properties", "said"),
    [
        ("strict:Nothing", {}, "strict.py defines no such class"),
        ("nowhere:Strict", {}, "there is no module nowhere in"),
        ("broken:Strict", {}, "broken cannot be imported: RuntimeError: no licence found"),
        ("strict", {}, "is not a class: write package.module:Class"),
        ("strict:Locked", {}, "guard"),
        ("strict:Strict", {"arguments": "[1]"}, "Strict cannot be made: TypeError"),
        ("strict:Strict", {"arguments": "{}"}, "are not a JSON array"),
        ("strict:Strict", {"style": "cool"}, "there is no style 'cool'; the styles are"),
        ("strict:Strict", {"style": "active_with_voting"}, "not supported yet"),
        ("strict:Strict", {"durability": "paper"}, "durability is disk or memory, not 'paper'"),
        ("strict:Strict", {"min_in_sync": 4}, "min_in_sync is 4, but there are 3 replicas"),
    ],
)
def test_an_order_that_cannot_be_is_refused(
    domain: Domain, class_name: str, properties: dict[str, Any], said: str
) -> None:
    async def work(client: Client, strict: Group[Any]) -> None:
        wanted: Any = CreateGroup(name="other", class_name=class_name, **properties)
        with pytest.raises(InvalidRequest, match=said):
            await client.order(wanted)
        assert "other" not in [each.name for each in await client.connection.groups()]

    with_strict(domain, work)


def test_a_name_that_is_taken_is_refused(domain: Domain) -> None:
    async def work(client: Client, strict: Group[Any]) -> None:
        with pytest.raises(InvalidRequest, match="there is a group 'strict' already"):
            await client.connection.create("strict:Strict", name="strict")

    with_strict(domain, work)


def test_many_bad_calls_among_good_ones_harm_nobody(domain: Domain) -> None:
    """They share frames, and each gets its own outcome."""

    async def work(client: Client, strict: Group[Any]) -> None:
        calls = [strict.call("nosuch") if n % 2 else strict.give_back(n) for n in range(300)]
        outcomes = await asyncio.gather(*calls, return_exceptions=True)
        assert [len(each) for each in outcomes[::2] if isinstance(each, str)] == [*range(0, 300, 2)]
        assert all(isinstance(each, CallRefused) for each in outcomes[1::2])

    with_strict(domain, work)


def test_the_command_line_says_it_in_one_line_and_ends_with_a_code(domain: Domain) -> None:
    """Nothing is on standard output and there is no traceback; the code is 1 for failures, 2 for misuse."""

    async def nothing(client: Client, strict: Group[Any]) -> None:
        return None

    with_strict(domain, nothing)
    for words, code, said in (
        (("call", "nobody", "place"), 2, "there is no group 'nobody'"),
        (("call", "strict", "nosuch"), 2, "has no method 'nosuch'"),
        (("call", "strict", "place", "tea"), 2, "is not JSON"),
        (("call", "strict", "place", '"tea"'), 2, "argument order"),
        (("call", "strict", "raise_error", '"alice"'), 1, "Overdrawn: alice has 0"),
        (("group", "create", "other", "broken:Strict"), 2, "no licence found"),
        (("group", "create", "other", "strict:Locked"), 2, "guard"),
        (("group", "show", "nobody"), 2, "there is no group 'nobody'"),
    ):
        command = [*HOLDFAST, *words, "--dir", str(domain.directory)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
        assert (done.returncode, done.stdout) == (code, ""), f"{words}: {done}"
        assert said in " ".join(done.stderr.split()), f"{words}: {done.stderr}"
        assert "Traceback" not in done.stderr


def test_a_primary_that_can_make_no_object_hands_over_and_the_history_says_why(
    domain: Domain, tmp_path: Path
) -> None:
    """The group is handed to a host on which the class's constructor raises: another takes it at once."""

    async def work(client: Client) -> None:
        create = client.connection.create
        fragile = await create("fragile:Fragile", name="fragile", style="cold_passive", args=[str(tmp_path)])
        assert await fragile.write("one") == 1
        before = await client.wait_in_sync("fragile")
        broken = next(host for host in before.in_sync if host != before.primary)
        (tmp_path / str(await client.pid(broken))).touch()
        order = SetPrimary(name="fragile", host=broken)
        # That host is primary for too short a time to be seen, so the order may last until it is given up.
        handing = asyncio.create_task(give_at(client.layout, order, HandedOver))
        assert await fragile.write("two") == 2
        after = await client.wait(
            "fragile",
            "another is primary",
            lambda found: found.primary != broken and found.epoch > before.epoch,
        )
        told = await give_at(client.layout, ShowHistory(name="fragile"), GroupHistory)
        why = "no object could be made: Fragile cannot be made: RuntimeError: no licence on this host"
        assert (broken, why) in [(view.host, view.text) for view in told.views if view.epoch <= after.epoch]
        handing.cancel()
        await asyncio.gather(handing, return_exceptions=True)

    run(domain, work)


LATER = msgspec.msgpack.encode(["added later", 1])
LATER_ORDER = msgspec.msgpack.encode({"type": "added_later"})


def test_what_a_later_version_says_is_passed_over(domain: Domain) -> None:
    """While a domain is upgraded, hosts of a later version send messages that this one does not know: they
    count as lost, and an order is refused. The connection stays open."""

    async def work(client: Client) -> None:
        description = client.layout.read()
        (address, *_) = await addresses_of(client.layout, description)
        later = ConnectionSettings(
            PeerIdentity(description.domain, Role.HOST, "later"),
            credentials=client.layout.secret(description.domain),
        )
        asker = Asker()
        connection = await connect(address, asker.begin, later, deadline_s=120.0)
        try:
            for kind in (Kind.SEQUENCE, Kind.CONTROL, Kind.CALL):
                connection.send(kind, LATER)
            refused = await asker.requests.ask(Kind.GROUP_ORDER, LATER_ORDER, deadline_s=120.0)
            assert msgspec.msgpack.decode(refused)["code"] == UNKNOWN_ORDER
            listed = await asker.requests.ask(Kind.GROUP_ORDER, encode_order(ListGroups()), deadline_s=120.0)
            assert isinstance(decode_order_answer(listed), GroupList)
        finally:
            connection.close()
            await connection.wait_gone()

    run(domain, work)


class Asker:
    """Asks on a separate connection."""

    requests: Requests

    def begin(self, connection: Connection) -> "Asker":
        self.requests = Requests(connection)
        return self

    def on_frame(self, connection: Connection, kind: Kind, payload: bytes) -> None:
        if kind is Kind.GROUP_ANSWER:
            self.requests.on_answer(payload)

    def on_closed(self, connection: Connection, reason: Reason) -> None:
        self.requests.on_closed(reason)


class Outdated:
    """The class as a client with another version of it knows it: a declaration that the client checks results
    against. The hosts have the real class."""

    def give_back(self, number: int) -> int:
        raise NotImplementedError


def test_a_client_with_another_version_of_the_class_is_told_what_came_and_of_which_call(
    domain: Domain,
) -> None:
    """The call was executed: the group knows the outcome of its id."""

    async def work(client: Client, strict: Group[Any]) -> None:
        outdated = await client.connection.group("strict", Outdated)
        with pytest.raises(hf.ResultDoesNotFit, match="give_back was executed") as told:
            await outdated.give_back(3)
        assert told.value.value == "xxx"
        assert await client.connection.outcome(told.value.request_id) == "xxx"
        with pytest.raises(hf.ResultDoesNotFit):
            await client.connection.outcome(told.value.request_id, int)

    with_strict(domain, work)
