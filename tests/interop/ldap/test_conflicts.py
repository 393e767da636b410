"""Conflicts, vectors and CSNs of a served master, as stock clients and our own commands see them."""

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from directory_pair import ADA, PEOPLE, Files, exchange, filled, pair
from ldap_door import ADMIN, PASSWORD, Certificates, Door, start

from holdfast.clock.vector import Vector
from holdfast.directory.operations import Modification, ModificationKind, ModifyRequest
from holdfast.directory.replica.passwords import hashed
from holdfast.ldap.client import LdapClient
from holdfast.model.csn import parse


def replaced(dn: str, attribute: str, *values: bytes) -> ModifyRequest:
    return ModifyRequest(dn, (Modification(ModificationKind.REPLACE, attribute, values),))


class Served:
    """Two masters that disagree about a name; the second is served."""

    def __init__(self, directory: Path) -> None:
        self.first, self.second = pair(directory)
        self.first.do(replaced(ADMIN, "userPassword", hashed(PASSWORD.encode(), b"0" * 16, 1_000)))
        self.older = self.first.do(replaced(ADA, "displayName", b"by the first"))[0]
        change = replaced(ADA, "displayName", b"by the second")
        self.younger = self.second.do(change, after=self.older)[0]
        exchange(self.first, self.second)
        self.certificates = Certificates.make(directory)
        self.password = directory / "password"
        self.door = start(self.second.directory, self.certificates)

    def holdfast(self, *arguments: str, ok: int = 0) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "holdfast", "directory", *arguments],
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == ok, done.stdout + done.stderr
        return done.stdout

    @property
    def asking(self) -> tuple[str, ...]:
        return "--url", self.door.url, "--bind-dn", ADMIN, "--password-file", str(self.password)


@pytest.fixture
def served(tmp_path: Path, ldap_utils: None) -> Iterator[Served]:
    made = Served(tmp_path)
    try:
        yield made
    finally:
        if made.door.process.poll() is None:
            made.door.stop()
        if made.door.process.stdout is not None:
            made.door.process.stdout.close()


def attributes(shown: str) -> dict[str, str]:
    return dict(line.split(": ", 1) for line in shown.splitlines() if ": " in line)


def searched(door: Door, base: str, *arguments: str) -> str:
    return door.as_admin("ldapsearch", "-LLL", "-o", "ldif-wrap=no", "-b", base, *arguments)


@pytest.mark.covers("CSN-73", "CSN-80")
def test_conflicts_are_entries_that_any_client_resolves(served: Served) -> None:
    """Both sides are told, to administrators alone, over LDAP and by our command alike."""
    door = served.door
    shown = attributes(searched(door, "cn=conflicts,cn=config", "-s", "one"))
    assert shown["conflictEntry"] == ADA
    assert served.older.text() in shown["conflictLost"]
    assert "by the first" in shown["conflictLost"]
    assert served.younger.text() in shown["conflictKept"]
    assert "by the second" in shown["conflictKept"]
    door.run("ldapsearch", "-x", "-b", "cn=conflicts,cn=config", ok=(50,))
    (told,) = [
        json.loads(line)
        for line in served.holdfast("conflicts", "list", *served.asking, "--output", "json").splitlines()
    ]
    (stored,) = [
        json.loads(line)
        for line in served.holdfast(
            "conflicts", "list", "--dir", str(served.second.directory), "--output", "json"
        ).splitlines()
    ]
    assert told == stored
    assert attributes(searched(door, "cn=replica,cn=config", "-s", "base"))["conflictCount"] == "1"
    name = shown["dn"]
    change = f"dn: {name}\nchangetype: modify\nreplace: conflictResolution\nconflictResolution: "
    door.as_admin("ldapmodify", given=f"{change}both\n", ok=(19,))
    door.run("ldapmodify", "-x", given=f"{change}lost\n", ok=(50,))
    door.as_admin("ldapmodify", given=f"{change}lost\n")
    assert attributes(searched(door, ADA, "displayName"))["displayName"] == "by the first"
    assert "conflictID" not in searched(door, "cn=conflicts,cn=config", "-s", "one")
    door.as_admin("ldapmodify", given=f"{change}lost\n", ok=(32,))


def test_our_command_resolves_at_the_door(served: Served) -> None:
    (told,) = [
        json.loads(line)
        for line in served.holdfast("conflicts", "list", *served.asking, "--output", "json").splitlines()
    ]
    assert "take what lost" in served.holdfast("conflicts", "show", told["id"], *served.asking)
    served.holdfast("conflicts", "resolve", told["id"], *served.asking)
    assert served.holdfast("conflicts", "list", *served.asking) == "there are no conflicts\n"
    served.holdfast("conflicts", "resolve", told["id"], *served.asking, ok=2)


