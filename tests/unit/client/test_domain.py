"""The client on real sockets: calls, failovers, lost replies, redirections, asynchronous and synchronous."""

import asyncio
import gc
import math
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
import uvloop
from call_server import BEGAN_S, GROUP, Cluster
from ledger_domain import QUICK, Account, Ledger, tell, until
from msgspec.msgpack import decode
from net_world import SECRET

import holdfast as hf
from holdfast.calling.config import CallPolicy, ClientConfig
from holdfast.client.proxy import Group
from holdfast.client.routing import HostReach, new_client
from holdfast.client.url import parse_url
from holdfast.execution.interface import BadCall
from holdfast.execution.records import Sent, decode_calls
from holdfast.model.admin.groups import CreateGroup, GroupInfo, GroupList, ListGroups
from holdfast.model.calls import CallOutcomeUnknown, HostAt, RefusalCode, RequestId, ToClient
from holdfast.model.errors import InvalidRequest, NoSuchGroup, Overloaded, Rejected, Unavailable
from holdfast.model.ids import MILLISECOND, SECOND, GroupId, HostId, Incarnation
from holdfast.model.outcome import CallRefused, MethodRaised
from holdfast.model.reference import Reference
from holdfast.net import ConnectionSettings, Limits, PeerIdentity, Role
from holdfast.net.secret_file import ensure_secret


def test_a_method_is_called_and_its_value_comes_back() -> None:
    async def story(cluster: Cluster, domain: Any, ledger: Ledger) -> None:
        group = await domain.group("ledger")
        assert await group.deposit("alice", 5) == 5
        assert await group.deposit(who="alice", amount=2) == 7
        assert await group.balance("alice") == 7
        assert await asyncio.gather(*(group.deposit("bob", 1) for _ in range(1000))) == [*range(1, 1001)]

    tell(story)


def test_errors_of_the_method_and_of_the_call_are_told_apart() -> None:
    async def story(cluster: Cluster, domain: Any, ledger: Ledger) -> None:
        group, typed = await domain.group("ledger"), await domain.group("ledger", Ledger)
        with pytest.raises(MethodRaised) as raised:
            await group.withdraw("alice", 5)
        assert (raised.value.type_name, raised.value.text) == ("ValueError", "alice has too little")
        with pytest.raises(CallRefused) as refused:
            await group.transfer("alice", 5)
        assert refused.value.reason == "bad_call"
        with pytest.raises(AttributeError):
            typed.transfer("alice", 5)
        with pytest.raises(BadCall):
            typed.deposit("alice", "five")
        with pytest.raises(BadCall):
            group.deposit("alice", object())
        with pytest.raises(BadCall):
            group.deposit("half \ud800", 1)
        with pytest.raises(BadCall):
            group.call("half \ud800")
        with pytest.raises(InvalidRequest, match="there is no group"):
            await domain.group("half \ud800")
        with pytest.raises(InvalidRequest):
            await domain.group("absent")
        with pytest.raises(InvalidRequest):
            group.deposit("x" * (9 << 20), 1)
        assert await typed.call(Ledger.deposit, "alice", 5) == 5
        assert ledger.calls == ["alice+5"]

    tell(story)


def test_what_comes_back_is_of_the_annotated_type_where_the_class_is_given() -> None:
    async def story(cluster: Cluster, domain: Any, ledger: Ledger) -> None:
        plain, typed = await domain.group("ledger"), await domain.group("ledger", Ledger)
        await plain.deposit("alice", 5)
        assert await plain.account("alice") == {"owner": "alice", "balance": 5, "history": [1, 2]}
        assert await typed.account("alice") == Account("alice", 5, (1, 2))
        assert await plain.owners() == ["alice"]
        assert await typed.owners() == {"alice"}

    tell(story)


