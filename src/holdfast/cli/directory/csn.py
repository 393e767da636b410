"""``holdfast directory csn``: change sequence numbers for people."""

from datetime import UTC, datetime

from cyclopts import App

from holdfast.cli.output import Output, print_json, print_table, say
from holdfast.model.csn import Csn, compare_text, parse
from holdfast.model.errors import InvalidRequest

EXIT_DONE = 0

app = App(name="csn", help="Change sequence numbers for people.")


@app.command
def decode(*csns: str, output: Output = "table") -> int:
    """Say what change sequence numbers mean: when, in which order, at which master, which part.

    Parameters
    ----------
    csns
        The numbers, in any of their forms: 03626325e0001a1a1, 03626325e-0001-a1a1, 1a1a13626325e0001.
    output
        A table for people, one JSON object for each on a line of its own for scripts.
    """
    if not csns:
        raise InvalidRequest("say which numbers, such as 03626325e0001a1a1")
    found = [parse(each.strip()) for each in csns]
    if output == "json":
        for each in found:
            print_json(_parts(each))
    else:
        print_table(
            ("CSN", "TIME (UTC)", "SEQUENCE", "REPLICA", "PART"),
            [
                (each.hyphenated(), _when(each), each.sequence, each.replica, each.sub_sequence)
                for each in found
            ],
        )
    return EXIT_DONE


@app.command
def compare(first: str, second: str, /, *, output: Output = "table") -> int:
    """Say which of two change sequence numbers is the greater, and whether both are parts of one operation.

    Both have the same form: numbers that begin with 0 are ordered by time, those that begin with 1 by
    replica and then by time, each as its text is.

    Parameters
    ----------
    first, second
        The two numbers.
    output
        A sentence for people, one JSON object for scripts: order is -1, 0 or 1 as the first is less, equal
        or greater.
    """
    order = compare_text(first.strip(), second.strip())
    is_one = parse(first.strip()).is_same_operation(parse(second.strip()))
    if output == "json":
        print_json({"order": order, "is_same_operation": is_one})
    else:
        say(
            f"{first} is {('less than', 'equal to', 'greater than')[order + 1]} {second}; "
            f"they are {'parts of one operation' if is_one else 'two operations'}"
        )
    return EXIT_DONE


def _when(csn: Csn) -> str:
    return datetime.fromtimestamp(csn.timestamp, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _parts(csn: Csn) -> dict[str, object]:
    return {
        "csn": csn.text(),
        "by_replica": csn.replica_text(),
        "timestamp": csn.timestamp,
        "time": _when(csn),
        "sequence": csn.sequence,
        "replica": csn.replica,
        "sub_sequence": csn.sub_sequence,
    }
