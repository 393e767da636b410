"""`holdfast transactions`: the latest updates of the domain's state, as the authority records them."""

from typing import Annotated

import uvloop
from cyclopts import Parameter
from cyclopts.validators import Number

from holdfast.cli.domain import Dir
from holdfast.cli.ordering import give_at
from holdfast.cli.output import Output, print_json, print_table, talk
from holdfast.model.index_orders import TRANSACTIONS_SHOWN_MAX, ListTransactions, TransactionList
from holdfast.node.layout import DIRECTORY_DEFAULT, Layout


def transactions(
    *,
    limit: Annotated[int, Parameter(validator=Number(gte=1, lte=TRANSACTIONS_SHOWN_MAX))] = 20,
    dir: Dir = DIRECTORY_DEFAULT,
    output: Output = "table",
) -> int:
    """Show the latest updates of the domain's state: which were made, and who took part.

    Parameters
    ----------
    limit
        How many at most.
    output
        `table` for people, `json` for machines.
    """
    found = uvloop.run(give_at(Layout(dir), ListTransactions(limit=limit), TransactionList))
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
