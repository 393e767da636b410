"""`holdfast domain recover` and `holdfast transactions`: the domain's own state.

The first continues from one host's copy of the desired state when nobody holds the newest any more. The
second shows the latest updates, as the authority records them.
"""

import sys
from typing import Annotated

import uvloop
from cyclopts import App, Parameter
from cyclopts.validators import Number

from holdfast.cli.admin import check_host, give_at, host_ids_at
from holdfast.cli.output import Output, is_agreed, print_json, print_table, talk
from holdfast.cli.where import HERE, Target, Where
from holdfast.model.admin.domain import (
    TRANSACTIONS_SHOWN_MAX,
    DomainInspected,
    InspectDomain,
    ListTransactions,
    RecoverDomain,
    TransactionList,
)
from holdfast.model.errors import HoldfastError, InvalidRequest, OutcomeUnknown
from holdfast.model.ids import HostId

EXIT_DONE, EXIT_DECLINED = 0, 1

app = App(name="domain", help="The domain's own state.")


@app.command
def recover(
    *,
    source: Annotated[str | None, Parameter(name="--from")] = None,
    yes: Annotated[bool, Parameter(negative="")] = False,
    at: Where = HERE,
    output: Output = "table",
) -> int:
    """Continue from one host's copy of the desired state, if the hosts with the newest are lost for good.

    The desired state holds properties, hosts to be drained, and indexes.

    Shows what each host holds, and asks. Groups, their members and their states are not touched: they keep
    serving in any case. Without --from it only shows.

    Parameters
    ----------
    source
        The host to continue from.
    yes
        Do not ask.
    output
        `table` for people, `json` for machines.
    """
    target = at.target
    found = uvloop.run(_inspect(target))
    if source is None or output == "table":
        _show(found, output)
    if source is None:
        return EXIT_DONE
    held = _held(found, check_host(target, source))
    if not yes and not _is_agreed(held):
        talk.print("nothing was changed")
        return EXIT_DECLINED
    done = uvloop.run(give_at(target, RecoverDomain(cas=held.cas), DomainInspected, host=held.host))
    if output == "json":
        print_json(done)
    else:
        talk.print(f"the domain goes on from what {held.host} holds")
    return EXIT_DONE


async def _inspect(target: Target) -> tuple[DomainInspected, ...]:
    """What the hosts that answer hold."""
    found = []
    for host in await host_ids_at(target):
        try:
            found.append(await give_at(target, InspectDomain(), DomainInspected, host=host))
        except (HoldfastError, OutcomeUnknown) as error:
            talk.print(f"{host}: {error}", markup=False)
    return tuple(found)


def _show(found: tuple[DomainInspected, ...], output: Output) -> None:
    if output == "json":
        print_json(found)
        return
    print_table(
        ("host", "role", "holds the wishes of", "committed are those of"),
        ((each.host, each.role, each.cas, each.committed_cas) for each in found),
    )
    for each in found:
        if each.role == "coordinator":  # by its own word: others may still believe in one that is gone
            talk.print(f"{each.host} coordinates the domain: nothing is to be recovered")


def _held(found: tuple[DomainInspected, ...], host: HostId) -> DomainInspected:
    for each in found:
        if each.host == host:
            return each
    raise InvalidRequest(f"{host} does not say what it holds; start it first (`holdfast status`)")


def _is_agreed(held: DomainInspected) -> bool:
    """Ask the person; refuse if there is none to ask."""
    lost = f"what was wished for after update {held.cas}, up to {held.committed_cas}, is lost"
    talk.print(f"{lost if held.cas < held.committed_cas else 'nothing is lost'}. This cannot be undone.")
    if not sys.stdin.isatty():
        raise InvalidRequest("nobody is there to be asked; say --yes if this is meant")
    return is_agreed(f"Go on from {held.host}? [y/N] ")


def transactions(
    *,
    limit: Annotated[int, Parameter(validator=Number(gte=1, lte=TRANSACTIONS_SHOWN_MAX))] = 20,
    at: Where = HERE,
    output: Output = "table",
) -> int:
    """Show the latest updates of the domain's state: which were made, and which hosts took part.

    Parameters
    ----------
    limit
        How many at most.
    output
        `table` for people, `json` for machines.
    """
    found = uvloop.run(give_at(at.target, ListTransactions(limit=limit), TransactionList))
    if output == "json":
        print_json(found)
        return 0
    print_table(
        ("cas", "term", "status", "participants"),
        ((each.cas, each.term, each.status, ", ".join(each.participants)) for each in found.transactions),
    )
    who = (
        f"{found.coordinator} coordinates term {found.term}"
        if found.coordinator
        else "nobody coordinates now"
    )
    talk.print(f"{who}; the state is that of {found.cas}", markup=False)
    return 0
