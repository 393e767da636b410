"""Which domain a command is about: one on this machine, by its directory, or any that can be reached.

Every command that asks a running domain takes the same options (:class:`Where`). One that reads or changes
the files of a domain, or signals its processes, takes only the directory (:data:`Dir`).
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final

from cyclopts import Parameter

from holdfast.client.url import parse_url
from holdfast.model.errors import InvalidRequest
from holdfast.net import Address
from holdfast.node.endpoints import ADMIN_ID
from holdfast.node.layout import DIRECTORY_DEFAULT, Layout

DIRECTORY_VARIABLE: Final = "HOLDFAST_DIR"

Dir = Annotated[
    Path, Parameter(name="--dir", env_var=DIRECTORY_VARIABLE, help="The domain's directory on this machine.")
]


@dataclass(frozen=True, slots=True)
class Remote:
    """A domain that is reached by its addresses alone."""

    domain: str
    addresses: tuple[Address, ...]
    certs: Path | None = None
    name: str = ADMIN_ID
    insecure: bool = False
    dir: Path = DIRECTORY_DEFAULT
    """Where the domain's secret is, if it is asked without certificates."""


Target = Layout | Remote
"""A domain as commands reach it."""


@Parameter(name="*")
@dataclass(frozen=True, slots=True)
class Where:
    """The options that say which running domain a command asks."""

    dir: Dir = DIRECTORY_DEFAULT
    """With ``connect`` and without certificates, the directory whose secret is shown."""
    connect: Annotated[
        str,
        Parameter(
            help="Ask the domain at holdfast://HOST:PORT[,HOST:PORT...]/DOMAIN: with --certs, or on this "
            "machine with the secret in --dir.",
        ),
    ] = ""
    certs: Annotated[
        Path | None,
        Parameter(help="With --connect: the directory with ca.pem and an admin's certificate."),
    ] = None
    admin: Annotated[
        str, Parameter(name="--as", help="With --certs: the admin whose certificate is shown.")
    ] = ADMIN_ID
    insecure: Annotated[
        bool, Parameter(negative="", help="With --connect: use plain TCP to another machine.")
    ] = False

    @property
    def target(self) -> Target:
        """The domain that is meant. Raises ``InvalidRequest`` for options that contradict each other."""
        if not self.connect:
            if self.certs is not None or self.insecure:
                raise InvalidRequest("--certs and --insecure say how to reach the domain of --connect")
            return Layout(self.dir)
        domain, addresses, key = parse_url(self.connect)
        if key is not None:
            raise InvalidRequest("a key admits programs; a command shows --certs, or the secret in --dir")
        return Remote(domain, tuple(addresses), self.certs, self.admin, self.insecure, self.dir)


HERE: Final = Where()
