"""``holdfast directory check``: do two masters have the same?"""

from pathlib import Path
from time import monotonic, sleep

from holdfast.cli.directory.sources import Administrator, moment_of
from holdfast.cli.output import Output, print_json, say
from holdfast.directory.interchange.comparing import Comparing, Comparison
from holdfast.model.errors import InvalidRequest

EXIT_DONE, EXIT_FAILED = 0, 1
PAUSE_S = 0.5
SHOWN_MAX = 100
WAIT_MAX_S = 86_400.0


def check(
    first: str,
    second: str,
    *,
    suffix: str | None = None,
    wait: float = 30.0,
    bind_dn: str | None = None,
    password_file: Path | None = None,
    output: Output = "table",
) -> int:
    """Compare what two masters show, entry by entry, while they serve or not.

    Changes on their way from one to the other are no difference: what both have at one moment is compared, or
    what differs the same way before and after both had all that either had. Exit code 0: the same; 1: not.

    Parameters
    ----------
    first
        A master: its address, such as ldap://127.0.0.1:1389, or the directory of its files.
    second
        The other.
    suffix
        Of which suffix, if they have several.
    wait
        For how many seconds to look again while changes are on their way.
    bind_dn
        As whom to ask over LDAP: an administrator.
    password_file
        A file with that one's password on its first line.
    output
        Lines for people, one JSON object for scripts.
    """
    if not 0 <= wait <= WAIT_MAX_S:
        raise InvalidRequest(f"--wait is from 0 to {WAIT_MAX_S:g} seconds, not {wait:g}")
    who = Administrator(bind_dn, password_file)
    comparing = Comparing()
    end = monotonic() + wait
    while True:
        found = comparing.look(moment_of(first, who, suffix), moment_of(second, who, suffix))
        if not found.open or monotonic() >= end:
            break
        sleep(PAUSE_S)
    _tell(found, output)
    return EXIT_DONE if not found.real and not found.open else EXIT_FAILED


def _tell(found: Comparison, output: Output) -> None:
    if output == "json":
        print_json(
            {
                "entries": found.entries,
                "different": [str(each) for each in found.real[:SHOWN_MAX]],
                "on_their_way": [str(each) for each in found.open[:SHOWN_MAX]],
                "is_same": not found.real and not found.open,
            }
        )
        return
    if not found.real and not found.open:
        say(f"{found.entries} entries: both have the same")
        return
    for what, differences in (("different", found.real), ("still on its way", found.open)):
        for each in differences[:SHOWN_MAX]:
            say(f"{what}: {each}")
        if len(differences) > SHOWN_MAX:
            say(f"{what}: {len(differences) - SHOWN_MAX} more")
    say(
        f"{found.entries} entries: {len(found.real)} differ"
        + (f", {len(found.open)} changes have not arrived yet (--wait)" if found.open else "")
    )
