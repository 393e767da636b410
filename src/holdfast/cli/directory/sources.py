"""Where commands look at a master: in its files, or at its LDAP door."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from msgspec import Struct

from holdfast.clock.vector import Vector
from holdfast.directory.interchange.comparing import Facts, Moment, facts
from holdfast.directory.interchange.exporting import BOOKKEEPING
from holdfast.directory.operations import Scope
from holdfast.directory.primitives import uuid_text
from holdfast.directory.reading import reading
from holdfast.directory.replica.changelog import vector_in
from holdfast.directory.replica.snapshot import Snapshot, Suffix
from holdfast.directory.schema.standard import standard_schema
from holdfast.ldap.client import LdapClient
from holdfast.ldap.config_entries import REPLICA_DN
from holdfast.model.errors import InvalidRequest

PASSWORD_BYTES_MAX = 1_024


class Administrator(Struct, frozen=True):
    """As whom commands bind."""

    dn: str | None
    password_file: Path | None

    def password(self) -> bytes:
        if self.password_file is None:
            raise InvalidRequest("say --password-file: a file with the password on its first line")
        with self.password_file.open("rb") as opened:
            return opened.read(PASSWORD_BYTES_MAX + 1).split(b"\n", 1)[0].rstrip(b"\r")


def is_url(source: str) -> bool:
    return source.startswith(("ldap://", "ldaps://"))


@contextmanager
def bound(url: str, who: Administrator) -> Iterator[LdapClient]:
    """A client that has bound as an administrator."""
    if who.dn is None:
        raise InvalidRequest(
            f"{url}: administrators alone may ask this: say --bind-dn, such as cn=admin,dc=example,dc=com"
        )
    password = who.password()
    with LdapClient(url) as client:
        client.bind(who.dn, password)
        yield client


def moment_of(source: str, who: Administrator, suffix: str | None = None) -> Moment:
    """What a master shows now, and what it has; of which suffix, if there are several."""
    if is_url(source):
        with bound(source, who) as client:
            return _asked(client, suffix)
    with reading(Path(source), suffix) as snapshot:
        vector = vector_in(snapshot.reader)
        if vector is None:
            raise InvalidRequest(f"{source} holds no replica yet")
        return Moment(dict(_stored(snapshot)), vector, vector)


def _stored(snapshot: Snapshot) -> Iterator[tuple[str, Facts]]:
    top = snapshot.top()
    for each in () if top is None else snapshot.subtree(top):
        view = snapshot.view(each)
        if view is not None:
            yield uuid_text(each), facts(view.dn, _compared({**view.attributes, **view.operational()}))


def _asked(client: LdapClient, wanted: str | None) -> Moment:
    before, suffix = _replica(client, wanted)
    entries = {}
    for entry in client.search(suffix, attributes=("*", "+")):
        values = {each.description: each.values for each in entry.attributes}
        (uuid,) = values.get("entryUUID", (b"",))
        entries[uuid.decode()] = facts(entry.dn, _compared(values))
    after, _ = _replica(client, suffix)
    return Moment(entries, before, after)


def _replica(client: LdapClient, wanted: str | None) -> tuple[Vector, str]:
    schema = standard_schema()
    found: dict[str, Vector] = {}
    for entry in client.search(REPLICA_DN, Scope.SUBTREE, "(objectClass=replica)"):
        values = {each.description: each.values for each in entry.attributes}
        found[values["replicaSuffix"][0].decode()] = Vector.parse(values["replicaVector"][0].decode())
    if wanted is not None:
        key = Suffix(wanted, schema).key
        found = {each: vector for each, vector in found.items() if Suffix(each, schema).key == key}
    if len(found) > 1:
        raise InvalidRequest(f"{client.url} serves several suffixes; say --suffix: {', '.join(found)}")
    for suffix, vector in found.items():
        return vector, suffix
    about = "" if wanted is None else f" of {wanted}"
    raise InvalidRequest(
        f"{client.url} does not say which changes{about} it has: it serves none, or another administers them"
    )


def _compared(attributes: dict[str, tuple[bytes, ...]]) -> dict[str, tuple[bytes, ...]]:
    """What must be equal everywhere: all but what the server counts and derives from other entries."""
    return {name: values for name, values in attributes.items() if name not in BOOKKEEPING}
