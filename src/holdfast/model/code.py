"""Which code a group's records and states were made by (PROTOCOL E7)."""

import msgspec


class Code(msgspec.Struct, frozen=True, array_like=True):
    """The code of a class: what its author calls it, and what it is."""

    version: str = ""
    """As the class declares it; empty when it declares none."""
    digest: str = ""
    """Of its sources; empty for one that is known by its version alone."""