def test_a_value_that_does_not_fit_raises_with_the_value_and_the_id_of_the_call_that_ran() -> None:
    """The caller is told that the call was executed, which call it was, and what it returned."""

    async def story(cluster: Cluster, domain: Any, ledger: Ledger) -> None:
        group = await domain.group("ledger", Ledger)
        assert await (await domain.group("ledger")).promised() == "not an int"
        with pytest.raises(hf.ResultDoesNotFit, match=r"promised was executed.* not int ") as told:
            await group.promised()
        assert told.value.value == "not an int"
        assert told.value.returns is int
        with pytest.raises(hf.ResultDoesNotFit, match="not an int") as told:
            await group.opened("alice", 5)
        assert ledger.calls == ["alice opened"]
        # The id is that of the call: the group knows it, and its outcome.
        assert await domain.outcome(told.value.request_id) == "not an int"
        assert await domain.outcome(told.value.request_id, str) == "not an int"
        with pytest.raises(hf.ResultDoesNotFit) as asked:
            await domain.outcome(str(told.value.request_id), int)
        assert asked.value.request_id == told.value.request_id
        assert asked.value.value == "not an int"
        assert ledger.calls == ["alice opened"]

    tell(story)


def test_a_value_whose_type_refuses_it_raises_and_disturbs_no_other_call() -> None:
    async def story(cluster: Cluster, domain: Any, ledger: Ledger) -> None:
        group = await domain.group("ledger", Ledger)
        calls = [group.picky("alice"), group.leaving("alice"), *(group.deposit("bob", 1) for _ in range(20))]
        picky, leaving, *others = await asyncio.gather(*calls, return_exceptions=True)
        assert isinstance(picky, hf.ResultDoesNotFit)
        assert picky.value == {"owner": "alice"}
        assert isinstance(picky.__cause__, LookupError)
        assert isinstance(leaving, hf.ResultDoesNotFit)
        assert isinstance(leaving.__cause__, SystemExit)
        assert others == [*range(1, 21)]

    tell(story)


def test_a_value_that_waited_for_room_is_made_into_its_type_too() -> None:
    """This also holds for calls and questions that could not be sent at once."""

    async def story(cluster: Cluster, domain: Any, ledger: Ledger) -> None:
        group = await domain.group("ledger", Ledger)
        ended = await asyncio.gather(*(group.promised() for _ in range(8)), return_exceptions=True)
        assert [type(each) for each in ended] == [hf.ResultDoesNotFit] * 8
        numbers = {each.request_id.number for each in ended}
        assert len(numbers) == 8

    tell(story, config=msgspec.structs.replace(QUICK, window_calls=2))


def test_a_reply_that_cannot_be_read_ends_its_call_and_no_other() -> None:
    async def story(cluster: Cluster, domain: Any, ledger: Ledger) -> None:
        group = await domain.group("ledger")
        cluster.state.spoilt.add("withdraw")
        unread = group.withdraw("alice", 1)
        assert await asyncio.gather(*(group.deposit("bob", 1) for _ in range(20))) == [*range(1, 21)]
        with pytest.raises(msgspec.DecodeError):
            await unread

    tell(story)


@pytest.mark.covers("FTC-87", "FTC-93", "FTC-97", "FTC-99")
def test_a_broken_connection_is_invisible_and_nothing_runs_twice() -> None:
    """Replies are lost with the connection; the same requests are resent to the next primary."""

    async def story(cluster: Cluster, domain: Any, ledger: Ledger) -> None:
        group, a, b = await domain.group("ledger"), cluster.hosts["a"], cluster.hosts["b"]
        await group.deposit("alice", 0)
        a.holds_replies = True
        calls = [group.deposit("alice", 1) for _ in range(300)]
        await until(lambda: len(ledger.calls) == 301)
        cluster.move_to("b")
        await a.stop()
        assert sorted(await asyncio.gather(*calls)) == [*range(1, 301)]
        assert len(ledger.calls) == 301
        assert len(set(cluster.state.executed)) == 301
        again = [frame for frame in b.frames if type(frame).__name__ == "Calls"]
        assert 3 <= len(again) <= 6  # 300 calls, together, and perhaps a redirection

    tell(story)


def test_a_call_that_lost_two_hosts_is_not_sent_to_a_third_at_once() -> None:
    """The call may have ended both hosts, and the third must hear of that before it runs the call (E4)."""
    rest_s = 0.4

    async def story(cluster: Cluster, domain: Any, ledger: Ledger) -> None:
        group, a, b = await domain.group("ledger"), cluster.hosts["a"], cluster.hosts["b"]
        now = asyncio.get_running_loop().time
        await group.deposit("alice", 0)
        a.holds_replies = b.holds_replies = True
        calling = group.deposit("alice", 1)
        await until(lambda: len(a.held) == 1)
        cluster.move_to("b")
        await a.stop()
        await until(lambda: len(b.held) == 1)
        cluster.move_to("c")
        lost_at = now()
        await b.stop()
        assert await calling == 1
        assert now() - lost_at >= 0.9 * rest_s

    tell(story, config=msgspec.structs.replace(QUICK, rest_deaths_ns=round(rest_s * SECOND)))


