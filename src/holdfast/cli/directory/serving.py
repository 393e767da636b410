"""The masters of one or of several suffixes and their LDAP door in one process, until it is told to stop."""

import asyncio
import os
import secrets
import signal
import ssl
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from time import monotonic

from holdfast import __version__
from holdfast.directory.holdings import Holding
from holdfast.directory.master import Master
from holdfast.ldap.limits import DEFAULT, DoorLimits
from holdfast.ldap.password_threads import PasswordThreads
from holdfast.ldap.server import LdapServer
from holdfast.ldap.service import DEFAULT_POLICY, DoorPolicy, DoorPorts, Service
from holdfast.ldap.tls_files import DoorFiles, DoorTls
from holdfast.machine.process_tuning import allow_open_files, spare_what_stays
from holdfast.machine.trace import LibraryLog
from holdfast.model.errors import InvalidRequest

log = LibraryLog("directory")


@dataclass(frozen=True, slots=True, kw_only=True)
class Serving:
    """What is to be served, and where."""

    holdings: tuple[Holding, ...]
    """At least one; the first is what a client hears of that asks for no suffix."""
    host: str = "127.0.0.1"
    port: int = 0
    ldaps_port: int | None = None
    certificate: Path | None = None
    key: Path | None = None
    ca: Path | None = None
    admin_password: bytes | None = None
    policy: DoorPolicy = DEFAULT_POLICY
    limits: DoorLimits = DEFAULT


def tls_context(serving: Serving) -> ssl.SSLContext | None:
    """The door's TLS, if it has a certificate. With a CA, clients may prove who they are (EXTERNAL)."""
    if serving.certificate is None:
        if serving.ldaps_port is not None or serving.key is not None or serving.ca is not None:
            raise InvalidRequest("TLS needs a certificate: --certificate FILE, and --key FILE")
        return None
    return DoorTls(DoorFiles(serving.certificate, serving.key, serving.ca)).context


async def plant(serving: Serving, masters: Sequence[Master]) -> list[dict[str, object]]:
    """Make the first entries of those that are new. For each suffix, the administrator and the password if
    they were made here; one password for all."""
    password = serving.admin_password or secrets.token_urlsafe(12).encode()
    told: list[dict[str, object]] = []
    for each in masters:
        about: dict[str, object] = {"suffix": each.replica.suffix}
        if each.is_new:
            about["admin_dn"] = await each.plant(password, rounds=serving.policy.password_rounds)
            about["admin_password"] = password.decode("utf-8", "replace")
        told.append(about)
    return told


def said(told: list[dict[str, object]]) -> dict[str, object]:
    """One object for scripts: what is said of the first suffix, and of all if there are several."""
    return {**told[0], **({"suffixes": told} if len(told) > 1 else {})}


@asynccontextmanager
async def opened(holdings: Sequence[Holding]) -> AsyncIterator[list[Master]]:
    """The masters of these files; those that are not there are made."""
    masters: list[Master] = []
    try:
        for place, about in holdings:
            masters.append(await Master.open(place, about.suffix, replica=about.replica))
        yield masters
    finally:
        for each in reversed(masters):
            await each.stop()


async def serve(serving: Serving, tell: Callable[[dict[str, object]], None]) -> str | None:
    """Serve until a signal comes; *tell* hears where. Returns what made it end, if that was a failure."""
    loop = asyncio.get_running_loop()
    context = tls_context(serving)
    async with opened(serving.holdings) as masters:
        hasher = PasswordThreads(loop)
        ports = DoorPorts(monotonic, secrets.token_bytes, hasher, log.info)
        limits = serving.limits.fitting(allow_open_files())
        service = Service(masters[0].replica, ports, limits, serving.policy, __version__)
        server = LdapServer(service, loop, context)
        try:
            about = said(await plant(serving, masters)) | {"pid": os.getpid()}
            for each in masters[1:]:
                service.add(each.replica)
            port = await server.listen(serving.host, serving.port)
            about["ldap"] = f"{serving.host}:{port}"
            if serving.ldaps_port is not None:
                secure = await server.listen(serving.host, serving.ldaps_port, is_tls=True)
                about["ldaps"] = f"{serving.host}:{secure}"
            spare_what_stays()  # the tree and the schema, of which collections would find nothing
            tell(about)
            return await _until_told(loop, masters)
        finally:
            await server.close()
            hasher.close()


async def _until_told(loop: asyncio.AbstractEventLoop, masters: Sequence[Master]) -> str | None:
    stopped = loop.create_future()

    def stop() -> None:
        if not stopped.done():
            stopped.set_result(None)

    for each in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(each, stop)
    failed = [each.failed for each in masters]
    await asyncio.wait((stopped, *failed), return_when=asyncio.FIRST_COMPLETED)
    return next((each.result() for each in failed if each.done()), None)
