"""Faults of a real domain: reported once, condensed, filtered, and received without a gap across failover."""

import asyncio
import subprocess
import threading
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from typing import Any

import httpx
import msgspec
import pytest
from domain import HOLDFAST, WAIT_S, Domain, is_whole
from group_client import EXAMPLES, Client, run

import holdfast as hf
from holdfast.agent.status_client import url_of
from holdfast.cli.admin import give_at
from holdfast.client.admin_client import AdminRefused
from holdfast.faults.consumers import Disconnected
from holdfast.faults.events import EventType, Location, StructuredEvent
from holdfast.faults.filters import ConstraintExp, ConstraintInfo, InvalidConstraint, InvalidGrammar
from holdfast.faults.reports import FaultKind, FaultReport
from holdfast.faults.told_events import Told
from holdfast.model.admin.hosts import HostList, ListHosts
from holdfast.model.ids import GroupId, HostId
from holdfast.model.system_groups import NOTIFIER
from holdfast.node.layout import Layout

LONG_S = 1800.0
"""What the long form of a test may take on a slow machine."""

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(LONG_S)]

AT_ONCE = 50
"""Groups created together."""
CRASH = EventType("FT_CORBA", "ObjectCrashFault")
RECOVERED = "$type_name == 'Recovered'"


@pytest.fixture(scope="module")
def domain(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Domain]:
    with Domain(tmp_path_factory.mktemp("faults") / "d", "--app", str(EXAMPLES)) as made:
        made.wait("every host hears every other", is_whole)
        yield made