@pytest.mark.covers("FTC-74", "FTC-76", "FTC-78", "FTC-85")
def test_a_redirection_is_followed_and_older_references_are_not() -> None:
    async def story(cluster: Cluster, domain: Any, ledger: Ledger) -> None:
        group, a = await domain.group("ledger"), cluster.hosts["a"]
        await group.deposit("alice", 1)
        old = a.view
        assert old is not None
        cluster.move_to("c")
        assert await group.deposit("alice", 1) == 2
        assert [frame.version for frame in cluster.hosts["c"].frames if hasattr(frame, "version")] == [2]
        a.push(old)
        assert await group.deposit("alice", 1) == 3
        assert len(a.frames) == 3  # the question where the group is, and the first two frames

    tell(story)


@pytest.mark.covers("FTC-46", "FTC-47", "FTC-49")
def test_references_are_equivalent_if_they_are_of_one_group_of_one_domain() -> None:
    """This holds whatever version they know; their hashes are then equal, too."""

    async def story(cluster: Cluster, domain: Any, ledger: Ledger) -> None:
        async with hf.connect(cluster.url) as another:
            old, new = await domain.group("ledger"), await another.group("ledger", Ledger)
            cluster.move_to("c")
            assert await new.deposit("alice", 1) == 1
            versions = [each._caller.reference.version for each in (old, new)]
            assert versions == [1, 2]
            assert old == new == old.options(duration_s=5)
            assert len({old, new, old.options(ordered=True)}) == 1
            assert old not in ("ledger", cluster, ledger)
            caller, policy = old._caller, CallPolicy()
            assert Group(caller, policy, domain="test") == old != Group(caller, policy, domain="other")
            other = SimpleNamespace(reference=SimpleNamespace(group=GroupId(8), version=1, name="ledger"))
            assert Group(other, policy, domain="test") != old  # type: ignore[arg-type]  # all it looks at

    tell(story)


@pytest.mark.covers("FTC-71", "FTC-80")
def test_every_address_is_tried_while_nobody_serves() -> None:
    async def story(cluster: Cluster, domain: Any, ledger: Ledger) -> None:
        group = await domain.group("ledger")
        await until(lambda: all(len(host.server.connections) == 1 for host in cluster.hosts.values()))
        for host in cluster.hosts.values():
            host.turns_away = RefusalCode.UNAVAILABLE
            host.frames.clear()
        call = group.deposit("alice", 1)
        await until(lambda: all(len(host.frames) >= 2 for host in cluster.hosts.values()))
        for host in cluster.hosts.values():
            host.turns_away = None
        assert await call == 1

    tell(story)


@pytest.mark.covers("FTC-69", "FTC-108")
def test_what_nobody_executed_ends_as_unavailable_when_its_duration_is_over() -> None:
    async def story(cluster: Cluster, domain: Any, ledger: Ledger) -> None:
        group = (await domain.group("ledger")).options(duration_s=0.3)
        for host in cluster.hosts.values():
            host.turns_away = RefusalCode.NOT_PRIMARY
        began = asyncio.get_running_loop().time()
        with pytest.raises(Unavailable, match="not executed"):
            await group.deposit("alice", 1)
        assert asyncio.get_running_loop().time() - began > 0.25
        assert ledger.calls == []

    tell(story)


def test_a_group_that_stays_overloaded_says_so() -> None:
    async def story(cluster: Cluster, domain: Any, ledger: Ledger) -> None:
        group = (await domain.group("ledger")).options(duration_s=1.0)
        cluster.hosts["a"].turns_away = RefusalCode.OVERLOADED
        with pytest.raises(Overloaded, match="not executed; it was told: as told"):
            await group.deposit("alice", 1)
        assert cluster.hosts["b"].frames == cluster.hosts["c"].frames == []

    tell(story)


