"""``holdfast faults``: show faults as they happen and as they happened, and check filters."""

from typing import Annotated, Final

import uvloop
from cyclopts import App, Parameter

from holdfast.cli.admin import connect_at
from holdfast.cli.output import Output, print_json, print_table, say, talk
from holdfast.cli.where import HERE, Target, Where
from holdfast.faults.events import Location
from holdfast.faults.filters import InvalidConstraint, Truth, evaluate, parse
from holdfast.faults.filters.tree import written
from holdfast.faults.reports import FaultKind, FaultReport
from holdfast.faults.told_events import Gap, Told, as_plain, at_of, where_of
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
    "a class is another": FaultReport(FaultKind.OTHER_CODE, "main", *_MEMBER),
    "a checkpoint failed": FaultReport(FaultKind.CHECKPOINT_FAILED, "main", *_MEMBER),
    "a service failed": FaultReport(
        FaultKind.SERVICE_FAILED, "main", _HOST, details={"HostId": "host2", "Service": "shipping"}
    ),
    "a peer is refused": FaultReport(
        FaultKind.PEER_REFUSED,
        "main",
        _HOST,
        details={"HostId": "host2", "Peer": "host3", "Reason": "generation"},
    ),
    "a replica needs initialisation": FaultReport(
        FaultKind.NEEDS_INITIALISATION, "main", _HOST, details={"HostId": "host2", "Replica": 3}
    ),
    "masters disagree": FaultReport(
        FaultKind.CONFLICT, "main", _HOST, details={"Conflict": "9f2c-value-0691b2", "Count": 1}
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
"""One report of each kind, and of each scope of a crash."""


Only = Annotated[str, Parameter(name="--where")]
From = Annotated[int | None, Parameter(name="--from")]
Members = Annotated[bool, Parameter(name="--members", negative="")]


@app.command
def watch(
    *,
    where: Only = "",
    after: From = None,
    members: Members = False,
    at: Where = HERE,
    output: Output = "table",
) -> int:
    """Show faults of the domain as they happen, until interrupted.

    Parameters
    ----------
    where
        Only events that pass this filter (docs/filters.md), in single quotes: '$Location[0].id == "host2"'.
    after
        Start after the event of this number: 0 shows everything that is still known.
    members
        Also events that are part of another one that is shown, such as each member of a crashed host.
    output
        `table` for people, `json` for machines: one object a line.
    """
    if not _is_right(where):
        return EXIT_WRONG
    try:
        uvloop.run(_watch(at.target, where, after, members, output))
    except KeyboardInterrupt:
        return EXIT_RIGHT
    return EXIT_RIGHT


async def _watch(target: Target, where: str, after: int | None, members: bool, output: Output) -> None:
    async with await connect_at(target) as domain:
        async for news in domain.faults.watch(where, after=after, parts=members):
            if output == "json":
                print_json(as_plain(news))
            else:
                say(_line(news))


@app.command(name="list")
def list_(
    *,
    where: Only = "",
    after: From = None,
    members: Members = False,
    at: Where = HERE,
    output: Output = "table",
) -> int:
    """Show the faults of the domain that are still known, oldest first.

    Parameters
    ----------
    where
        Only events that pass this filter (docs/filters.md), in single quotes: '$Location[0].id == "host2"'.
    after
        Only events after this number.
    members
        Also events that are part of another one that is shown, such as each member of a crashed host.
    output
        `table` for people, `json` for machines.
    """
    if not _is_right(where):
        return EXIT_WRONG
    found = uvloop.run(_list(at.target, where, after or 0, members))
    if output == "json":
        print_json({"faults": [as_plain(each) for each in found]})
        return EXIT_RIGHT
    print_table(
        ("number", "at", "what", "where", "part of", "why"),
        (
            (
                each.number,
                at_of(each),
                each.event.header.fixed_header.event_type.type_name,
                where_of(each.event),
                each.part_of or "-",
                each.event.remainder_of_body or "-",
            )
            for each in found
        ),
    )
    return EXIT_RIGHT


async def _list(target: Target, where: str, after: int, members: bool) -> list[Told]:
    async with await connect_at(target) as domain:
        return await domain.faults.list(where, after=after, parts=members)


def _line(news: Told | Gap) -> str:
    """One event as a line for people."""
    if isinstance(news, Gap):
        return f"{news.first}-{news.last}  {news.count} events are gone: they were not read in time"
    name = news.event.header.fixed_header.event_type.type_name
    why = news.event.remainder_of_body
    said = f"  ({why})" if why else ""
    part = f"  part of {news.part_of}" if news.part_of else ""
    return f"{news.number}  {at_of(news)}  {name}  {where_of(news.event)}{said}{part}"


def _is_right(where: str) -> bool:
    """Whether the filter is valid; if not, the position of the mistake is shown."""
    try:
        parse(where)
    except InvalidConstraint as error:
        _show_mistake(error, where)
        return False
    return True


def _show_mistake(error: InvalidConstraint, filter: str) -> None:
    talk.print(error.shown(), markup=False, highlight=False, soft_wrap=True)
    if "$" not in filter:
        talk.print(SHELL_HINT, markup=False, highlight=False, soft_wrap=True)


@app.command
def check(filter: str, *, output: Output = "table") -> int:
    """Say whether a filter is valid, and which example events it passes; exits with 2 if it is not valid.

    Parameters
    ----------
    filter
        A filter in the constraint language (docs/filters.md), in single quotes: '$Location[0].id == "host2"'.
    output
        `table` for people, `json` for machines.
    """
    try:
        tree = parse(filter)
    except InvalidConstraint as error:
        if output == "json":
            print_json({"is_right": False, "letter": error.at + 1, "problem": error.problem})
        else:
            _show_mistake(error, filter)
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
