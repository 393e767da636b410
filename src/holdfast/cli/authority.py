"""``holdfast authority``: serve the embedded authority, inspect its file, restore it, move the domain."""

import asyncio
import base64
import os
import secrets
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import apsw
import msgspec
import uvloop
from cyclopts import App, Parameter

from holdfast.authority.identity import Identity
from holdfast.authority.server_process import FILE_NAME, AuthorityService, lock_directory, open_store
from holdfast.authority.sqlite_file import Contents, open_database, read_contents, read_identity, restored
from holdfast.authority.sqlite_file import restore as restore_file
from holdfast.cli.complaint import complain
from holdfast.cli.output import Output, print_json, print_table, say, talk
from holdfast.machine import MachineClock, end_on_broken_invariant, log_to_stderr
from holdfast.machine.files import close_to_others, make_private
from holdfast.machine.process_tuning import SHORT_NS, allow_open_files, ask_for_slices
from holdfast.model.errors import InvalidRequest
from holdfast.model.ids import Epoch, Nonce
from holdfast.net import Address, ConnectionSettings, Role, Tls
from holdfast.net import PeerIdentity as NetIdentity
from holdfast.net.secret_file import ensure_secret, read_secret
from holdfast.settings.file import read_applied

app = App(name="authority", help="Serve and inspect an authority, move the domain to another.")
app.command(
    "holdfast.cli.authority_move:move",
    name="move",
    help="Move the domain to another authority while it runs.",
)
app.command(
    "holdfast.cli.authority_move:where",
    name="where",
    help="Say where the domain's authority is, and whether it is being moved.",
)

Directory = Annotated[Path, Parameter(name="--dir")]
"""Where the authority keeps its file."""

VALUE_CHARS_SHOWN = 80
EXIT_DONE, EXIT_DECLINED = 0, 1


@app.command
def serve(
    *,
    dir: Directory,
    listen: str = "127.0.0.1:0",
    domain: str = "holdfast",
    id: str = "authority",
    certs: Path | None = None,
    secret_dir: Path | None = None,
    insecure: bool = False,
) -> None:
    """Serve the authority in DIR until it is told to stop (SIGTERM or Ctrl-C).

    Parameters
    ----------
    dir: Where its file is, or will be created.
    listen: HOST:PORT; port 0 lets the system choose. Other than loopback needs --certs or --insecure.
    domain: The domain it serves; others are refused.
    id: Its own id in the domain.
    certs: Directory of certificates, made by `holdfast certs`.
    secret_dir: Directory of the domain's secret, where there are no certificates (default: DIR).
    insecure: Serve without TLS beyond this machine.
    """
    found = read_applied(dir.parent, os.environ)  # of the domain whose authority this is, if it has any
    if any(name.startswith("output.") for name in found.sources):
        log_to_stderr(found.settings.output.level, found.settings.output.form)
    tls = None if certs is None else Tls.load(certs, Role.AUTHORITY, id)
    close_to_others()
    secret = None
    if tls is None:
        make_private(dir)
        secret = ensure_secret(dir, domain) if secret_dir is None else read_secret(secret_dir, domain)
    endpoint = ConnectionSettings(NetIdentity(domain, Role.AUTHORITY, id), tls=tls, credentials=secret)
    ask_for_slices(SHORT_NS)
    allow_open_files()
    uvloop.run(_serve(dir, Address.parse(listen), endpoint, insecure))


@app.command
def inspect(*, dir: Directory, prefix: str = "", limit: int = 1000, output: Output = "table") -> None:
    """Show identity, leases and keys of a stopped authority.

    Parameters
    ----------
    dir: Where its file is.
    prefix: Only keys that start with this.
    limit: At most so many keys.
    output: How to show them.
    """
    with _stopped(dir) as db:
        found = read_contents(db, prefix=prefix, limit=limit)
    if output == "json":
        print_json(_as_json(found))
        return
    talk.print(f"{found.identity.id}, generation {found.identity.generation}, revision {found.revision}")
    print_table(("lease", "seconds", "keys"), [(each.id, each.seconds, each.keys) for each in found.leases])
    rows = [(item.key, item.modified, item.lease or "", _shortened(item.value)) for item in found.items]
    print_table(("key", "modified", "lease", "value"), rows)
    if found.more:
        talk.print(f"there are more keys; see --limit (now {limit}) and --prefix")


