"""The table of what is fuzzed: each target, the module here that has it, and what the search looks into.

It imports nothing of Holdfast, so that the search can instrument a target's packages before they are loaded.
To fuzz another parser: a function and its seeds in a module here, and one line below.
"""

from typing import Final, NamedTuple


class Entry(NamedTuple):
    """One target."""

    module: str
    """The module of this folder whose ``TARGETS`` has it."""
    packages: tuple[str, ...]
    """What is instrumented: the packages that read the input."""
    about: str


TABLE: Final = {
    "filters": Entry("targets", ("holdfast.faults",), "constraints on fault events"),
    "events": Entry("targets", ("holdfast.faults",), "fault events"),
    "manifests": Entry("targets", ("holdfast.shipping",), "manifests of shipped files"),
    "ldap": Entry("directory_targets", ("holdfast.ldap", "holdfast.directory"), "LDAP messages"),
    "ldap_session": Entry("door_targets", ("holdfast.ldap", "holdfast.directory"), "LDAP conversations"),
    "ldap_quick": Entry("door_targets", ("holdfast.ldap",), "LDAP searches, with and without the quick way"),
    "dn": Entry("directory_targets", ("holdfast.directory",), "names of entries"),
    "search_filter": Entry("directory_targets", ("holdfast.directory",), "LDAP search filters"),
    "ldif": Entry("directory_targets", ("holdfast.directory",), "LDIF"),
    "entry_text": Entry("directory_targets", ("holdfast.directory",), "entries with their CSNs, as LDIF"),
    "changelog_text": Entry(
        "directory_targets", ("holdfast.directory",), "the directory's changelog, as LDIF"
    ),
    "schema": Entry("directory_targets", ("holdfast.directory",), "schema descriptions"),
    "frames": Entry("wire_targets", ("holdfast.net.frame",), "frames of a connection"),
    "calls": Entry("wire_targets", ("holdfast.model",), "messages of clients to hosts"),
    "orders": Entry("wire_targets", ("holdfast.model",), "orders to hosts"),
    "datagrams": Entry("wire_targets", ("holdfast.streams",), "datagrams of stream sources and members"),
    "settings": Entry("wire_targets", ("holdfast.settings",), "holdfast.toml"),
}


def known_or_why(target: str) -> str:
    """Why there is no such target, with those there are; empty if there is one."""
    if target in TABLE:
        return ""
    lines = [f"no target {target!r}; there are:", *(f"  {name:14} {TABLE[name].about}" for name in TABLE)]
    return "\n".join(lines)
