"""`holdfast directory init`, `serve` and `import` with several suffixes in one directory of files."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from holdfast.cli.directory.commands import init, serve_
from holdfast.cli.directory.conflicts import list_, resolve
from holdfast.cli.directory.interchange import export, import_
from holdfast.directory.holdings import holdings_of
from holdfast.directory.ldif import InvalidLdif
from holdfast.directory.operations import AddRequest, Attribute, Scope
from holdfast.directory.results import DirectoryError
from holdfast.ldap.client import LdapClient
from holdfast.model.errors import InvalidRequest

FIRST, SECOND, THIRD = "dc=example,dc=com", "o=Second", "o=Third"


def held(directory: Path) -> dict[str, int]:
    return {each.about.suffix: each.about.replica for each in holdings_of(directory)}


def ldif(file: Path, suffix: str, *, is_whole: bool = True) -> Path:
    top = f"dn: {suffix}\nobjectClass: organization\no: {suffix[2:]}\n\n" if is_whole else ""
    file.write_text(f"{top}dn: ou=unit,{suffix}\nobjectClass: organizationalUnit\nou: unit\n")
    return file


@contextmanager
def served(directory: Path, *options: str) -> Iterator[dict[str, Any]]:
    command = (sys.executable, "-m", "holdfast", "directory", "serve", "--dir", str(directory), "--port", "0")
    process = subprocess.Popen((*command, "--output", "json", *options), stdout=subprocess.PIPE)
    assert process.stdout is not None
    try:
        yield json.loads(process.stdout.readline())
    finally:
        os.kill(process.pid, signal.SIGTERM)
        assert process.wait(30) == 0
        process.stdout.close()


def test_init_makes_several_and_adds_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each has files and an administrator of its own; what is there already is refused by name."""
    directory = tmp_path / "d"
    assert init(dir=directory, suffix=[FIRST, SECOND, "O=second"], replica_id=7, output="json") == 0
    told = json.loads(capsys.readouterr().out)
    assert [each["suffix"] for each in told["suffixes"]] == [FIRST, SECOND]
    assert told["admin_dn"] == f"cn=admin,{FIRST}"
    assert held(directory) == {FIRST: 7, SECOND: 7}
    with pytest.raises(InvalidRequest, match="holds a directory already: o=Second;"):
        init(dir=directory, suffix=[THIRD, "o=SECOND"])
    assert held(directory) == {FIRST: 7, SECOND: 7}
    with pytest.raises(InvalidRequest, match="a suffix begins with one of dc"):
        init(dir=directory, suffix=[THIRD, "cn=x"])
    assert held(directory) == {FIRST: 7, SECOND: 7}
    assert init(dir=directory, suffix=[THIRD], output="json") == 0
    assert held(directory) == {FIRST: 7, SECOND: 7, THIRD: 7}


def test_all_are_served_at_one_port(tmp_path: Path) -> None:
    """Those that are there and those that are named; each administrator has rights in the own suffix alone,
    and what was written to each is there at the next start."""
    directory = tmp_path / "d"
    secret = tmp_path / "secret"
    secret.write_text("secret\n")
    init(dir=directory, suffix=[FIRST], admin_password_file=secret, output="json")
    with pytest.raises(InvalidRequest, match=f"holds {FIRST}, not {SECOND}; name both"):
        serve_(dir=directory, suffix=[SECOND], port=0)
    with pytest.raises(InvalidRequest, match=f"holds replica 1 of {FIRST}, not replica 2"):
        serve_(dir=directory, replica_id=2, port=0)
    more = ("--suffix", FIRST, "--suffix", SECOND, "--admin-password-file", str(secret))
    for options in (more, ()):
        with served(directory, *options) as told, LdapClient(f"ldap://{told['ldap']}") as client:
            assert [each["suffix"] for each in told["suffixes"]] == [FIRST, SECOND]
            assert ("admin_dn" in told["suffixes"][1]) == bool(options)
            (root,) = client.search("", Scope.BASE, attributes=("namingContexts",))
            assert root.attributes[0].values == (FIRST.encode(), SECOND.encode())
            client.bind(f"cn=admin,{SECOND}", b"secret")
            name = f"ou={'first' if options else 'second'}"
            unit = (Attribute("objectClass", (b"organizationalUnit",)), Attribute("ou", (name[3:].encode(),)))
            client.change(AddRequest(f"{name},{SECOND}", unit))
            with pytest.raises(DirectoryError, match="may change"):
                client.change(AddRequest(f"{name},{FIRST}", unit))
            found = {each.dn for each in client.search(SECOND, filter_="(ou=*)")}
            assert found == {
                f"ou={each},{SECOND}" for each in (("first",) if options else ("first", "second"))
            }


