"""The `holdfast` command. Each noun is a module of this package, loaded only when it is needed."""

import os
import sys

from cyclopts import App, CycloptsError

from holdfast import __version__
from holdfast.cli.complaint import complain
from holdfast.machine import log_to_stderr
from holdfast.model.errors import HoldfastError, InvalidRequest, OutcomeUnknown

EXIT_DONE, EXIT_FAILED, EXIT_MISUSED, EXIT_UNKNOWN = 0, 1, 2, 3

app = App(
    name="holdfast",
    help="Fault tolerance for Python services.",
    version=__version__,
)
app.command("holdfast.cli.sim:app", name="sim", help="Run the deterministic simulator.")
app.command("holdfast.cli.check:command", name="check", help="Warn of what replicas would not do alike.")
app.command("holdfast.cli.log:app", name="log", help="Look into the log of a stopped host.")
app.command("holdfast.cli.bench:app", name="bench", help="Measure, beside a peer or the machine's limit.")
app.command("holdfast.cli.authority:app", name="authority", help="Serve and inspect an authority.")
app.command("holdfast.cli.certs:app", name="certs", help="Make a domain's certificates.")
app.command("holdfast.cli.key:app", name="key", help="Make keys for clients, and keep others'.")
app.command("holdfast.cli.domain:up", name="up", help="Start a domain on this machine.")
app.command("holdfast.cli.domain:down", name="down", help="Stop the domain.")
app.command("holdfast.cli.domain:status", name="status", help="Show hosts, agent and authority.")
app.command("holdfast.cli.demo:demo", name="demo", help="See a service survive kills and pauses, counted.")
app.command("holdfast.cli.soak:soak", name="soak", help="Every kind of fault for an hour, all counted.")
app.command(
    "holdfast.cli.group.commands:app", name="group", help="Create, show, move, recover and delete groups."
)
app.command("holdfast.cli.call:call", name="call", help="Call a method of a group.")
app.command("holdfast.cli.chaos:app", name="chaos", help="Break something, to see it survive.")
app.command(
    "holdfast.cli.properties:app", name="properties", help="Show and change what groups shall be like."
)
app.command("holdfast.cli.config:app", name="config", help="Show, check and apply settings.")
app.command("holdfast.cli.process:hosts", name="host", help="Show, restart and empty hosts.")
app.command(
    "holdfast.cli.show.shipping:app", name="shipping", help="Show the files that hosts send each other."
)
app.command("holdfast.cli.machine:app", name="machine", help="Let machines join and leave a domain.")
app.command("holdfast.cli.hosts:restart_all", name="restart", help="Restart all hosts while groups serve.")
app.command(
    "holdfast.cli.streams:app",
    name="stream",
    help="Bind streams to groups, and see what became of lost messages.",
)
app.command("holdfast.cli.indexes:app", name="index", help="Create, drop and list indexes.")
app.command(
    "holdfast.cli.domain_state:transactions", name="transactions", help="Show changes of the domain's state."
)
app.command("holdfast.cli.domain_state:app", name="domain", help="Recover the domain's own state.")
app.command("holdfast.cli.explain:explain", name="explain", help="Say why a group is as it is.")
app.command("holdfast.cli.faults:app", name="faults", help="Show faults as they happen; check filters.")
app.command(
    "holdfast.cli.directory.commands:app",
    name="directory",
    help="Run an LDAP directory.",
)
app.command("holdfast.cli.process:agent", name="agent", show=False)


def main() -> None:
    """Run the command line; the exit code says how it ended: 0 done, 1 failed, 2 misused, 3 unknown."""
    log_to_stderr("warning")
    try:
        code = app(result_action="return_value", exit_on_error=False)
    except HoldfastError as error:
        complain(error)
        sys.exit(exit_code(error))
    except BrokenPipeError:
        # The reader of our output has gone and cannot be told; nor can the flush at the end of the process.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(EXIT_FAILED)
    except OSError as error:
        complain(error)
        sys.exit(EXIT_FAILED)
    except CycloptsError:
        sys.exit(EXIT_MISUSED)
    except KeyboardInterrupt:
        sys.exit(130)
    sys.exit(code if isinstance(code, int) else EXIT_DONE)


def exit_code(error: HoldfastError) -> int:
    if isinstance(error, OutcomeUnknown):
        return EXIT_UNKNOWN
    return EXIT_MISUSED if isinstance(error, InvalidRequest) else EXIT_FAILED