@pytest.mark.covers("FTC-68", "FTC-83")
def test_a_refusal_that_no_other_member_would_change_is_raised_at_once() -> None:
    async def story(cluster: Cluster, domain: Any, ledger: Ledger) -> None:
        group, a = await domain.group("ledger"), cluster.hosts["a"]
        for code, error in (
            (RefusalCode.BAD_REFERENCE, Rejected),
            (RefusalCode.INVALID, InvalidRequest),
            (RefusalCode.NO_SUCH_GROUP, NoSuchGroup),
        ):
            a.turns_away = code
            with pytest.raises(error, match="as told"):
                await group.deposit("alice", 1)
        a.turns_away = None
        assert await group.deposit("alice", 1) == 1

    tell(story)


@pytest.mark.covers("FTC-109")
def test_a_host_that_does_not_say_where_a_group_is_is_passed_over() -> None:
    async def story(cluster: Cluster, domain: Any, ledger: Ledger) -> None:
        await until(lambda: all(len(host.server.connections) == 1 for host in cluster.hosts.values()))
        cluster.hosts["a"].drops_frames = True
        cluster.move_to("b")
        assert await (await domain.group("ledger")).deposit("alice", 1) == 1
        for host in cluster.hosts.values():
            host.drops_frames = True
        with pytest.raises(Unavailable):
            await domain.group("other")

    tell(story, duration_s=1.5)


def test_a_frame_longer_than_the_host_takes_is_refused_and_nothing_else() -> None:
    async def story(cluster: Cluster, domain: Any, ledger: Ledger) -> None:
        group = await domain.group("ledger")
        with pytest.raises(InvalidRequest):
            await group.deposit("x" * 100_000, 1)
        assert await group.deposit("alice", 1) == 1

    tell(story, limits=Limits(frame_bytes_max=64 * 1024))


def test_an_unknown_outcome_can_be_asked_for_later() -> None:
    """Whether it was executed or not: once asked, the answer is final (X3)."""

    async def story(cluster: Cluster, domain: Any, ledger: Ledger) -> None:
        group = (await domain.group("ledger")).options(duration_s=0.3)
        a = cluster.hosts["a"]
        a.holds_replies = True
        for host in cluster.hosts.values():
            host.holds_replies = True
        with pytest.raises(CallOutcomeUnknown) as ran:
            await group.deposit("alice", 1)
        for host in cluster.hosts.values():
            host.holds_replies, host.drops_frames = False, True
        with pytest.raises(CallOutcomeUnknown) as lost:
            await group.deposit("alice", 10)
        for host in cluster.hosts.values():
            host.drops_frames = False
        assert await domain.outcome(ran.value.request_id) == 1
        assert await domain.outcome(str(ran.value.request_id)) == 1
        with pytest.raises(CallRefused) as never:
            await domain.outcome(lost.value.request_id)
        assert never.value.reason == "never_runs"
        assert ledger.balances == {"alice": 1}

    tell(story)


def test_another_process_can_ask_for_an_outcome_by_the_printed_id() -> None:
    async def story(cluster: Cluster, domain: Any, ledger: Ledger) -> None:
        group = (await domain.group("ledger")).options(duration_s=0.3)
        for host in cluster.hosts.values():
            host.holds_replies = True
        with pytest.raises(CallOutcomeUnknown) as unknown:
            await group.deposit("alice", 3)
        for host in cluster.hosts.values():
            host.holds_replies = False
        async with hf.connect(cluster.url, config=QUICK) as other:
            assert await other.outcome(str(unknown.value.request_id)) == 3

    tell(story)


@pytest.mark.covers("FTC-94", "FTC-102", "FTC-106", "FTC-107")
def test_expirations_are_in_the_groups_time_and_the_same_in_every_copy() -> None:
    async def story(cluster: Cluster, domain: Any, ledger: Ledger) -> None:
        group, a = await domain.group("ledger"), cluster.hosts["a"]
        await group.deposit("alice", 1)
        a.drops_frames = True
        call = group.options(duration_s=20).deposit("alice", 1)
        await until(lambda: len([each for each in a.frames if hasattr(each, "sent")]) == 2)
        a.drops_frames = False
        assert await call == 2
        copies = [
            bytes(each.sent)
            for host in cluster.hosts.values()
            for each in host.frames
            if hasattr(each, "sent")
        ]
        found = [decode_calls(decode(each, type=Sent).calls)[0] for each in copies]
        again = [each for each in found if each.number == 2]
        assert len(again) >= 2
        assert len({each.expiration_s for each in again}) == 1
        left_s = again[0].expiration_s - cluster.state.time_ns // SECOND
        assert 20 + 60 <= left_s <= 20 + 60 + 2

    tell(story)


