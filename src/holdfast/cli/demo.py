"""`holdfast demo`: a ledger under load, its primary killed again and again, and every call counted."""

from collections import deque
from pathlib import Path
from typing import Annotated, Literal

import msgspec
import uvloop
from cyclopts import Parameter
from rich.console import Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

import holdfast
from holdfast.cli.output import Output, Screen, print_json, styled, talk
from holdfast.cli.output import say as say_result
from holdfast.demo.domain import run_until_asked
from holdfast.demo.exchange import run_exchange, told
from holdfast.demo.faults import PAUSE_S, Fault
from holdfast.demo.running import Machines, Result, Watcher, run_demo
from holdfast.model.errors import InvalidRequest
from holdfast.node.messages import DomainStatus

EXAMPLES = Path(holdfast.__file__).parents[2] / "examples"
"""The examples of the clone that this runs from."""
BAR_CELLS = 16
BAR_MS = 1000.0
"""What a full bar stands for."""
EVENTS_SHOWN = 12
EXIT_WHOLE, EXIT_BROKEN = 0, 1
Scenario = Literal["ledger", "exchange"]


def demo(
    *,
    seconds: float = 30.0,
    callers: int = 64,
    every: float = 3.0,
    machines: Annotated[bool, Parameter(negative="")] = False,
    etcd: Annotated[bool, Parameter(negative="")] = False,
    app: Path = EXAMPLES,
    scenario: Scenario = "ledger",
    loss: float = 0.02,
    output: Output = "table",
) -> int:
    """Show that nothing is lost: a ledger on three hosts under load, its primary killed every few seconds.

    Starts a domain of its own in a temporary directory and removes it at the end. One fault in five is a
    pause instead (SIGSTOP past the lease): nobody can prove such a host dead. Afterwards all hosts are
    stopped, and every call is looked up in the files of every member. Exits with 1 if one is missing or
    was executed twice. Ctrl-C ends it early, and the calls until then are counted; a second one ends it at
    once.

    Parameters
    ----------
    seconds
        How long the ledger is called.
    callers
        How many clients call it at the same time, each waiting for its answer.
    every
        Seconds between two faults.
    machines
        Put the hosts on three machines: network namespaces that this command makes, joined by TLS over a
        network with 20 ms delay. Besides kills, the primary is cut off from a backup, wholly or one way, with
        1 % of all packets lost. This takes root and /dev/net/tun.
    etcd
        With --machines: use an etcd with a member on each of them, not SQLite on the first.
    app
        The directory with ledger.py.
    scenario
        `ledger`, or `exchange`: an order book that is fed by streams, with datagrams lost and its leader
        killed; decisions about losses are shown as they are taken, and the books of all members at the end.
    loss
        With `--scenario exchange`: the part of the datagrams that every host throws away.
    output
        `table` for people, `json` for machines.
    """
    if seconds <= 0 or every <= 0 or callers < 1:
        raise InvalidRequest("seconds and every must be above 0, and there must be a caller")
    if scenario == "exchange":
        return _exchange(app, seconds, loss, output)
    if etcd and not machines:
        raise InvalidRequest("--etcd is for --machines")
    where: Machines = "three with etcd" if etcd else "three" if machines else "one"
    face = _Face(seconds)
    with Live(face, console=talk, transient=True, refresh_per_second=8):
        found = run_until_asked(
            lambda ending: run_demo(
                app,
                seconds=seconds,
                callers=callers,
                every_s=every,
                watcher=face.watcher,
                ending=ending,
                machines=where,
            ),
            on_asked=face.watcher.on_stage,
        )
    if output == "json":
        print_json(found)
    else:
        _show(found)
    return EXIT_WHOLE if found.is_whole else EXIT_BROKEN


def _exchange(app: Path, seconds: float, loss: float, output: Output) -> int:
    if not 0 <= loss <= 0.5:
        raise InvalidRequest(f"a loss is between 0 and 0.5, not {loss:g}")

    def say(text: str) -> None:
        talk.print(text, highlight=False)

    result = uvloop.run(run_exchange(app, seconds=seconds, loss=loss, say=say))
    if output == "json":
        print_json({**msgspec.to_builtins(result), "is_whole": result.is_whole})
    else:
        say_result(*told(result))
    return EXIT_WHOLE if result.is_whole else EXIT_BROKEN