@app.command
def restore(*, dir: Directory, above_epoch: int, yes: bool = False, dry_run: bool = False) -> int:
    """Let a stopped authority continue from an old copy of its file, above every epoch in use.

    Parameters
    ----------
    dir: Where its file is.
    above_epoch: The highest epoch in any host's log; `holdfast log inspect` shows it.
    yes: Do not ask for confirmation.
    dry_run: Only show what would change.
    """
    with _stopped(dir) as db:
        before = read_identity(db)
        nonce, wall_ns = Nonce(secrets.token_hex(8)), MachineClock().wall()
        _show_restore(before, restored(before, Epoch(above_epoch), nonce=nonce, wall_ns=wall_ns))
        if dry_run or not (yes or _agrees()):
            talk.print("nothing was changed")
            return EXIT_DONE if dry_run else EXIT_DECLINED
        restore_file(db, Epoch(above_epoch), nonce=nonce, wall_ns=wall_ns)
    talk.print("restored; start the authority, then the hosts")
    return EXIT_DONE


async def _serve(directory: Path, address: Address, endpoint: ConnectionSettings, insecure: bool) -> None:
    lock = lock_directory(directory)
    service = AuthorityService(open_store(directory))
    loop = asyncio.get_running_loop()
    end_on_broken_invariant(loop)
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    listening = await service.listen(address, endpoint, insecure=insecure)
    say(f"authority listening on {listening}")
    stopping = asyncio.ensure_future(stop.wait())
    await asyncio.wait((stopping, service.failed), return_when=asyncio.FIRST_COMPLETED)
    if service.failed.done():
        _end_at_once(service.failed.exception())
    await service.close()
    lock.release()


def _end_at_once(error: BaseException | None) -> None:
    """End without closing anything: the next process finds out what the file holds now (A6)."""
    complain(Exception(f"the authority ends: {error}"))
    sys.stderr.flush()
    os._exit(1)


@contextmanager
def _stopped(directory: Path) -> Iterator[apsw.Connection]:
    """The database of an authority that is not running. If it is running, ``LockHeld`` names the process."""
    file = directory / FILE_NAME
    if not file.is_file():
        raise InvalidRequest(f"{directory} holds no authority (no {FILE_NAME})")
    lock = lock_directory(directory)
    db = open_database(str(file))
    try:
        yield db
    finally:
        db.close()
        lock.release()


def _as_json(found: Contents) -> dict[str, object]:
    return {
        "identity": found.identity,
        "revision": found.revision,
        "oldest_event": found.oldest_event,
        "leases": found.leases,
        "keys": [
            {
                "key": item.key,
                "value": _readable(item.value),
                "created": item.created,
                "modified": item.modified,
                "lease": item.lease,
            }
            for item in found.items
        ],
        "more": found.more,
    }


def _readable(value: bytes) -> object:
    """The value as JSON, which the authority's own values are; anything else in base64."""
    try:
        return msgspec.json.decode(value)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return {"base64": base64.b64encode(value).decode()}


def _shortened(value: bytes) -> str:
    text = msgspec.json.encode(_readable(value)).decode()
    return text if len(text) <= VALUE_CHARS_SHOWN else text[: VALUE_CHARS_SHOWN - 1] + "…"


def _show_restore(before: Identity, after: Identity) -> None:
    rows: list[tuple[str, int, int]] = [("generation", before.generation, after.generation)]
    floors_before, floors_after = msgspec.structs.asdict(before.floors), msgspec.structs.asdict(after.floors)
    rows += [(f"{name} numbers above", floors_before[name], floors_after[name]) for name in floors_after]
    print_table(("", "now", "after"), rows, title=f"restoring {before.id}")


def _agrees() -> bool:
    talk.print(
        "Every host with a higher epoch in its log will refuse this authority. Continue? [y/N] ", end=""
    )
    return sys.stdin.readline().strip().lower() in ("y", "yes")