@pytest.mark.covers("FTC-116", "FTC-118", "FTC-119")
def test_a_host_that_answers_no_heartbeat_is_left() -> None:
    async def story(cluster: Cluster, domain: Any, ledger: Ledger) -> None:
        group, a = await domain.group("ledger"), cluster.hosts["a"]
        await group.deposit("alice", 1)
        a.answers_pings, a.drops_frames = False, True
        cluster.move_to("b", told=("b", "c"))
        assert await group.deposit("alice", 1) == 2

    tell(
        story,
        config=ClientConfig(
            heartbeat_interval_ns=50 * MILLISECOND,
            heartbeat_timeout_ns=200 * MILLISECOND,
            patience_ns=60 * SECOND,
            patience_most_ns=60 * SECOND,
        ),
    )


def test_a_newer_reference_that_is_pushed_frees_what_the_old_primary_holds() -> None:
    async def story(cluster: Cluster, domain: Any, ledger: Ledger) -> None:
        group, a, b = await domain.group("ledger"), cluster.hosts["a"], cluster.hosts["b"]
        await until(lambda: len(b.server.connections) == 1)
        a.holds_replies = True
        call = group.deposit("alice", 1)
        await until(lambda: ledger.calls == ["alice+1"])
        b.push(cluster.move_to("b", told=("b",)))
        assert await call == 1
        assert ledger.calls == ["alice+1"]

    tell(story, config=ClientConfig(patience_ns=60 * SECOND, patience_most_ns=60 * SECOND))


def test_without_reinvocation_a_lost_call_is_unknown_at_once() -> None:
    async def story(cluster: Cluster, domain: Any, ledger: Ledger) -> None:
        group, a = await domain.group("ledger"), cluster.hosts["a"]
        a.holds_replies = True
        call = group.options(reinvoke=False).deposit("alice", 1)
        await until(lambda: ledger.calls == ["alice+1"])
        a.break_connections()
        with pytest.raises(CallOutcomeUnknown):
            await call

    tell(story)


def test_too_many_calls_wait_or_are_refused() -> None:
    async def story(cluster: Cluster, domain: Any, ledger: Ledger) -> None:
        group, a = await domain.group("ledger"), cluster.hosts["a"]
        a.holds_replies = True
        calls = [group.deposit("alice", 1) for _ in range(25)]
        await until(lambda: len(ledger.calls) == 10)
        with pytest.raises(Overloaded):
            await group.options(wait=False).deposit("alice", 100)
        a.release()
        assert sorted(await asyncio.gather(*calls)) == [*range(1, 26)]

    tell(story, config=ClientConfig(window_calls=10))


def test_calls_that_wait_for_room_keep_their_order_and_their_deadline() -> None:
    async def story(cluster: Cluster, domain: Any, ledger: Ledger) -> None:
        group, a = await domain.group("ledger"), cluster.hosts["a"]
        ordered = group.options(ordered=True)
        calls = [ordered.deposit("alice", n) for n in range(200)]
        await asyncio.gather(*calls)
        assert ledger.calls == [f"alice+{n}" for n in range(200)]
        a.holds_replies = True
        held = [group.deposit("bob", 1) for _ in range(10)]
        with pytest.raises(Overloaded, match="not executed"):
            await group.options(duration_s=0.1).deposit("carol", 1)
        a.release()
        await asyncio.gather(*held)
        assert await group.balance("carol") == 0

    tell(story, config=ClientConfig(window_calls=10))


def test_ordered_calls_run_in_order_across_a_failover() -> None:
    async def story(cluster: Cluster, domain: Any, ledger: Ledger) -> None:
        group = (await domain.group("ledger")).options(ordered=True)
        calls = []
        for n in range(400):
            calls.append(group.deposit("alice", n))
            if n == 150:
                await asyncio.sleep(0.01)
                cluster.move_to("b")
            if n == 300:
                await asyncio.sleep(0.01)
                cluster.hosts["b"].break_connections()
        await asyncio.gather(*calls)
        assert ledger.calls == [f"alice+{n}" for n in range(400)]

    tell(story)


