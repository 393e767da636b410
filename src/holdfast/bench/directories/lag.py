"""How long a change takes from one master to another: two masters, as ``holdfast directory start`` runs them.

A client changes an entry at one and then asks the other until it sees the new value. The lag of a change is
the time from the answer of the first, when the change is on its disk, until the other shows it: what someone
waits who writes here and reads there.
"""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from holdfast.bench.directories import SUFFIX
from holdfast.bench.directories.ours import running_command
from holdfast.bench.systems import Absent
from holdfast.directory.operations import (
    AddRequest,
    Attribute,
    Modification,
    ModificationKind,
    ModifyRequest,
    Scope,
)
from holdfast.directory.results import DirectoryError
from holdfast.ldap.client import LdapClient
from holdfast.model.errors import Unavailable

SEEN_S: Final = 30.0
"""When a change has not come by then, something is wrong."""
PAUSE_S: Final = 0.005
"""Between two changes: each travels alone."""
ENTRY: Final = f"cn=lag,{SUFFIX}"


def measure_lag(directory: Path, changes: int) -> list[float]:
    """The lag of each of so many changes, in milliseconds. Raises :class:`.Absent`."""
    with running_masters(directory, masters=2) as told:
        first, second = (f"ldap://{each['ldap']}" for each in told["masters"])
        with LdapClient(first) as writer, LdapClient(second) as reader:
            for each in (writer, reader):
                each.bind(told["admin_dn"], told["admin_password"].encode())
            classes = Attribute("objectClass", (b"applicationProcess",))
            writer.change(AddRequest(ENTRY, (classes, Attribute("cn", (b"lag",)))))
            _until_seen(reader, b"")
            return [_lag_ms(writer, reader, f"change {number}".encode()) for number in range(changes)]


def _lag_ms(writer: LdapClient, reader: LdapClient, value: bytes) -> float:
    time.sleep(PAUSE_S)
    step = Modification(ModificationKind.REPLACE, "description", (value,))
    writer.change(ModifyRequest(ENTRY, (step,)))
    began = time.perf_counter()
    _until_seen(reader, value)
    return (time.perf_counter() - began) * 1_000


def _until_seen(reader: LdapClient, value: bytes) -> None:
    """Ask until the entry has that description; an empty one asks whether it is there at all."""
    until = time.monotonic() + SEEN_S
    while time.monotonic() < until:
        try:
            (entry,) = reader.search(ENTRY, Scope.BASE, attributes=("description",))
        except DirectoryError:
            continue  # it is not there yet
        if not value or any(value in each.values for each in entry.attributes):
            return
    raise Absent(f"a change did not come within {SEEN_S:g} s")


@contextmanager
def running_masters(
    directory: Path, *, masters: int, options: Sequence[str] = ()
) -> Iterator[dict[str, Any]]:
    """So many masters that replicate; what the command says of them."""
    command = ("start", "--masters", str(masters), "--suffix", SUFFIX, "--dir", str(directory), *options)
    try:
        with running_command(*command) as (told, _):
            yield told
    except Unavailable as error:
        raise Absent(str(error)) from error
