"""A master of a directory that is killed while clients write: data, changelog and vector tell one story."""

import os
import re
import signal
import subprocess
import sys
from json import loads
from pathlib import Path
from threading import Thread

import pytest
from directory_pair import ADA, SUFFIX, Files, filled

from holdfast.clock.vector import Vector
from holdfast.directory.operations import Modification, ModificationKind, ModifyRequest
from holdfast.directory.primitives import AddValue
from holdfast.directory.reading import reading
from holdfast.directory.replica.changelog import ChangelogReader, vector_in
from holdfast.directory.replica.passwords import hashed
from holdfast.ldap.client import LdapClient
from holdfast.model.errors import HoldfastError

pytestmark = pytest.mark.cluster

ADMIN = f"cn=admin,{SUFFIX}"


def written(number: int) -> ModifyRequest:
    return ModifyRequest(
        ADA, (Modification(ModificationKind.REPLACE, "description", (f"number {number}".encode(),)),)
    )


def write_on(url: str, start: int, told: list[int]) -> None:
    """Write numbers until the server is gone; *told* has those that were acknowledged."""
    number = start
    try:
        with LdapClient(url) as client:
            client.bind(ADMIN, b"secret")
            while number < start + 100_000:
                client.change(written(number))
                told.append(number)
                number += 1
    except HoldfastError:
        pass  # it was killed


def logged(directory: Path) -> tuple[list[int], str, Vector]:
    """The numbers in the changelog, in order; the description of the entry; the vector."""
    with reading(directory) as snapshot:
        vector = vector_in(snapshot.reader)
        assert vector is not None
        numbers = []
        newest = None
        for update in ChangelogReader(snapshot.reader, vector, Vector.of(vector.generation)):
            newest = update.csn
            for change in update.changes:
                if isinstance(change, AddValue) and change.attribute == "description":
                    numbers.append(int(re.sub(rb"\D", b"", change.value.content)))
        assert newest == vector.newest()
    return numbers, Files(directory, 1).view(ADA).attributes["description"][0].decode(), vector


@pytest.mark.covers("CSN-55", "CSN-68")
def test_a_change_and_its_record_are_there_together(tmp_path: Path, rounds) -> None:
    """kill -9 in a loop under load: every acknowledged change is in the changelog, once and in order; the
    entry is what the last record says; the vector ends with it."""
    files = filled(tmp_path / "d")
    secret = hashed(b"secret", b"0" * 16, 1_000)
    files.do(ModifyRequest(ADMIN, (Modification(ModificationKind.REPLACE, "userPassword", (secret,)),)))
    acknowledged: list[int] = []
    for round_ in range(rounds(short=3, long=100)):
        process = subprocess.Popen(
            [
                *(sys.executable, "-m", "holdfast", "directory", "serve", "--dir", str(files.directory)),
                *("--port", "0", "--output", "json"),
            ],
            stdout=subprocess.PIPE,
            text=True,
        )
        try:
            assert process.stdout is not None
            url = f"ldap://{loads(process.stdout.readline())['ldap']}"
            told: list[int] = []
            writer = Thread(target=write_on, args=(url, round_ * 1_000_000, told))
            writer.start()
            while len(told) < 20 and writer.is_alive():
                writer.join(0.01)
            os.kill(process.pid, signal.SIGKILL)
            writer.join(120)
        finally:
            process.kill()
            process.wait(60)
            process.stdout.close()  # type: ignore[union-attr]
        assert len(told) >= 20
        acknowledged += told
        numbers, description, _ = logged(files.directory)
        assert [each for each in acknowledged if each not in numbers] == []
        assert numbers == sorted(set(numbers))
        assert description == f"number {numbers[-1]}"
