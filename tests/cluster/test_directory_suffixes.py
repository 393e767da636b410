"""Masters that serve two suffixes: each is replicated by itself, and both are at one door."""

import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from directory_masters import SUFFIX, Masters, running, wait_until

from holdfast.directory.operations import AddRequest, Attribute, Scope
from holdfast.directory.results import DirectoryError
from holdfast.ldap.client import LdapClient
from holdfast.model.errors import HoldfastError

OTHER = "o=other"
BOTH = (SUFFIX, OTHER)


@pytest.fixture(scope="module")
def masters(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Masters]:
    directory = tmp_path_factory.mktemp("suffixes") / "d"
    with running(directory, "--masters", "2", "--suffix", SUFFIX, "--suffix", OTHER) as found:
        yield found


def client(masters: Masters, id: str, suffix: str) -> LdapClient:
    (admin,) = (each for each in masters.line["suffixes"] if each["suffix"] == suffix)
    made = LdapClient(f"ldap://{masters.address(id)}")
    made.bind(admin["admin_dn"], admin["admin_password"].encode())
    return made


def add(to: LdapClient, suffix: str, uid: str) -> None:
    kind = Attribute("objectClass", (b"account",))
    to.change(AddRequest(f"uid={uid},{suffix}", (kind, Attribute("uid", (uid.encode(),)))))


def uids(masters: Masters, id: str, suffix: str) -> set[str]:
    with client(masters, id, suffix) as asking:
        return {each.dn.partition(",")[0][4:] for each in asking.search(suffix, filter_="(uid=*)")}


def until_all_have(masters: Masters, suffix: str, wanted: set[str]) -> None:
    def holds() -> bool:
        try:
            return all(uids(masters, each, suffix) >= wanted for each in masters.ids)
        except HoldfastError:
            return False

    wait_until(f"all masters have what was acknowledged of {suffix}", holds)


class Adding(threading.Thread):
    """Adds entries to one suffix at one master until it is stopped, whatever becomes of that master."""

    def __init__(self, masters: Masters, id: str, suffix: str) -> None:
        super().__init__(daemon=True)
        self._masters, self._id, self._suffix = masters, id, suffix
        self._is_over = threading.Event()
        self.acknowledged: set[str] = set()

    def run(self) -> None:
        number = 0
        while not self._is_over.is_set():
            try:
                with client(self._masters, self._id, self._suffix) as to:
                    while not self._is_over.is_set():
                        number += 1
                        add(to, self._suffix, f"{self._id}-{number}")
                        self.acknowledged.add(f"{self._id}-{number}")
                        time.sleep(0.01)
            except (HoldfastError, OSError):
                time.sleep(0.05)

    def stop(self) -> set[str]:
        self._is_over.set()
        self.join(60)
        return self.acknowledged


def replicas(masters: Masters) -> dict[tuple[str, str], int]:
    found = json.loads(masters.run("status", "--output", "json").stdout)
    return {(each["master"], each["replica"]["suffix"]): each["replica"]["replica"] for each in found}


def test_every_command_names_the_suffix_it_is_about(masters: Masters) -> None:
    """The line of a start and the root of each door have both; `status` shows both, one or the other."""
    a, b = masters.ids
    assert [each["suffix"] for each in masters.line["suffixes"]] == [*BOTH]
    assert masters.line["admin_dn"] == masters.line["suffixes"][0]["admin_dn"]
    for id in masters.ids:
        with client(masters, id, OTHER) as asking:
            (root,) = asking.search("", Scope.BASE, attributes=("namingContexts",))
            assert root.attributes[0].values == tuple(each.encode() for each in BOTH)
            (state,) = asking.search("cn=csnGenerator,cn=config", Scope.BASE, attributes=("csnstate",))
            ends = [each.rpartition(b" suffix=")[2].decode() for each in state.attributes[0].values]
            assert ends == [*BOTH]
    assert set(replicas(masters)) == {(id, suffix) for id in (a, b) for suffix in BOTH}
    shown = masters.run("ruv", "--suffix", OTHER.upper(), "--output", "json").stdout
    assert {each["suffix"] for each in json.loads(shown)} == {OTHER}
    assert OTHER in masters.run("initialise", b, "--yes", ok=(2,)).stderr
    assert "third" in masters.run("lag", "--suffix", "o=third", ok=(2,)).stderr


def test_a_cut_of_one_suffix_leaves_the_other(masters: Masters) -> None:
    a, b = masters.ids
    masters.run("cut", a, b, "--suffix", OTHER)
    with client(masters, a, SUFFIX) as first, client(masters, a, OTHER) as second:
        add(first, SUFFIX, "uncut")
        add(second, OTHER, "cut")
    until_all_have(masters, SUFFIX, {"uncut"})
    assert "cut" not in uids(masters, b, OTHER)
    masters.run("heal", a, b)
    until_all_have(masters, OTHER, {"cut"})


def test_a_store_that_is_filled_anew_is_of_one_suffix(masters: Masters) -> None:
    """Replica ids belong to a suffix and a store (G3): the other suffix goes on under the same one."""
    _, b = masters.ids
    before = replicas(masters)
    masters.run("initialise", b, "--suffix", OTHER, "--yes")
    after = replicas(masters)
    assert after[b, OTHER] > before[b, OTHER]
    assert {each: after[each] for each in before if each != (b, OTHER)} == {
        each: before[each] for each in before if each != (b, OTHER)
    }


def test_a_master_of_two_suffixes_is_killed_under_load(masters: Masters, rounds) -> None:
    """kill -9 while both suffixes are written at both masters: nothing acknowledged is lost in either, and
    both masters end with the same."""
    a, b = masters.ids
    writers = {(id, suffix): Adding(masters, id, suffix) for id in (a, b) for suffix in BOTH}
    for each in writers.values():
        each.start()
    try:
        for number in range(rounds(short=1, long=10)):
            for each in writers.values():
                had = len(each.acknowledged)
                wait_until("writes go on", lambda each=each, had=had: len(each.acknowledged) >= had + 20)
            masters.kill((a, b)[number % 2])
    finally:
        acknowledged = {each: writer.stop() for each, writer in writers.items()}
    for suffix in BOTH:
        until_all_have(masters, suffix, acknowledged[a, suffix] | acknowledged[b, suffix])
        assert uids(masters, a, suffix) == uids(masters, b, suffix)


def test_a_suffix_is_added_to_those_that_are_there(tmp_path: Path) -> None:
    """Started again with one more suffix, all masters have it; with a strange one alone, nothing is begun."""
    directory = tmp_path / "d"
    with running(directory, "--masters", "1", "--suffix", SUFFIX) as before:
        first = before.line
        assert "suffixes" not in first
        with client_of_one(before) as to:
            add(to, SUFFIX, "before")
    assert "name both" in Masters(directory).run("start", "--suffix", OTHER, ok=(2,)).stderr
    with running(directory, "--suffix", SUFFIX, "--suffix", OTHER) as after:
        assert after.line["admin_password"] == first["admin_password"]
        until_all_have(after, SUFFIX, {"before"})
        with client(after, after.ids[0], OTHER) as to, pytest.raises(DirectoryError):
            add(to, SUFFIX, "not by this administrator")
    with running(directory) as again:
        assert again.line["suffixes"] == after.line["suffixes"]


def client_of_one(masters: Masters) -> LdapClient:
    made = LdapClient(f"ldap://{masters.address(masters.ids[0])}")
    made.bind(masters.line["admin_dn"], masters.line["admin_password"].encode())
    return made