class _Face:
    """The display while it runs: a moving line on a terminal, otherwise a line per event."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._line = "starting three hosts"
        self._events: deque[str] = deque(maxlen=EVENTS_SHOWN)
        self.watcher = Watcher(self._on_starting, self._on_tick, self._on_fault, self._on_stage)

    def __rich__(self) -> RenderableType:
        return Group(*self._events, Text(self._line, style="bold"))

    def _on_starting(self, status: DomainStatus | None) -> None:
        alive = sum(host.alive for host in status.hosts) if status is not None else 0
        self._line = f"starting: {alive} of 3 hosts live"

    def _on_tick(self, at_s: float, answers: int) -> None:
        self._line = f"{at_s:5.1f} of {self._seconds:g} s   {answers:,} calls answered"

    def _on_fault(self, fault: Fault) -> None:
        self._say(f"{fault.at_s:5.1f} s   {_what(fault)}")

    def _on_stage(self, stage: str) -> None:
        self._line = stage
        if not talk.is_terminal:
            talk.print(stage)

    def _say(self, event: str) -> None:
        if talk.is_terminal:
            self._events.append(event)
        else:
            talk.print(event, highlight=False)


def _what(fault: Fault) -> str:
    how = {
        "kill": "was killed",
        "pause": f"was paused for {PAUSE_S:g} s",
        "cut": "was cut off from a backup",
        "cut_one_way": "was not heard by a backup",
    }
    return f"{fault.host} {how[fault.kind]}"


def _show(found: Result) -> None:
    console = Screen()
    console.print(_time_line(found.faults))
    console.print()
    for line in _sentences(found):
        console.print(line, highlight=False)


def _time_line(faults: list[Fault]) -> Table:
    table = Table(
        *("at", "the primary", "next answer", "", "what the group did"),
        box=None,
        pad_edge=False,
        header_style="bold",
        title="Fail-overs",
        title_justify="left",
    )
    for fault in faults:
        bar = Text("█" * _cells(fault.silent_ms), style="yellow" if fault.kind == "pause" else "green")
        after = "never" if fault.silent_ms is None else f"after {fault.silent_ms:.0f} ms"
        table.add_row(f"{fault.at_s:.1f} s", _what(fault), after, bar, _what_came(fault))
    return table


def _cells(silent_ms: float | None) -> int:
    return BAR_CELLS if silent_ms is None else max(1, min(BAR_CELLS, round(silent_ms / BAR_MS * BAR_CELLS)))


def _what_came(fault: Fault) -> str:
    if fault.took_over is None:
        stayed = {
            "pause": "it stayed primary: the pause was too short for its lease",
            "cut": "it stayed primary, with the other backup",
            "cut_one_way": "it stayed primary, with the other backup",
        }
        return stayed.get(fault.kind, "-")
    how = "on proof of death" if fault.why == "dead" else "after its lease"
    ready = "" if fault.ready_ms is None else f", ready in {fault.ready_ms:.0f} ms"
    return f"{fault.took_over} took over {how}{ready}"


def _sentences(found: Result) -> list[str | Text]:
    members = len(found.members_counted)
    verdict = ("Nothing was lost and nothing was done twice.", "green")
    if not found.is_whole:
        verdict = ("This must not happen: please report it.", "bold red")
    early = ", when it was asked to end" if found.ended_early else ""
    lines: list[str | Text] = [
        f"{found.calls_acknowledged:,} calls were acknowledged to {found.callers} callers in "
        f"{found.seconds:g} s, through {found.failovers} fail-overs{early}.",
        styled(
            f"Then all hosts were stopped, and every call was looked for in the files of {members} members: ",
            (f"{found.calls_lost} lost, {found.calls_duplicated} duplicated", "bold"),
            ". ",
            verdict,
        ),
        f"Half of the calls took at most {found.p50_ms:.1f} ms, 99 of 100 at most {found.p99_ms:.1f} ms.",
    ]
    if found.failover_ms_median is not None:
        lines.append(
            f"After a kill callers waited {found.failover_ms_median:.0f} ms for the next answer (median)."
        )
    if found.ready_ms_median is not None:
        lines.append(
            f"After a proof of death the next primary was ready in {found.ready_ms_median:.0f} ms (median)."
        )
    if found.calls_unknown:
        lines.append(
            f"{found.calls_unknown} calls ended without an answer, and their callers were told so; "
            f"{found.calls_unknown_executed} of them had been executed."
        )
    return lines
