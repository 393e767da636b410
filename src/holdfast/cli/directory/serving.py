"""A master and its LDAP door in one process, until it is told to stop."""

import asyncio
import os
import secrets
import signal
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from time import monotonic

from holdfast import __version__
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

    directory: Path
    suffix: str
    replica: int = 1
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


async def plant(serving: Serving, master: Master) -> dict[str, object]:
    """Make the first entries of new data; the answer has the administrator's password if it was made here."""
    password = serving.admin_password or secrets.token_urlsafe(12).encode()
    admin = await master.plant(password, rounds=serving.policy.password_rounds)
    return {"admin_dn": admin, "admin_password": password.decode("utf-8", "replace")}


async def serve(serving: Serving, tell: Callable[[dict[str, object]], None]) -> str | None:
    """Serve until a signal comes; *tell* hears where. Returns what made it end, if that was a failure."""
    loop = asyncio.get_running_loop()
    context = tls_context(serving)
    master = await Master.open(serving.directory, serving.suffix, replica=serving.replica)
    hasher = PasswordThreads(loop)
    ports = DoorPorts(monotonic, secrets.token_bytes, hasher, log.info)
    limits = serving.limits.fitting(allow_open_files())
    server = LdapServer(Service(master.replica, ports, limits, serving.policy, __version__), loop, context)
    try:
        about: dict[str, object] = {"suffix": master.replica.suffix, "pid": os.getpid()}
        about |= await plant(serving, master) if master.is_new else {}
        port = await server.listen(serving.host, serving.port)
        about["ldap"] = f"{serving.host}:{port}"
        if serving.ldaps_port is not None:
            secure = await server.listen(serving.host, serving.ldaps_port, is_tls=True)
            about["ldaps"] = f"{serving.host}:{secure}"
        spare_what_stays()  # the tree and the schema, of which collections would find nothing
        tell(about)
        return await _until_told(loop, master)
    finally:
        await server.close()
        hasher.close()
        await master.stop()


async def _until_told(loop: asyncio.AbstractEventLoop, master: Master) -> str | None:
    stopped = loop.create_future()

    def stop() -> None:
        if not stopped.done():
            stopped.set_result(None)

    for each in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(each, stop)
    await asyncio.wait((stopped, master.failed), return_when=asyncio.FIRST_COMPLETED)
    return master.failed.result() if master.failed.done() else None
