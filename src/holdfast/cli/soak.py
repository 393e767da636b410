"""`holdfast soak`: real processes under load and under every kind of fault for a long time, all counted."""

import random
from pathlib import Path

from rich.table import Table

from holdfast.cli.demo import EXAMPLES, EXIT_BROKEN, EXIT_WHOLE
from holdfast.cli.output import Output, Screen, print_json, talk
from holdfast.demo.domain import run_until_asked
from holdfast.demo.soak import Soaked, Watcher, run_soak
from holdfast.model.errors import InvalidRequest

SEEDS = 1 << 32


def soak(
    *,
    minutes: float = 60.0,
    seed: int | None = None,
    app: Path = EXAMPLES,
    output: Output = "table",
) -> int:
    """Subject a domain of real processes to faults, and check the outcome of every call.

    Three hosts, a ledger in each style, callers on all of them. Hosts and the authority are killed and
    paused, hosts are cut off from each other, all are killed at once, primaries hand over; often the next
    fault comes before the domain has recovered from the last. Exits with 1 if a call was lost or executed
    twice, an answer was wrong, members differ, or a group did not recover. Ctrl-C ends it early, and the
    calls until then are counted; a second one ends it at once.

    Parameters
    ----------
    minutes
        How long it runs.
    seed
        The seed for the order of faults; their exact moments depend on the machine.
    app
        The directory with ledger.py.
    output
        `table` for people, `json` for machines.
    """
    if minutes <= 0:
        raise InvalidRequest("minutes must be above 0")
    chosen = random.randrange(SEEDS) if seed is None else seed
    talk.print(f"seed {chosen}; {minutes:g} minutes", highlight=False)
    watcher = Watcher(lambda status: None, _on_fault, lambda stage: talk.print(stage, highlight=False))
    found = run_until_asked(
        lambda ending: run_soak(app, minutes=minutes, seed=chosen, watcher=watcher, ending=ending),
        on_asked=watcher.on_stage,
    )
    if output == "json":
        print_json(found)
    else:
        _show(found)
    return EXIT_WHOLE if found.is_whole else EXIT_BROKEN


def _on_fault(at_s: float, kind: str, tried: dict[str, int], answers: int) -> None:
    so_far = sum(tried.values())
    talk.print(f"{at_s:7.1f} s  {so_far:4} faults  {answers:9,} answers  {kind}", highlight=False)


def _show(found: Soaked) -> None:
    console = Screen()
    table = Table("what was tried", "times", box=None, pad_edge=False, header_style="bold")
    for kind, times in found.tried.items():
        table.add_row(kind.replace("_", " "), str(times))
    console.print(table)
    if found.ended_early:
        console.print(
            f"ended early, after {found.minutes_taken:g} of {found.minutes:g} minutes", highlight=False
        )
    verdict = "nothing was lost and nothing was done twice" if found.is_whole else "THIS MUST NOT HAPPEN"
    console.print(
        f"{found.calls_acknowledged:,} calls acknowledged, {found.calls_lost} lost, "
        f"{found.calls_duplicated} duplicated, {found.calls_unknown} ended as unknown: {verdict}.",
        highlight=False,
    )
    for each in found.not_recovered:
        console.print(f"did not recover: {each}", highlight=False)
    if found.files:
        console.print(f"the hosts' files and logs are kept in {found.files}", highlight=False)