def test_import_knows_whose_an_ldif_is(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Of several suffixes that of the first entry; one that is not there is added when it is named."""
    directory = tmp_path / "d"
    init(dir=directory, suffix=[FIRST, SECOND], output="json")
    import_(ldif(tmp_path / "s", SECOND, is_whole=False), dir=directory)
    with pytest.raises(InvalidRequest, match=f"holds {FIRST}, {SECOND}, not {THIRD}: --suffix adds one"):
        import_(ldif(tmp_path / "t", THIRD), dir=directory)
    assert import_(tmp_path / "t", dir=directory, suffix=THIRD) == 0
    assert held(directory) == {FIRST: 1, SECOND: 1, THIRD: 1}
    with pytest.raises(InvalidLdif, match="below"):
        import_(ldif(tmp_path / "f", "ou=x,o=Fourth", is_whole=False), dir=directory, suffix=THIRD)
    for suffix, count in ((FIRST, 0), (SECOND, 1), (THIRD, 1)):
        capsys.readouterr()
        export(tmp_path / suffix, dir=directory, suffix=suffix)
        assert (tmp_path / suffix).read_text().count("organizationalUnit") == count
    with pytest.raises(InvalidRequest, match=r"holds several suffixes; say --suffix"):
        export(tmp_path / "all", dir=directory)
    state = tmp_path / "state"
    export(state, dir=directory, suffix=THIRD, state=True)
    with pytest.raises(InvalidRequest, match=f"holds a directory already, {THIRD}"):
        import_(state, dir=directory, replica_id=1)
    other = tmp_path / "other"
    init(dir=other, suffix=[FIRST], replica_id=2, output="json")
    with pytest.raises(InvalidRequest, match=f"holds {FIRST}, not {THIRD}: --suffix adds one"):
        import_(state, dir=other)
    assert import_(state, dir=other, suffix=THIRD) == 0
    assert held(other) == {FIRST: 2, THIRD: 2}


def test_conflicts_are_asked_of_all(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    directory = tmp_path / "d"
    init(dir=directory, suffix=[FIRST, SECOND], output="json")
    capsys.readouterr()
    assert list_(dir=directory) == 0
    assert capsys.readouterr().out == "there are no conflicts\n"
    with pytest.raises(InvalidRequest, match="there is no conflict 'x', or no longer"):
        resolve("x", dir=directory)


@pytest.mark.parametrize("word", ["export", "import"])
def test_a_dash_is_the_standard_input_and_output(tmp_path: Path, word: str) -> None:
    """As people type it, and not an option that nobody knows."""
    directory = tmp_path / "d"
    if word == "export":
        init(dir=directory, suffix=[SECOND], output="json")
    text = ldif(tmp_path / "l", SECOND).read_bytes()
    command = [sys.executable, "-m", "holdfast", "directory", word, "-", "--dir", str(directory)]
    done = subprocess.run(command, input=text, capture_output=True, check=True)
    assert (b"dn: o=Second" in done.stdout) == (word == "export")
    assert held(directory) == {SECOND: 1}