def holdfast(domain: Domain, *words: str) -> Any:
    """Return what a command prints, decoded."""
    command = [*HOLDFAST, *words, "--dir", str(domain.directory), "--output", "json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=WAIT_S, check=False)
    assert done.returncode == 0, f"{words}: {done.stdout} {done.stderr}"
    return msgspec.json.decode(done.stdout)


class Consumer:
    """Keeps what is pushed to it."""

    def __init__(self) -> None:
        self.heard: list[Told] = []

    async def push_structured_event(self, told: Told) -> None:
        self.heard.append(told)


class BatchConsumer:
    def __init__(self) -> None:
        self.heard: list[Told] = []

    def push_structured_events(self, told: list[Told]) -> None:
        self.heard += told


async def until(what: str, holds: Callable[[], Awaitable[bool]] | Callable[[], bool]) -> None:
    async with asyncio.timeout(WAIT_S):
        while True:
            found = holds()
            if found if isinstance(found, bool) else await found:
                return
            await asyncio.sleep(0.1)
    raise AssertionError(what)


def name(told: Told) -> str:
    return told.event.header.fixed_header.event_type.type_name


def crash(location: str, type_id: str | None = None, group: int | None = None) -> StructuredEvent:
    number = None if group is None else GroupId(group)
    return FaultReport(
        FaultKind.OBJECT_CRASH, "myFTdomain", Location.parse(location), type_id, number
    ).to_event()


@pytest.mark.covers("FTC-239", "FTC-245", "FTC-258", "FTC-263")
def test_a_hosts_death_is_one_report_and_its_members_can_be_listed(
    domain: Domain, rounds: Callable[..., int]
) -> None:
    """A consumer of everything receives once that host2 crashed, and not a report for each of its members;
    these are listed as parts. The command line shows the same, for one host alone."""
    count = rounds(short=4, long=1_000)

    async def work(client: Client) -> list[GroupId]:
        faults, everything = client.connection.faults, Consumer()
        await faults.connect_structured_fault_consumer(everything)
        for start in range(0, count, AT_ONCE):
            names = [f"ledger{number}" for number in range(start, min(count, start + AT_ONCE))]
            await asyncio.gather(*map(client.create, names))

        async def are_whole() -> bool:
            return all(len(each.in_sync) == 3 for each in await client.connection.groups())

        await until("every group has its members", are_whole)
        groups = sorted(each.group for each in await client.connection.groups())
        assert NOTIFIER not in [each.name for each in await client.connection.groups()]
        await client.kill(HostId("host2"))
        await until("host2 is back", lambda: "Recovered" in map(name, everything.heard))
        at_host2 = [each for each in everything.heard if name(each) in ("HostCrash", "ObjectCrashFault")]
        assert [name(each) for each in at_host2] == ["HostCrash"]
        assert at_host2[0].event.value("HostId") == "host2"
        assert at_host2[0].event.value("IsProven") is True

        async def are_listed() -> bool:
            parts = await faults.list("$ObjectGroupId > 0 and $type_name == 'ObjectCrashFault'", parts=True)
            return sorted(each.event.value("ObjectGroupId") for each in parts) == groups

        await until("every member is listed", are_listed)
        back = await faults.list("$type_name == 'Recovered'")
        assert [each.event.value("From") for each in back] == ["HostCrash"]
        return groups

    groups = run(domain, work)
    here = holdfast(domain, "faults", "list", "--where", "$Location[0].id == 'host2'")["faults"]
    crashes = [each for each in here if each["type_name"] in ("HostCrash", "ObjectCrashFault")]
    assert [each["data"]["Location"] for each in crashes] == ["host2"]
    assert holdfast(domain, "faults", "list", "--where", "$Location[0].id == 'host7'")["faults"] == []
    whole = holdfast(domain, "faults", "list", "--members", "--where", "$type_name == 'ObjectCrashFault'")
    assert sorted(each["data"].get("ObjectGroupId", 0) for each in whole["faults"]) == [0, *groups]
    assert all(each["part_of"] for each in whole["faults"])


def test_the_notifier_is_the_domains_own(domain: Domain) -> None:
    """It exists, is listed only on request, and nobody can delete it or take its name by mistake."""

    async def work(client: Client) -> None:
        connection = client.connection
        await connection.faults.push(crash("elsewhere"))
        assert NOTIFIER not in [each.name for each in await connection.groups()]
        assert NOTIFIER in [each.name for each in await connection.groups(is_whole=True)]
        with pytest.raises(AdminRefused, match="the domain's own"):
            await connection.delete(NOTIFIER)
        with pytest.raises(AdminRefused, match="the domain's own"):
            await connection.create("ledger:Ledger", name="holdfast.mine")

    run(domain, work)


def _coordinated(domain: Domain) -> Awaitable[HostList]:
    return give_at(Layout(domain.directory), ListHosts(), HostList)


def test_a_consumer_that_was_away_hears_everything_once(domain: Domain) -> None:
    """It disconnects, the coordinator and the notifier's primary die, and events happen. Resumed from a new
    process that has only its id, it receives each event once, in the order of the numbers."""
    consumer = Consumer()

    async def before(client: Client) -> tuple[int, int]:
        faults = client.connection.faults
        id = await faults.connect_structured_fault_consumer(consumer)
        number = await faults.push(crash("first"))
        await until("the first is heard", lambda: bool(consumer.heard))

        async def is_acknowledged() -> bool:
            return any(each.id == id and each.reached >= number for each in await faults.consumers())

        await until("it is acknowledged", is_acknowledged)
        return id, consumer.heard[-1].number

    async def away(client: Client) -> None:
        faults, manager = client.connection.faults, (await _coordinated(domain)).manager
        primaries = {each.name: each.primary for each in await client.connection.groups(is_whole=True)}
        for host in dict.fromkeys((manager, primaries[NOTIFIER])):
            await client.kill(host)
        await faults.push(crash("second"), once="second")

        async def has_moved() -> bool:
            return (await _coordinated(domain)).manager not in ("", manager)

        await until("another host coordinates", has_moved)
        await faults.push(crash("third"), once="third")
        await asyncio.to_thread(domain.wait, "every host hears every other", is_whole)

    async def after(client: Client, id: int, last: int) -> None:
        faults, resumed = client.connection.faults, Consumer()
        await faults.resume(id, resumed)
        end = await faults.push(crash("last"))
        await until("the last is heard", lambda: bool(resumed.heard) and resumed.heard[-1].number >= end)
        missed = await faults.list(after=last)
        assert [each for each in resumed.heard if each.number <= end] == [
            each for each in missed if each.number <= end
        ]
        assert {"second", "third", "last"} <= {str(each.event.value("Location")) for each in missed}
        await faults.disconnect_consumer(id)
        with pytest.raises(Disconnected):
            await faults.resume(id, resumed)

    id, last = run(domain, before)
    run(domain, away)
    run(domain, lambda client: after(client, id, last))


@pytest.mark.covers("FTC-262", "FTC-264", "FTC-265", "FTC-270", "FTC-280", "FTC-281", "FTC-283")
def test_the_use_cases_of_the_source(domain: Domain) -> None:
    """As in the source: a filter is created, given constraints and connected, events are pushed and delivered
    by its examples, the constraints are modified, and in the end the consumer is disconnected."""
    host = "$event_type.domain_name == 'FT_CORBA' and $event_type.type_name == 'ObjectCrashFault' and \
$FTDomainId == 'myFTdomain' and $Location[0].id == 'myhost'"
    member = f"{host} and (not (exist $Location[1]) or $Location[1].id == 'myprocess') and \
(not (exist $TypeId) or $TypeId == 'IDL:MyObject:1.0') and \
(not (exist $ObjectGroupId) or $ObjectGroupId == '9876543210')"
    mine = crash("myhost/myprocess", "IDL:MyObject:1.0", 9876543210)
    other = crash("myhost/myprocess", "IDL:MyObject:1.0", 5)
    elsewhere = crash("yourhost")

    async def work(client: Client) -> None:
        faults, one, batch = client.connection.faults, Consumer(), BatchConsumer()
        with pytest.raises(InvalidGrammar):
            await faults.create_subscription_filter("SQL")
        by_host = await faults.create_subscription_filter("EXTENDED_TCL")
        await by_host.add_constraints([ConstraintExp((CRASH,), host)])
        by_member = await faults.create_subscription_filter("EXTENDED_TCL")
        with pytest.raises(InvalidConstraint):
            await by_member.add_constraints([ConstraintExp((CRASH,), "$a = 1")])
        (added,) = await by_member.add_constraints([ConstraintExp((CRASH,), member)])
        structured = await faults.connect_structured_fault_consumer(one, by_member)
        sequence = await faults.connect_sequence_fault_consumer(batch, by_host)
        await faults.push_structured_fault(elsewhere)
        await faults.push_sequence_fault([other, mine])
        await until("the batch is heard", lambda: len(batch.heard) == 2)
        await until("the member's is heard", lambda: len(one.heard) == 1)
        assert [each.event for each in batch.heard] == [other, mine]
        assert [each.event for each in one.heard] == [mine]
        nothing = ConstraintInfo(ConstraintExp((CRASH,), "$Location[0].id == 'nowhere'"), added.constraint_id)
        await by_member.modify_constraints([], [nothing])
        await faults.push_structured_fault(mine)
        await until("the batch is heard", lambda: len(batch.heard) == 3)
        await faults.disconnect_consumer(structured)
        await faults.disconnect_consumer(sequence)
        with pytest.raises(Disconnected):
            await faults.disconnect_consumer(sequence)
        assert len(one.heard) == 1

    run(domain, work)


def test_a_program_without_an_event_loop_watches(domain: Domain) -> None:
    layout = Layout(domain.directory)
    with hf.connect_sync(asyncio.run(url_of(layout, layout.read())), dir=layout.directory) as connection:
        number = connection.faults.push(crash("plain"))
        news = connection.faults.watch("$Location[0].id == 'plain'", after=number - 1)
        heard = next(news)
        news.close()
        assert isinstance(heard, Told)
        assert heard.number == number
        assert connection.faults.list(after=number - 1)[0] == heard


def test_a_person_watches_one_host(domain: Domain) -> None:
    """`holdfast faults watch` shows what passes its filter, from the given number, as it arrives: host3
    crashes, and then host2, and it shows only host2."""

    async def begin(client: Client) -> int:
        return await client.connection.faults.push(crash("elsewhere"))

    async def crash_both(client: Client) -> None:
        for host in ("host3", "host2"):
            await client.kill(HostId(host))
            await until(f"{host} is back", partial(is_back, client, host, before))

    async def is_back(client: Client, host: str, after: int) -> bool:
        return bool(await client.connection.faults.list(f"{RECOVERED} and $HostId == '{host}'", after=after))

    domain.wait("every host hears every other", is_whole)
    before = run(domain, begin)
    command = [*HOLDFAST, "faults", "watch", "--dir", str(domain.directory), "--output", "json"]
    options = ["--from", str(before), "--where", "$Location[0].id == 'host2'"]
    with subprocess.Popen([*command, *options], stdout=subprocess.PIPE, text=True) as watching:
        assert watching.stdout is not None
        too_long = threading.Timer(2 * WAIT_S, watching.kill)
        too_long.start()
        try:
            run(domain, crash_both)
            told = [msgspec.json.decode(watching.stdout.readline()) for _ in range(2)]
        finally:
            too_long.cancel()
            watching.kill()
    assert [(each["type_name"], each["data"]["Location"]) for each in told] == [
        ("HostCrash", "host2"),
        ("Recovered", "host2"),
    ]


def _stream(url: str, headers: dict[str, str], count: int) -> list[Any]:
    """Return the first events of the stream: id and data."""
    found: list[Any] = []
    fields: dict[str, str] = {}
    with httpx.stream("GET", url, headers=headers, timeout=WAIT_S, trust_env=False) as stream:
        for line in stream.iter_lines():
            name, colon, value = line.partition(": ")
            if name and colon:
                fields[name] = value
            elif not line and fields:
                found.append((int(fields["id"]), msgspec.json.decode(fields["data"])))
                fields = {}
            if len(found) == count:
                break
    return found


def test_faults_over_http(domain: Domain) -> None:
    """They are pushed, listed by filter, and followed at any host from the last one received; metrics count
    the reports."""
    hosts = domain.wait("every host hears every other", is_whole)["hosts"]
    one, other = (each["report"]["details"]["http"] for each in hosts[:2])
    new = {"kind": "Hang", "location": "rack9/box", "details": {"WaitedNs": 5}, "once": "box hangs"}
    told = [httpx.post(one + "/v1/faults", json=new, timeout=WAIT_S, trust_env=False) for _ in range(2)]
    assert [each.status_code for each in told] == [201, 201]
    number = told[0].json()["number"]
    assert told[1].json()["number"] == number
    where = {"where": "$Location[0].id == 'rack9'", "after": str(number - 1)}
    page = httpx.get(other + "/v1/faults", params=where, timeout=WAIT_S, trust_env=False).json()
    assert [(each["number"], each["data"]["WaitedNs"]) for each in page["faults"]] == [(number, 5)]
    bad = httpx.get(one + "/v1/faults", params={"where": "$a = 1"}, timeout=WAIT_S, trust_env=False)
    assert (bad.status_code, bad.json()["error"]["code"]) == (400, "invalid_constraint")
    again = httpx.post(one + "/v1/faults", json={**new, "once": ""}, timeout=WAIT_S, trust_env=False).json()
    heard = _stream(other + "/v1/faults/stream", {"last-event-id": str(number)}, 1)
    assert [(id, each["type_name"]) for id, each in heard] == [(again["number"], "Hang")]
    metrics = httpx.get(one + "/metrics", timeout=WAIT_S, trust_env=False).text
    assert 'holdfast_fault_reports_total{kind="HostCrash"}' in metrics