def test_stale_reads_go_to_any_member() -> None:
    async def story(cluster: Cluster, domain: Any, ledger: Ledger) -> None:
        group = await domain.group("ledger", Ledger)
        await group.call(Ledger.deposit, "alice", 4)
        await until(lambda: all(len(host.server.connections) == 1 for host in cluster.hosts.values()))
        stale = group.options(consistency="stale", stale_s=2)
        assert await asyncio.gather(*(stale.call(Ledger.balance, "alice") for _ in range(60))) == [4] * 60
        readers = [
            name for name, host in cluster.hosts.items() if any(hasattr(f, "stale_ms") for f in host.frames)
        ]
        assert readers == ["a", "b", "c"]
        assert {
            each.stale_ms
            for host in cluster.hosts.values()
            for each in host.frames
            if hasattr(each, "stale_ms")
        } == {2000}

    tell(story)


def test_a_host_that_was_started_anew_takes_the_place_of_its_earlier_self() -> None:
    """What was on the connection to the earlier process is resent to the new one."""

    async def story(cluster: Cluster, domain: Any, ledger: Ledger) -> None:
        group, a = await domain.group("ledger"), cluster.hosts["a"]
        at = a.address
        a.holds_replies = True
        call = group.deposit("alice", 1)
        await until(lambda: ledger.calls == ["alice+1"])
        await a.stop()
        a.holds_replies = False
        await a.start(incarnation=2, address=at)
        assert await call == 1
        assert ledger.calls == ["alice+1"]

    tell(story)


def test_hosts_that_moved_are_found_after_the_last_one_that_stayed_has_gone() -> None:
    """The hosts that stay say where the others went; older information does not replace newer."""

    async def story(cluster: Cluster, domain: Any, ledger: Ledger) -> None:
        group, a, b = await domain.group("ledger"), cluster.hosts["a"], cluster.hosts["b"]
        before = HostAt(b.name, Incarnation(1), str(b.address))
        for name in ("b", "c"):
            await cluster.hosts[name].stop()
        await b.start(incarnation=2)
        a.tell_where((HostAt(b.name, Incarnation(2), str(b.address)),))
        a.tell_where((before,))
        assert await group.deposit("alice", 1) == 1
        await a.stop()
        cluster.move_to("b")
        assert await group.deposit("alice", 1) == 2

    tell(story)


def test_closing_ends_what_is_in_flight() -> None:
    async def story(cluster: Cluster, domain: Any, ledger: Ledger) -> None:
        group = await domain.group("ledger")
        cluster.hosts["a"].holds_replies = True
        call = group.deposit("alice", 1)
        await until(lambda: ledger.calls == ["alice+1"])
        await domain.close()
        with pytest.raises(CallOutcomeUnknown):
            await call
        with pytest.raises(Unavailable):
            await group.deposit("alice", 1)

    tell(story)


def test_a_connection_that_comes_about_while_the_client_hangs_up_is_no_failure() -> None:
    """Hosts are connected one by one; the last may connect when the first are gone."""

    async def story(cluster: Cluster, domain: Any, ledger: Ledger) -> None:
        name, addresses, _ = parse_url(cluster.url)
        told = Told()
        reach = HostReach(
            ConnectionSettings(PeerIdentity(name, Role.CLIENT, "c"), credentials=SECRET),
            addresses,
            told,
            QUICK,
            insecure=False,
        )
        await reach.open(within_s=10)
        await reach.close()
        told.up.clear()
        reach.on_up(HostId("b"))
        assert told.up == []
        with pytest.raises(Unavailable, match="closed"):
            await reach.give(ListGroups(), GroupList)

    tell(story)


class Told:
    """The called groups, of which there are none."""

    def __init__(self) -> None:
        self.up: list[HostId] = []

    def references(self) -> tuple[Reference, ...]:
        return ()

    def on_up(self, host: HostId) -> None:
        self.up.append(host)

    def on_down(self, host: HostId) -> None:
        return None

    def on_message(self, host: HostId, message: ToClient) -> None:
        return None


KEY = SECRET.client_key("c").text


