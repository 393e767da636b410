"""What people type after ``holdfast directory``."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import App, Parameter

from holdfast.cli.directory.running import checked_replica, run
from holdfast.cli.directory.serving import Serving, opened, plant, said, serve
from holdfast.cli.output import Output, print_json, say, talk
from holdfast.directory.holdings import Holding, holdings_of, is_same, names_of, new_holdings
from holdfast.directory.master import top_entry
from holdfast.directory.replica.snapshot import Suffix
from holdfast.directory.schema.standard import standard_schema
from holdfast.ldap.service import DoorPolicy
from holdfast.machine import log_to_stderr
from holdfast.model.errors import InvalidRequest

EXIT_DONE, EXIT_FAILED = 0, 1
DEFAULT_PORT = 1389
PASSWORD_FILE_BYTES_MAX = 1_024

app = App(name="directory", help="Run an LDAP directory of one master or of many.")
app.command("holdfast.cli.directory.start:start", name="start", help="Run a directory of several masters.")
app.command("holdfast.cli.directory.topology:status", name="status", help="Show masters, links and lag.")
app.command("holdfast.cli.directory.topology:lag", name="lag", help="Show how far masters are behind.")
app.command("holdfast.cli.directory.topology:ruv", name="ruv", help="Show what each master has.")
app.command("holdfast.cli.directory.changing:cut", name="cut", help="Stop replication between two masters.")
app.command("holdfast.cli.directory.changing:heal", name="heal", help="Resume it.")
app.command("holdfast.cli.directory.changing:join", name="join", help="Let one more host have a replica.")
app.command("holdfast.cli.directory.changing:retire", name="retire", help="Let a host have none any more.")
app.command(
    "holdfast.cli.directory.changing:initialise", name="initialise", help="Fill a replica anew from another."
)
app.command("holdfast.cli.directory.changing:clock", name="clock", help="Put clocks right.")


@app.command
def init(
    *,
    dir: Path,
    suffix: list[str],
    replica_id: int | None = None,
    admin_password_file: Path | None = None,
    output: Output = "table",
) -> int:
    """Make the files of a new directory: the suffix's own entry, and its administrator.

    Where a directory is, another suffix is added to it; a master that is being served serves it from its next
    start on.

    Parameters
    ----------
    dir
        Where the directory keeps its files; it is made, and readable by this user alone.
    suffix
        The name of the tree's top, such as dc=example,dc=com. Said several times, each is made, with files
        and an administrator of its own.
    replica_id
        The number of this master, from 1 to 65534, 1 if nothing else is said. No two masters of a suffix have
        the same.
    admin_password_file
        A file with the administrator's password on its first line. Without it one is made, and shown once.
    output
        A sentence for people, one JSON object for scripts.
    """
    found = holdings_of(dir)
    known = [each for each in found if any(is_same(each.about.suffix, name) for name in suffix)]
    if known:
        raise InvalidRequest(
            f"{dir} holds a directory already: {names_of(known)}; `holdfast directory serve --dir {dir}` "
            "runs it"
        )
    made = new_holdings(dir, found, _possible(suffix), replica_id)
    serving = _serving(made, admin_password_file=admin_password_file)

    async def make() -> list[dict[str, object]]:
        async with opened(made) as masters:
            return await plant(serving, masters)

    told = run(make())
    if output == "json":
        print_json(said(told))
        return EXIT_DONE
    for each in told:
        say(f"{each['suffix']} is in {dir}; its administrator is {each['admin_dn']}")
    if admin_password_file is None:
        say(f"password (shown this once): {told[0]['admin_password']}")
    return EXIT_DONE


@app.command(name="serve")
def serve_(
    *,
    dir: Path,
    suffix: list[str] | None = None,
    replica_id: int | None = None,
    host: str = "127.0.0.1",
    port: int = DEFAULT_PORT,
    ldaps_port: int | None = None,
    certificate: Path | None = None,
    key: Path | None = None,
    ca: Path | None = None,
    anonymous_read: bool = True,
    require_tls: Annotated[bool, Parameter(negative="")] = False,
    admin_password_file: Path | None = None,
    log: Literal["debug", "info", "warning", "error"] = "warning",
    output: Output = "table",
) -> int:
    """Run one master of a directory in the foreground, and say where it is reached.

    What is not there yet is made as `directory init` would. SIGTERM and Ctrl-C stop it; what was answered is
    on the disk.

    Parameters
    ----------
    dir
        Where the directory keeps its files.
    suffix
        The name of the tree's top; may be left out if the files are there. Said several times, all are served
        at one port; to add one to those that are there, name one of them as well.
    replica_id
        The number of this master, 1 if nothing else is said; may be left out if the files are there.
    host
        The address to listen at. Only clients of this machine reach the default.
    port
        The port for LDAP (with StartTLS, if there is a certificate); 0 takes any that is free.
    ldaps_port
        The port for LDAPS; 0 takes any that is free. Without it there is none.
    certificate
        The server's certificate, with its chain (PEM).
    key
        Its private key (PEM), if it is not in the same file.
    ca
        Certificates of those whose client certificates are trusted, for SASL EXTERNAL (PEM).
    anonymous_read
        Whether clients that have not bound may read where no entry says otherwise (anonymousRead).
    require_tls
        Take passwords over TLS alone.
    admin_password_file
        For new files: a file with the administrator's password on its first line.
    log
        How much is told on the standard error; from info on, every change with its CSN and who made it.
    output
        Lines for people, one JSON object on one line for scripts.
    """
    log_to_stderr(log)
    serving = _serving(
        _wanted(dir, suffix or (), replica_id),
        admin_password_file=admin_password_file,
        host=host,
        port=port,
        ldaps_port=ldaps_port,
        certificate=certificate,
        key=key,
        ca=ca,
        policy=DoorPolicy(anonymous_read=anonymous_read, require_tls=require_tls),
    )
    names = names_of(serving.holdings).replace(", ", " and ") if len(serving.holdings) > 1 else ""

    def tell(about: dict[str, object]) -> None:
        if output == "json":
            print_json(about)
            return
        say(f"{names or about['suffix']} {'are' if names else 'is'} served at ldap://{about['ldap']}")
        if "ldaps" in about:
            say(f"and at ldaps://{about['ldaps']}")
        told = about.get("suffixes", [about])
        assert isinstance(told, list), "one for each suffix"
        made = [each for each in told if "admin_dn" in each]
        for each in made:
            say(f"administrator: {each['admin_dn']}")
        if made and admin_password_file is None:
            say(f"password (shown this once): {made[0]['admin_password']}")
        say(f"try: ldapsearch -x -H ldap://{about['ldap']} -b {about['suffix']}")

    failure = run(serve(serving, tell))
    if failure is not None:
        talk.print(f"the directory has stopped: {failure}")
        return EXIT_FAILED
    return EXIT_DONE


def _wanted(directory: Path, suffixes: Sequence[str], replica_id: int | None) -> tuple[Holding, ...]:
    """What is to be served: all that is there, and what is named and is to be made."""
    found = holdings_of(directory)
    if not found and not suffixes:
        raise InvalidRequest(f"{directory} holds no directory yet: say --suffix, such as dc=example,dc=com")
    made = new_holdings(directory, found, _possible(suffixes), replica_id)
    if found and made and not any(is_same(each.about.suffix, name) for each in found for name in suffixes):
        raise InvalidRequest(f"{directory} holds {names_of(found)}, not {names_of(made)}; name both")
    for each in found:
        if replica_id is not None and replica_id != each.about.replica:
            raise InvalidRequest(
                f"{directory} holds replica {each.about.replica} of {each.about.suffix}, "
                f"not replica {replica_id}"
            )
    return (*found, *made)


def _possible(suffixes: Iterable[str]) -> tuple[str, ...]:
    """These suffixes. Asked before any file is made: a name that cannot be one, or has no class for its top,
    is refused."""
    for each in suffixes:
        top_entry(Suffix(each, standard_schema()).dn, each)
    return tuple(suffixes)


def _serving(holdings: tuple[Holding, ...], *, admin_password_file: Path | None, **rest: object) -> Serving:
    for each in holdings:
        checked_replica(each.about.replica)
    password = None if admin_password_file is None else first_line(admin_password_file)
    return Serving(holdings=holdings, admin_password=password, **rest)  # type: ignore[arg-type]  # the fields are those of the options above


def first_line(file: Path) -> bytes:
    with file.open("rb") as opened:
        line = opened.read(PASSWORD_FILE_BYTES_MAX + 1).split(b"\n", 1)[0].rstrip(b"\r")
    if not 0 < len(line) <= PASSWORD_FILE_BYTES_MAX:
        raise InvalidRequest(
            f"{file}: a password of 1 to {PASSWORD_FILE_BYTES_MAX} bytes is expected on its first line"
        )
    return line


app.command("holdfast.cli.directory.interchange:export", name="export", help="Write entries as LDIF.")
app.command("holdfast.cli.directory.interchange:import_", name="import", help="Read entries from an LDIF.")
app.command("holdfast.cli.directory.changelog:app", name="changelog", help="The changelog as text.")
app.command("holdfast.cli.directory.conflicts:app", name="conflicts", help="List and resolve conflicts.")
app.command("holdfast.cli.directory.csn:app", name="csn", help="Change sequence numbers for people.")
app.command("holdfast.cli.directory.check:check", name="check", help="Compare two masters.")
