"""``holdfast faults``: so far, whether a filter is right, and what it would let through."""

from typing import Final

from cyclopts import App

from holdfast.cli.output import Output, print_json, print_table, talk
from holdfast.faults.events import Location
from holdfast.faults.filters import InvalidConstraint, Truth, evaluate, parse
from holdfast.faults.filters.tree import written
from holdfast.faults.reports import FaultKind, FaultReport
from holdfast.model.ids import GroupId

app = App(name="faults", help="Faults, and the filters that choose among them.")

EXIT_RIGHT, EXIT_WRONG = 0, 2
SHELL_HINT = "within double quotes a shell takes $names for its own; put the filter into single quotes"

_HOST: Final = Location.parse("host2", "hostname")
_PROCESS: Final = Location.parse("host2/process1", "hostname", "processname")
_MEMBER: Final = (_PROCESS, "bank:Ledger", GroupId(7))
EXAMPLES: Final[dict[str, FaultReport]] = {
    "a member crashed": FaultReport(FaultKind.OBJECT_CRASH, "main", *_MEMBER),
    "all members of a type crashed": FaultReport(FaultKind.OBJECT_CRASH, "main", _PROCESS, "shop:Cart"),
    "a process crashed": FaultReport(FaultKind.OBJECT_CRASH, "main", _PROCESS),
    "another host's objects crashed": FaultReport(FaultKind.OBJECT_CRASH, "main", Location.parse("host3")),
    "a host crashed": FaultReport(
        FaultKind.HOST_CRASH, "main", _HOST, details={"HostId": "host2", "Incarnation": 4, "IsProven": True}
    ),
    "a member hangs": FaultReport(FaultKind.HANG, "main", *_MEMBER, {"WaitedNs": 2_000_000_000}),
    "replicas differ": FaultReport(FaultKind.DIVERGENCE, "main", *_MEMBER, {"Position": 812}),
    "a member was outvoted": FaultReport(FaultKind.COMMISSION, "main", *_MEMBER, {"Position": 813}),
    "a store is damaged": FaultReport(
        FaultKind.DAMAGED_STORE, "main", _HOST, details={"HostId": "host2", "File": "log-3", "Offset": 4096}
    ),
    "messages are lost": FaultReport(
        FaultKind.MESSAGE_LOSS, "main", *_MEMBER, {"Stream": "orders", "FirstLost": 5, "LastLost": 9}
    ),
    "a clock is wrong": FaultReport(
        FaultKind.CLOCK_SKEW, "main", _HOST, details={"SkewNs": 7_200_000_000_000}
    ),
    "fewer are in sync": FaultReport(
        FaultKind.IN_SYNC_SHRUNK, "main", *_MEMBER, {"Epoch": 3, "InSync": 2, "MinInSync": 2}
    ),
    "a host is back": FaultReport(
        FaultKind.RECOVERED, "main", _HOST, details={"HostId": "host2", "From": "HostCrash"}
    ),
    "hosts of a rack crashed together": FaultReport(
        FaultKind.CORRELATED, "main", Location.parse("rack1"), details={"Hosts": 2, "WithinNs": 1_000_000_000}
    ),
    "reports are lost": FaultReport(
        FaultKind.REPORTS_LOST, "main", _HOST, details={"HostId": "host2", "Count": 12}
    ),
}
"""One of each kind, and the scopes of a crash."""


@app.command
def check(filter: str, *, output: Output = "table") -> int:
    """Say whether a filter is right, and which of some example events it passes; ends with 2 if it is not.

    Parameters
    ----------
    filter
        In the constraint language (docs/filters.md), in single quotes: '$Location[0].id == "host2"'.
    output
        `table` for people, `json` for machines.
    """
    try:
        tree = parse(filter)
    except InvalidConstraint as error:
        if output == "json":
            print_json({"is_right": False, "letter": error.at + 1, "problem": error.problem})
        else:
            talk.print(error.shown(), markup=False, highlight=False, soft_wrap=True)
            if "$" not in filter:
                talk.print(SHELL_HINT, markup=False, highlight=False, soft_wrap=True)
        return EXIT_WRONG
    verdicts = {name: evaluate(tree, each.to_event()) for name, each in EXAMPLES.items()}
    if output == "json":
        examples = [
            {"example": name, "result": each.truth.value, "why": each.why} for name, each in verdicts.items()
        ]
        print_json({"is_right": True, "filter": written(tree), "examples": examples})
        return EXIT_RIGHT
    shown = {Truth.TRUE: "passes", Truth.FALSE: "-", Truth.UNDEFINED: "-"}
    print_table(
        ("example", "type", ""),
        (
            (name, EXAMPLES[name].kind.value, f"{shown[each.truth]}  {each.why}".rstrip())
            for name, each in verdicts.items()
        ),
    )
    return EXIT_RIGHT
