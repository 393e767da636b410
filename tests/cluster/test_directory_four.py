"""Four masters in real processes, as in the source's figure: what goes between them, and what people see."""

import gc
import shutil
import ssl
import subprocess
import sys
import threading
import warnings
from collections.abc import Callable, Iterator, Set
from http import HTTPStatus
from pathlib import Path
from typing import Any

import httpx
import pytest
from directory_masters import (
    GONE,
    SUCCESS,
    SUFFIX,
    WAIT_S,
    Masters,
    Onlooker,
    Writer,
    changelog,
    running,
    wait_until,
)

sys.path.insert(0, str(Path(__file__).parents[1] / "interop"))
from ldap_door import Certificates

from holdfast.clock.vector import Vector

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    import ldap3

ACKNOWLEDGE = "2.25.201733915087124226513986227104352196921.100"
OTHER, INVALID_CREDENTIALS = 80, 49
PAUSE_S = 0.03

pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]


@pytest.fixture(autouse=True)
def leaked_sockets() -> Iterator[None]:
    """What ldap3 leaves open is collected here, and not within a test of someone else."""
    yield
    gc.collect()


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return Certificates.make(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def four(tmp_path_factory: pytest.TempPathFactory, certificates: Certificates) -> Iterator[Masters]:
    settings = f"""
[directory]
statement = "500 ms"
tick = "200 ms"
purge = "1 s"

[ldap]
certificate = "{certificates.server}"
key = "{certificates.server_key}"
ca = "{certificates.ca}"
"""
    directory = tmp_path_factory.mktemp("four") / "d"
    with running(directory, "--masters", "4", "--suffix", SUFFIX, settings=settings) as masters:
        yield masters


def person(uid: str) -> str:
    return f"uid={uid},{SUFFIX}"


def modify(connection: ldap3.Connection, dn: str, changes: dict[str, Any], **options: Any) -> int:
    connection.modify(dn, changes, **options)
    return int(connection.result["result"])


def shown(masters: Masters, id: str, dn: str) -> dict[str, list[str]]:
    """An entry's values at one master, in order."""
    with masters.connect(id) as connection:
        connection.search(dn, "(objectClass=*)", ldap3.BASE, attributes=["*"])
        found = connection.response[0]["attributes"]
    return {name: sorted(map(str, values)) for name, values in sorted(found.items())}


def is_alike(masters: Masters, dn: str) -> bool:
    try:
        found = [shown(masters, each, dn) for each in masters.ids]
    except (*GONE, IndexError, KeyError):
        return False
    return all(each == found[0] for each in found)


def vectors(masters: Masters) -> dict[str, set[int]]:
    """The replicas in the vector of each master."""
    found = masters.status()
    return {
        each: {int(csn.replica) for csn in Vector.parse(found[each]["replica"]["vector"])}
        for each in masters.ids
    }


@pytest.mark.covers("CSN-76")
def test_eight_clients_of_four_masters_change_one_entry(four: Masters, rounds: Callable[..., int]) -> None:
    """Two clients of each master change the same entry at once: adding values, and setting one that can be
    there once. All masters end with the same entry, which has every added value, and one of those that were
    fought over."""
    dn = person("shared")
    with four.connect(four.ids[0]) as connection:
        assert four.add(connection, "shared") == SUCCESS
    four.until_equal({"shared"})
    codes: list[int] = []

    def work(master: str, client: int) -> None:
        with four.connect(master) as connection:
            for number in range(rounds(short=3, long=50)):
                text = f"{master}-{client}-{number}"
                add = {"description": [(ldap3.MODIFY_ADD, [text])]}
                fight = {"displayName": [(ldap3.MODIFY_REPLACE, [text])]}
                codes.extend(modify(connection, dn, each) for each in (add, fight))

    clients = [threading.Thread(target=work, args=(each, client)) for each in four.ids for client in (1, 2)]
    for each in clients:
        each.start()
    for each in clients:
        each.join(WAIT_S)
    count = rounds(short=3, long=50)
    assert codes == [SUCCESS] * (2 * len(clients) * count)
    wait_until("all have the same entry", lambda: is_alike(four, dn))
    assert len(shown(four, four.ids[3], dn)["description"]) == len(clients) * count
    assert len(shown(four, four.ids[3], dn)["displayName"]) == 1


@pytest.mark.covers("CSN-80", "CSN-111")
def test_a_conflict_is_told_to_people(four: Masters) -> None:
    """Two masters that do not hear each other set one value; both sides are listed, alike, by any master, and
    the notifier has heard of it."""
    a, b, c, d = four.ids
    dn = person("fought")
    with four.connect(a) as connection:
        assert four.add(connection, "fought") == SUCCESS
    four.until_equal({"fought"})
    for other in (b, c, d):
        four.cut(a, other)
    for master in (a, b):
        with four.connect(master) as connection:
            value = {"displayName": [(ldap3.MODIFY_REPLACE, [f"by {master}"])]}
            assert modify(connection, dn, value) == SUCCESS
    for other in (b, c, d):
        four.heal(a, other)
    wait_until("all have the same entry", lambda: is_alike(four, dn))

    def listed(master: str) -> list[tuple[str, str]]:
        with four.connect(master) as connection:
            connection.search("cn=conflicts,cn=config", "(conflictAttribute=displayName)", attributes=["*"])
            return sorted((str(each.conflictKept), str(each.conflictLost)) for each in connection.entries)

    wait_until("it is listed", lambda: len(listed(a)) > 0)
    wait_until("all list the same", lambda: len({str(listed(each)) for each in four.ids}) == 1)
    assert any(f"by {a}" in str(each) and f"by {b}" in str(each) for each in listed(d))
    wait_until("people are told", lambda: four.faults("Conflict") != [])

    def at_the_door(master: str) -> list[dict[str, str]]:
        found = httpx.get(f"{four.http(master)}/v1/directory/conflicts", params={"suffix": SUFFIX})
        assert found.status_code == HTTPStatus.OK, found.text
        return list(found.json()["conflicts"])

    (told,) = (each for each in at_the_door(c) if each["dn"] == dn)
    assert (told["kept"], told["lost"]) in listed(c)
    path = f"/v1/directory/conflicts/{told['id']}"
    assert httpx.post(four.http(c) + path, json={"take": "nothing"}).status_code == HTTPStatus.BAD_REQUEST
    assert told in at_the_door(c), "bad input changes nothing"
    assert httpx.post(four.http(c) + path, json={"take": "lost"}).status_code == HTTPStatus.OK
    wait_until(
        "it is resolved everywhere", lambda: all(told not in at_the_door(each) for each in (a, b, c, d))
    )
    (name,) = shown(four, a, dn)["displayName"]
    assert name in told["lost"]
    assert name not in told["kept"]
    assert httpx.post(four.http(c) + path, json={"take": "lost"}).status_code == HTTPStatus.NOT_FOUND


@pytest.mark.covers("CSN-61", "CSN-62", "CSN-65", "CSN-69", "CSN-111")
def test_a_chain_carries_changes_once(four: Masters) -> None:
    """Of four masters in a chain the last gets what the first takes, by way of the others. When a link that
    was cut heals, exactly what is missing is sent, once, and nothing back."""
    a, b, c, d = four.ids
    for one, other in ((a, c), (a, d), (b, d)):
        four.cut(one, other)
    four.cut(a, b)
    with four.connect(a) as connection:
        for number in range(7):
            assert four.add(connection, f"chain-{number}") == SUCCESS
    wanted = {f"chain-{number}" for number in range(7)}
    assert not wanted & four.uids(d)
    four.heal(a, b)
    four.until_equal(wanted)
    assert four.link(a, b)["sent"] == 7
    assert four.link(b, a)["sent"] == 0
    for one, other in ((a, c), (a, d), (b, d)):
        four.heal(one, other)
    wait_until("all links are open", lambda: four.link(a, d).get("state") == "open")
    assert four.link(a, d)["sent"] == four.link(d, a)["sent"] == 0


@pytest.mark.covers("CSN-110")
def test_a_password_counts_at_the_others(four: Masters) -> None:
    """Changed at one master, it is the one with which its owner binds at the others."""
    a, *others = four.ids
    with four.connect(a) as connection:
        assert four.add(connection, "grace", userPassword="first") == SUCCESS
    four.until_equal({"grace"})
    with four.connect(a) as connection:
        assert connection.extend.standard.modify_password(person("grace"), "first", "second") is True

    def code(master: str, password: str) -> int:
        server = ldap3.Server(f"ldap://{four.address(master)}", get_info=ldap3.NONE, connect_timeout=10)
        connection = ldap3.Connection(server, person("grace"), password, receive_timeout=30)
        connection.bind()
        found = int(connection.result["result"])
        connection.unbind()
        return found

    for each in others:
        wait_until(f"{each} takes the new password", lambda each=each: code(each, "second") == SUCCESS)
        assert code(each, "first") == INVALID_CREDENTIALS


def test_a_change_may_wait_for_a_second_store(four: Masters) -> None:
    """`acknowledge=2`: success when another master has it on its disk; when none says so in time, an error
    that says that it is committed here only, and it is."""
    a, *others = four.ids
    two = [(ACKNOWLEDGE, True, b"2")]
    with four.connect(a) as connection:
        attributes = {"cn": "x", "sn": "x"}
        connection.add(person("twice"), "inetOrgPerson", attributes, controls=two)
        assert connection.result["result"] == SUCCESS
        assert any("twice" in four.uids(each) for each in others)
        for each in others:
            four.cut(a, each)
        connection.add(person("once"), "inetOrgPerson", attributes, controls=two)
        assert connection.result["result"] == OTHER
        assert connection.result["message"].startswith("committed here only: ")
        assert "once" in four.uids(a)
        for each in others:
            four.heal(a, each)
    four.until_equal({"once", "twice"})


def test_the_door_of_a_host_speaks_tls(four: Masters, certificates: Certificates) -> None:
    """StartTLS at its port and LDAPS at another, with the certificate of the settings; a person with a
    certificate of the CA is that person."""
    trust = ldap3.Tls(
        ca_certs_file=str(certificates.ca),
        validate=ssl.CERT_REQUIRED,
        local_certificate_file=str(certificates.client),
        local_private_key_file=str(certificates.client_key),
    )
    secure = {host: each["ldaps"] for host, each in four.status().items()}
    for where in (f"ldap://{four.address(four.ids[0])}", f"ldaps://{secure[four.ids[1]]}"):
        server = ldap3.Server(where, get_info=ldap3.NONE, tls=trust, connect_timeout=10)
        connection = ldap3.Connection(
            server, authentication=ldap3.SASL, sasl_mechanism=ldap3.EXTERNAL, receive_timeout=30
        )
        connection.open()
        assert where.startswith("ldaps") or connection.start_tls()
        assert connection.bind()
        assert connection.extend.standard.who_am_i() == f"dn:uid=ada,ou=people,{SUFFIX}"
        connection.unbind()


@pytest.mark.covers("CSN-92")
def test_old_state_is_purged_and_nothing_shown_changes(four: Masters, tmp_path: Path) -> None:
    """Removed values are kept as state until every master has passed them, and then go; what clients see
    stays."""
    dn = person("purged")
    with four.connect(four.ids[0]) as connection:
        assert four.add(connection, "purged", description="secret-a") == SUCCESS
        value = {"description": [(ldap3.MODIFY_REPLACE, ["kept"])]}
        assert modify(connection, dn, value) == SUCCESS
    files = four.directory / "hosts" / four.ids[1] / "services" / "directory"

    def state() -> str:
        target = tmp_path / "state.ldif"
        target.unlink(missing_ok=True)
        command = [sys.executable, "-m", "holdfast", "directory", "export", str(target), "--dir", str(files)]
        subprocess.run([*command, "--state"], check=True, capture_output=True, timeout=WAIT_S)
        return target.read_text()

    four.until_equal({"purged"})
    wait_until("all have it", lambda: is_alike(four, dn))
    before = shown(four, four.ids[1], dn)

    def is_gone() -> bool:
        # Every change lets masters look for what can go now.
        with four.connect(four.ids[2]) as connection:
            number = len(four.uids(four.ids[2]))
            assert four.add(connection, f"later-{number}") == SUCCESS
        return "secret-a" not in state()

    wait_until("the removed value is gone", is_gone)
    assert "purgedVector" in state()
    assert shown(four, four.ids[1], dn) == before


def test_four_masters_killed_under_load_lose_nothing(four: Masters, rounds: Callable[..., int]) -> None:
    """kill -9 in a loop while clients write at all four: all ends equal, every acknowledged change is there,
    and no CSN names two changes, as an outsider reads their changelogs and their logs."""
    writers = [Writer(four, each, pause_s=PAUSE_S) for each in four.ids]
    onlooker = Onlooker(four)
    for each in (*writers, onlooker):
        each.start()
    for turn in range(rounds(short=4, long=120)):
        writers[turn % 4].wait_for(3)
        four.kill(four.ids[turn % 4])
    for each in writers:
        each.wait_for(3)
    acknowledged = set[str]().union(*(each.stop() for each in writers))
    four.until_equal(acknowledged)
    onlooker.stop()
    assert onlooker.twice == []
    assert len(onlooker.known) > 20
    issued = [csn for csn, _ in four.issued()]
    assert len(issued) >= len(acknowledged) > 20
    assert len(set(issued)) == len(issued)


def test_a_store_put_back_under_load(four: Masters, rounds: Callable[..., int], tmp_path: Path) -> None:
    """Yesterday's copy of one master's files, while clients write at all four: it is noticed, the master
    takes a new id, nothing is lost that another store had, and no CSN names two changes. It lacks what no
    changelog has any more, and is filled anew without asking anybody, since a peer has all that it has."""
    for turn in range(rounds(short=1, long=10)):
        at = four.ids[turn % 4]
        others = [each for each in four.ids if each != at]
        writers = {each: Writer(four, each, f"{each}-back-{turn}", pause_s=PAUSE_S) for each in four.ids}
        for each in writers.values():
            each.start()
        writers[at].wait_for(5)
        before = four.status()[at]
        copy = tmp_path / f"yesterday-{turn}"
        with four.paused(before["pid"]):
            shutil.copytree(four.files(at), copy)
        writers[at].wait_for(10)
        logged = changelog(four.store(others[0]), is_running=True).keys()

        def is_trimmed(at: str = others[0], logged: Set[bytes] = logged) -> bool:
            return not logged & changelog(four.store(at), is_running=True).keys()

        onlooker = Onlooker(four)
        onlooker.look()
        wait_until("that changelog has nothing of it any more", is_trimmed)
        onlooker.start()
        with four.replacing_files(at, before["pid"], copy):
            elsewhere = set[str]().union(*(four.uids(each) for each in others))
            told = set(writers[at].acknowledged)
        assert len(told & elsewhere) >= 5

        def is_another(at: str = at, before: int = before["replica"]["replica"]) -> bool:
            return four.may_write(at) and four.status()[at]["replica"]["replica"] != before

        wait_until("it has a new replica id", is_another)
        writers[at].wait_for(3)
        late = writers[at].stop() - told
        acknowledged = set[str]().union(elsewhere, late, *(writers[each].stop() for each in others))
        four.until_equal(acknowledged)
        onlooker.stop()
        assert onlooker.twice == []
        said = (four.directory / "output" / f"{at}.log").read_text()
        assert said.count("lacks what no peer keeps any more, and is filled anew") == 1 + turn // 4
    issued = [csn for csn, _ in four.issued()]
    assert len(set(issued)) == len(issued)


@pytest.mark.covers("CSN-72")
def test_a_retired_replica_leaves_all_vectors(four: Masters) -> None:
    """The last test of this directory: it has three masters afterwards."""
    gone = four.ids[3]
    number = four.status()[gone]["replica"]["replica"]
    assert all(number in each for each in vectors(four).values())
    assert "nothing is lost" in four.run("retire", gone).stderr
    four.line["masters"].pop()
    wait_until("no vector has it", lambda: not any(number in each for each in vectors(four).values()))
    with four.connect(four.ids[0]) as connection:
        assert four.add(connection, "after-retirement") == SUCCESS
    four.until_equal({"after-retirement"})