def test_who_has_nothing_to_prove_itself_with_is_told_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The domain's directory, the environment or a key will do; a secret of another domain will not."""
    url = "holdfast://127.0.0.1:1/test"
    monkeypatch.delenv("HOLDFAST_DIR", raising=False)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InvalidRequest, match=r"nothing proves to domain 'test' who this is: .*holdfast key"):
        hf.connect(url)
    with pytest.raises(InvalidRequest, match="must be NAME:KEY"):
        hf.connect(url, key="nonsense")
    with pytest.raises(InvalidRequest, match="the key is of client 'c'; it does not admit client other"):
        hf.connect(url, key=KEY, name="other")
    with pytest.raises(InvalidRequest, match="holds no secret"):
        hf.connect(url, dir=tmp_path)
    ensure_secret(tmp_path, "test")
    hf.connect(url, dir=tmp_path)
    monkeypatch.setenv("HOLDFAST_DIR", str(tmp_path))
    hf.connect(url)
    hf.connect(f"holdfast://{KEY}@127.0.0.1:1/test")
    with pytest.raises(InvalidRequest, match="is the secret of domain 'test', not of 'another'"):
        hf.connect("holdfast://127.0.0.1:1/another")
    (tmp_path / "secret").chmod(0o640)
    with pytest.raises(InvalidRequest, match="is open to others"):
        hf.connect(url)


def test_an_address_where_nobody_listens_is_unavailable() -> None:
    async def run() -> None:
        policy = CallPolicy(duration_ns=200 * MILLISECOND)
        with pytest.raises(Unavailable, match="could be reached"):
            async with hf.connect("holdfast://127.0.0.1:1/test", key=KEY, policy=policy):
                pass

    uvloop.run(run())


@pytest.mark.parametrize(
    "url", ["127.0.0.1:1/test", "holdfast://127.0.0.1:1", "holdfast://x/test", "holdfast:///test"]
)
def test_urls_that_mean_nothing_are_refused(url: str) -> None:
    with pytest.raises(InvalidRequest):
        hf.connect(url)


@pytest.mark.parametrize(
    "options",
    [
        {"duration_s": math.nan},
        {"duration_s": math.inf},
        {"duration_s": -1.0},
        {"outcome_s": math.inf},
        {"stale_s": math.nan},
        {"consistency": "strong"},
    ],
)
def test_options_that_mean_nothing_are_refused(options: dict[str, Any]) -> None:
    async def story(cluster: Cluster, domain: Any, ledger: Ledger) -> None:
        group = await domain.group("ledger")
        with pytest.raises(InvalidRequest):
            group.options(**options)

    tell(story)


def test_a_domain_of_another_name_is_named_in_the_error() -> None:
    """The address is right, so the error must say what is not."""

    async def story(cluster: Cluster, domain: Any, ledger: Ledger) -> None:
        policy = CallPolicy(duration_ns=500 * MILLISECOND)
        with pytest.raises(Unavailable, match="peer is of domain 'other'"):
            async with hf.connect(cluster.url.rpartition("/")[0] + "/other", policy=policy):
                pass

    tell(story)


def test_the_sync_face_calls_from_ordinary_functions() -> None:
    async def run() -> None:
        ledger = Ledger()
        async with Cluster(ledger) as cluster:
            assert await asyncio.to_thread(work, cluster.url) == 7
        assert ledger.calls == ["alice+5", "alice+2"]

    def work(url: str) -> int:
        with hf.connect_sync(url, config=QUICK) as domain:
            ledger = domain.group("ledger", Ledger)
            ledger.deposit("alice", 5)
            assert ledger.deposit("alice", amount=2) == 7
            with pytest.raises(MethodRaised):
                ledger.withdraw("bob", 1)
            return ledger.balance("alice")

    uvloop.run(run())


def test_nothing_is_written_to_the_users_output(capfd: pytest.CaptureFixture[str]) -> None:
    """A program that has not configured logging gets no log from us, whatever happens to its connections."""

    async def story(cluster: Cluster, domain: Any, ledger: Ledger) -> None:
        group = await domain.group("ledger")
        await group.deposit("alice", 5)
        cluster.hosts["a"].break_connections()
        assert await group.deposit("alice", 1) == 6

    tell(story)
    said = capfd.readouterr()
    assert (said.out, said.err) == ("", "")


@pytest.mark.covers("FTC-91")
def test_every_client_has_an_id_of_its_own() -> None:
    clients = [new_client() for _ in range(1000)]
    assert len(set(clients)) == len(clients)


