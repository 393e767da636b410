"""A few entries to look at, for a directory that somebody starts to try it out (`make run`)."""

from collections.abc import Iterator
from typing import Final

from holdfast.directory.operations import AddRequest, Attribute

PERSONS: Final = (
    ("ada", "Ada", "Lovelace"),
    ("alan", "Alan", "Turing"),
    ("barbara", "Barbara", "Liskov"),
    ("leslie", "Leslie", "Lamport"),
    ("nancy", "Nancy", "Lynch"),
)


def sample_entries(suffix: str) -> Iterator[AddRequest]:
    """Two units, five persons and a group below *suffix*, each after what is above it."""
    for unit in ("people", "groups"):
        yield _add(f"ou={unit},{suffix}", objectClass=("organizationalUnit",), ou=(unit,))
    for uid, given, last in PERSONS:
        yield _add(
            f"uid={uid},ou=people,{suffix}",
            objectClass=("inetOrgPerson",),
            uid=(uid,),
            cn=(f"{given} {last}",),
            givenName=(given,),
            sn=(last,),
            mail=(f"{uid}@example.com",),
        )
    yield _add(
        f"cn=distributed systems,ou=groups,{suffix}",
        objectClass=("groupOfNames",),
        cn=("distributed systems",),
        member=tuple(f"uid={uid},ou=people,{suffix}" for uid in ("barbara", "leslie", "nancy")),
    )


def _add(dn: str, **attributes: tuple[str, ...]) -> AddRequest:
    return AddRequest(
        dn,
        tuple(
            Attribute(name, tuple(value.encode() for value in values)) for name, values in attributes.items()
        ),
    )