@pytest.mark.covers("CSN-60", "CSN-68", "CSN-91")
def test_every_change_has_a_csn_and_is_in_the_vector(served: Served, tmp_path: Path) -> None:
    """Add, modify, rename and delete of clients each get one, as the changelog tells; the vector has each
    master's newest, and has it after kill -9."""
    door = served.door
    before = Vector.parse(attributes(searched(door, "cn=replica,cn=config"))["replicaVector"])
    assert [csn.replica for csn in before] == [1, 2]
    eve = f"uid=eve,{PEOPLE}"
    door.as_admin("ldapadd", given=f"dn: {eve}\nobjectClass: person\nobjectClass: uidObject\ncn: e\nsn: e\n")
    door.as_admin("ldapmodify", given=f"dn: {eve}\nchangetype: modify\nreplace: sn\nsn: x\n")
    door.as_admin("ldapmodrdn", "-r", eve, "uid=evelyn")
    door.as_admin("ldapdelete", f"uid=evelyn,{PEOPLE}")
    served.holdfast("changelog", "dump", str(tmp_path / "log"), "--dir", str(served.second.directory))
    operations: dict[str, list[str]] = {}
    csn = ""
    for line in (tmp_path / "log").read_text().splitlines():
        if line.startswith("dn: csn="):
            csn = parse(line.removeprefix("dn: csn=").partition(",")[0]).operation.text()
        elif line.startswith("changeKind: "):
            operations.setdefault(csn, []).append(line.removeprefix("changeKind: "))
    newest = [csn for csn in sorted(operations) if not before.covers(parse(csn))]
    assert [operations[csn][0] for csn in newest] == [
        "add-entry",
        "remove-attribute",
        "rename",
        "remove-entry",
    ]
    after = Vector.parse(attributes(searched(door, "cn=replica,cn=config"))["replicaVector"])
    assert [each.text() for each in after][1] == newest[-1]
    door.kill()
    served.door = start(served.second.directory, served.certificates)
    again = attributes(searched(served.door, "cn=replica,cn=config"))["replicaVector"]
    assert again == after.text()


@pytest.mark.covers("CSN-50")
def test_every_csn_ends_once(served: Served) -> None:
    def counts() -> dict[str, float]:
        shown = attributes(searched(served.door, "cn=replica,cn=config", "-s", "base"))["csnCount"]
        return {key: float(value) for key, _, value in (each.partition("=") for each in shown.split())}

    for number in range(5):
        change = f"dn: {ADA}\nchangetype: modify\nreplace: description\ndescription: {number}\n"
        served.door.as_admin("ldapmodify", given=change)
    found = counts()
    assert found["assigned"] == found["committed"] + found["aborted"] + found["in_flight"]
    assert found["committed"] >= 5
    assert found["callback_failures"] == 0
    assert found["p99_ms"] >= found["median_ms"] > 0


def test_masters_are_compared_over_ldap(served: Served) -> None:
    """A change on its way is waited for, and then both have the same."""
    first, door = served.first, served.door
    assert "both have the same" in served.holdfast(
        "check", door.url, str(first.directory), *served.asking[2:]
    )
    door.as_admin("ldapmodify", given=f"dn: {ADA}\nchangetype: modify\nreplace: sn\nsn: King\n")
    told = json.loads(
        served.holdfast(
            "check",
            door.url,
            str(first.directory),
            *served.asking[2:],
            "--wait",
            "0",
            "--output",
            "json",
            ok=1,
        )
    )
    assert (told["different"], len(told["on_their_way"])) == ([], 1)
    waiting = subprocess.Popen(
        [
            *(sys.executable, "-m", "holdfast", "directory", "check", door.url, str(first.directory)),
            *(*served.asking[2:], "--wait", "120"),
        ],
        stdout=subprocess.PIPE,
        text=True,
    )
    time.sleep(0.1)
    Files(served.second.directory, 2).tell(first)
    said, _ = waiting.communicate(timeout=200)
    assert waiting.returncode == 0, said


def test_every_change_is_logged_with_its_csn(tmp_path: Path, ldap_utils: None) -> None:
    """As grep across masters needs it: the CSN that the changelog has."""
    files = filled(tmp_path / "d")
    files.do(replaced(ADMIN, "userPassword", hashed(PASSWORD.encode(), b"0" * 16, 1_000)))
    with (tmp_path / "log").open("w") as log:
        process = subprocess.Popen(
            [
                *(sys.executable, "-m", "holdfast", "directory", "serve", "--dir", str(files.directory)),
                *("--port", "0", "--output", "json", "--log", "info"),
            ],
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        )
    try:
        assert process.stdout is not None
        url = f"ldap://{json.loads(process.stdout.readline())['ldap']}"
        with LdapClient(url) as client:
            client.bind(ADMIN, PASSWORD.encode())
            client.change(replaced(ADA, "sn", b"King"))
    finally:
        process.terminate()
        process.wait(60)
        if process.stdout is not None:
            process.stdout.close()
    (line,) = [each for each in (tmp_path / "log").read_text().splitlines() if "directory_change" in each]
    csn = parse(line.partition("csn=")[2].split()[0])
    assert csn.text() in files.state()[1]
    assert ADMIN in line
