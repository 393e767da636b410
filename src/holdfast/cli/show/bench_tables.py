"""What ``holdfast bench`` found, as tables for people or as one JSON object for scripts."""

from collections.abc import Sequence
from importlib import import_module
from typing import Any, Final

import msgspec

from holdfast import bench
from holdfast.bench.report import CPU_COLUMNS, Sample, cpu_row, side_by_side
from holdfast.cli.output import Output, print_json, print_table, styled, talk


def show_groups(found: dict[str, Any], output: Output) -> None:
    """Show one table with a column for each system, and below it what each was asked to do."""
    if output == "json":
        print_json(found)
        return
    results = [msgspec.convert(result, bench.Result) for result in found["results"]]
    print_table(*side_by_side(results))
    print_table(CPU_COLUMNS, [row for system in found["systems"] if (row := _cpu_row(system)) is not None])
    for system in found["systems"]:
        how = f"not measured: {system['absent']}" if system["absent"] else system["configuration"]
        talk.print(styled((system["name"], "bold"), f" ({system['durability']}): {how}"))
    _tell_missed(results)


def show_path(found: dict[str, Any], output: Output) -> None:
    if output == "json":
        print_json(found)
        return
    rows = import_module("holdfast.bench.path")
    print_table(rows.COLUMNS, [rows.cells(msgspec.convert(each, rows.Row)) for each in found["rows"]])
    if found["absent"]:
        talk.print(styled(("NOT COUNTED:", "bold red"), f" {found['absent']}"))


def show_ldap(found: dict[str, Any], output: Output) -> None:
    """Show one table with a column for each peer, and below it how each was set up and asked."""
    if output == "json":
        print_json(found)
        return
    results = [msgspec.convert(result, bench.Result) for result in found["results"]]
    if results:
        print_table(*side_by_side(results))
    for line in found.get("commands", ()):
        talk.print(line, highlight=False, soft_wrap=True)
    for server in found.get("servers", ()):
        how = f"NOT MEASURED: {server['absent']}" if server["absent"] else server["configuration"]
        talk.print(styled((server["name"], "bold"), f": {how}"))
        for failure in server["failures"]:
            talk.print(styled(("failed:", "bold red"), f" {failure}"))
    shown = {failure for server in found.get("servers", ()) for failure in server["failures"]}
    tell_failures([each for each in found.get("failures", ()) if each not in shown])
    if found.get("absent"):
        talk.print(styled(("NOT MEASURED:", "bold red"), f" {found['absent']}"))
    _tell_missed(results)


def _cpu_row(system: dict[str, Any]) -> tuple[str, ...] | None:
    samples = [msgspec.convert(each, Sample) for each in system["samples"] if each is not None]
    return cpu_row(f"{system['durability']}: {system['name']}", samples) if samples else None


def show_growth(found: dict[str, Any], output: Output) -> None:
    if output == "json":
        print_json(found)
        return
    rows = import_module("holdfast.bench.growth")
    calls = [msgspec.convert(each, rows.CallRow) for each in found["calls"]]
    print_table(rows.CALL_COLUMNS, [rows.call_row(each) for each in calls])
    idle = [msgspec.convert(each, rows.IdleRow) for each in found["idle"]]
    print_table(rows.IDLE_COLUMNS, [rows.idle_row(each) for each in idle])


def show_control(found: dict[str, Any], output: Output) -> None:
    if output == "json":
        print_json(found)
        return
    rows = import_module("holdfast.bench.control")
    steps = [msgspec.convert(each, rows.Step) for each in found.get("steps", ())]
    print_table(
        rows.COLUMNS,
        [rows.step_row(each, found["authority"], found["etcd_fail_over_ms"]) for each in steps],
    )


def show_detect(found: dict[str, Any], output: Output) -> None:
    if output == "json":
        print_json(found)
        return
    rows = import_module("holdfast.bench.detect")
    kinds = [msgspec.convert(each, rows.Measured) for each in found["kinds"]]
    print_table(rows.COLUMNS, [rows.kind_row(each) for each in kinds])
    for kind, why in found["skipped"].items():
        talk.print(styled(("not measured:", "bold red"), f" {kind}: {why}"))
    overload = found["overload"]
    if overload is not None:
        said = (
            f"{overload['seconds']:.0f} s with {overload['hogs']} processes that take all they get: "
            f"{overload['suspicions_per_hour']:g} false suspicions per hour, {overload['wrong_failovers']} "
            f"wrong failovers (target 0): "
        )
        talk.print(styled(said, "met" if overload["met"] else ("MISSED", "bold red")))
        for cause in overload["causes"]:
            talk.print(f"  {cause}", highlight=False)
    _tell_missed([msgspec.convert(result, bench.Result) for result in found["results"]])


def show_results(found: dict[str, Any], output: Output) -> None:
    """Show results. A missed target is shown as missed; it is a finding, not a failure of the command."""
    if output == "json":
        print_json(found)
        return
    results = [msgspec.convert(result, bench.Result) for result in found["results"]]
    print_table(bench.COLUMNS, [bench.row(result) for result in results])
    _tell_missed(results)
    tell_failures(found.get("failures", ()))


def tell_failures(failures: Sequence[str]) -> None:
    for failure in failures:
        talk.print(styled(("failed:", "bold red"), f" {failure}"))


def _tell_missed(results: Sequence[bench.Result]) -> None:
    missed = [f"{result.name} beside {result.other_name}" for result in results if not result.met]
    if missed:
        talk.print(styled(("missed its target:", "bold red"), f" {'; '.join(missed)}"))


SHOWN: Final = {
    "detect": show_detect,
    "growth": show_growth,
    "path": show_path,
    "groups": show_groups,
    "control": show_control,
    "control_on_etcd": show_control,
    "ldap": show_ldap,
}
"""Benchmarks shown in tables of their own, in this order, and not as rows of results."""