@pytest.mark.covers("FTC-91", "FTC-93")
def test_a_domain_that_is_entered_again_is_not_answered_with_earlier_replies() -> None:
    """The domain's request numbers start again, so it gets a new id; earlier requests can be asked about."""

    async def story(cluster: Cluster, domain: Any, ledger: Ledger) -> None:
        again = hf.connect(cluster.url, config=QUICK)
        async with again:
            group = await again.group("ledger")
            assert await group.deposit("alice", 5) == 5
        ((client, number),) = cluster.state.executed
        async with again:
            group = await again.group("ledger")
            assert await group.deposit("bob", 1) == 1
            earlier = RequestId(GROUP, client, number, BEGAN_S + 60)
            assert await again.outcome(earlier) == 5
        assert ledger.calls == ["alice+5", "bob+1"]

    tell(story)


@pytest.mark.covers("FTC-91", "FTC-93")
def test_a_group_that_was_said_to_be_gone_and_is_found_again_runs_what_is_new() -> None:
    """A host may be mistaken when it says that there is no such group."""

    async def story(cluster: Cluster, domain: Any, ledger: Ledger) -> None:
        group, a = await domain.group("ledger"), cluster.hosts["a"]
        assert await group.deposit("alice", 5) == 5
        a.turns_away = RefusalCode.NO_SUCH_GROUP
        with pytest.raises(NoSuchGroup):
            await group.deposit("alice", 1)
        a.turns_away = None
        found = await domain.group("ledger")
        assert await found.deposit("bob", 1) == 1
        assert ledger.calls == ["alice+5", "bob+1"]

    tell(story)


def test_a_group_that_is_made_is_the_one_that_was_made_not_an_earlier_one_of_its_name() -> None:
    """Somebody else deleted the one that this client knows."""

    async def story(cluster: Cluster, domain: Any, ledger: Ledger) -> None:
        old = await domain.group("ledger")
        made = msgspec.structs.replace(cluster.move_to("a"), group=GroupId(8))
        for host in cluster.hosts.values():
            host.view = made

        async def give(wanted: CreateGroup, kind: type[GroupList]) -> GroupList:
            return GroupList(groups=(info_of(wanted, made),))

        domain._give = give  # these hosts take no orders
        new = await domain.create(Ledger, name="ledger")
        assert new != old
        assert new._caller.reference.group == GroupId(8)
        assert await domain.group("ledger") == new

    tell(story)


def info_of(wanted: CreateGroup, made: Reference) -> GroupInfo:
    return GroupInfo(
        name=wanted.name,
        group=made.group,
        class_name=wanted.class_name,
        style="warm_passive",
        epoch=made.version,
        primary=made.primary,
        in_sync=(made.primary,),
        placed_on=(made.primary,),
        min_in_sync=1,
    )


@pytest.fixture
def own_collector() -> Iterator[None]:
    thresholds = gc.get_threshold()
    gc.set_threshold(700, 10, 10)  # Python's; an earlier test may have set others
    yield
    gc.unfreeze()
    gc.set_threshold(*thresholds)


@pytest.mark.parametrize(("collector", "is_searched"), [("as_is", True), ("tuned", False)])
def test_a_client_may_spare_its_heap_from_the_collector(
    collector: Any, is_searched: bool, own_collector: None
) -> None:
    """Looks at all that a program holds are its longest pauses; they happen as calls make containers."""
    looks: list[int] = []

    def look(phase: str, info: dict[str, int]) -> None:
        if phase == "start":
            looks.append(info["generation"])

    async def story(cluster: Cluster, domain: Any, ledger: Ledger) -> None:
        # Python looks at all only when a quarter is new, so what other tests have left must not count.
        gc.freeze()
        gc.collect()
        heap = [[] for _ in range(10)]  # type: list[list[object]]
        async with hf.connect(cluster.url, collector=collector) as another:
            held = {id(each) for each in gc.get_objects()}
            assert (id(heap[0]) in held) is is_searched
            assert await (await another.group("ledger")).deposit("alice", 5) == 5
            gc.callbacks.append(look)
            try:
                heap += [[] for _ in range(400_000)]
            finally:
                gc.callbacks.remove(look)
            assert (2 in looks) is is_searched

    tell(story)


def test_a_collector_of_another_kind_is_refused() -> None:
    with pytest.raises(InvalidRequest, match="tuned"):
        hf.connect("holdfast://127.0.0.1:1/test", collector="tuned please")  # type: ignore[arg-type]
