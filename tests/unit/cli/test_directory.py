"""`holdfast directory`: what is made, what is shown once, and what is refused before anything is made."""

import asyncio
import json
from pathlib import Path

import pytest

from holdfast.cli.directory.commands import init, serve_
from holdfast.directory.dn import Dn
from holdfast.directory.master import Master, read_about
from holdfast.directory.replica.passwords import verified
from holdfast.model.errors import InvalidRequest

SUFFIX = "dc=example,dc=com"


def stored_password(directory: Path, admin: str) -> bytes:
    async def read() -> bytes:
        master = await Master.open(directory, SUFFIX)
        try:
            snapshot = master.replica.snapshot()
            view = snapshot.view(snapshot.find(Dn.parse(admin)))
            assert view is not None
            (value,) = view.attributes["userPassword"]
            snapshot.close()
            return value
        finally:
            master.close()

    return asyncio.run(read())


def test_init_makes_an_administrator_whose_password_is_shown_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What is on the disk is its hash, for this user alone."""
    directory = tmp_path / "d"
    assert init(dir=directory, suffix=[SUFFIX], output="json") == 0
    made = json.loads(capsys.readouterr().out)
    assert made["admin_dn"] == f"cn=admin,{SUFFIX}"
    password = made["admin_password"].encode()
    assert verified(password, stored_password(directory, made["admin_dn"]))
    files = [each for each in directory.rglob("*") if each.is_file()]
    assert not any(password in each.read_bytes() for each in files)
    assert directory.stat().st_mode & 0o077 == 0
    with pytest.raises(InvalidRequest, match="holds a directory already"):
        init(dir=directory, suffix=[SUFFIX])


def test_a_given_password_is_not_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    secret = tmp_path / "secret"
    secret.write_text("correct horse\n")
    init(dir=tmp_path / "d", suffix=["o=Example"], admin_password_file=secret)
    assert "correct horse" not in capsys.readouterr().out
    about = read_about(tmp_path / "d")
    assert about is not None
    assert (about.suffix, about.replica) == ("o=Example", 1)


@pytest.mark.parametrize(
    ("suffix", "replica", "said"),
    [
        ("no name", 1, "not a name"),
        ("", 1, "at least one part"),
        ("cn=example", 1, "a suffix begins with one of dc"),
        (SUFFIX, 0, "from 1 to 65534"),
        (SUFFIX, 65535, "from 1 to 65534"),
    ],
)
def test_what_cannot_be_is_refused(tmp_path: Path, suffix: str, replica: int, said: str) -> None:
    with pytest.raises(InvalidRequest, match=said):
        init(dir=tmp_path / "d", suffix=[suffix], replica_id=replica)
    # Nothing is left that would be in the way of the next try.
    assert init(dir=tmp_path / "d", suffix=[SUFFIX], output="json") == 0


def test_files_of_something_else_are_not_served(tmp_path: Path) -> None:
    directory = tmp_path / "d"
    with pytest.raises(InvalidRequest, match="holds no directory yet"):
        serve_(dir=directory)
    init(dir=directory, suffix=[SUFFIX], output="json")
    with pytest.raises(InvalidRequest, match=f"holds {SUFFIX}, not dc=other"):
        serve_(dir=directory, suffix=["dc=other"], port=0)
    with pytest.raises(InvalidRequest, match="TLS needs a certificate"):
        serve_(dir=directory, ldaps_port=0, port=0)
    with pytest.raises(InvalidRequest, match="cannot be used"):
        serve_(dir=directory, certificate=tmp_path / "none", port=0)
