"""``holdfast sim``: run seeds, replay failures, demand that planted bugs are found."""

import sys
import time
from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter

from holdfast.cli.output import Output, print_json, print_table, say, talk
from holdfast.model.errors import InvalidRequest
from holdfast.sim.runner.planted import planted_bug, planted_bugs
from holdfast.sim.runner.profiles import DEFAULT, expand, kinds_of, profile_names
from holdfast.sim.runner.report import FAILURES, Summary, load_failure
from holdfast.sim.runner.runner import Search, run_mix, run_seeds, search_planted
from holdfast.sim.runner.scenario import scenario_class, scenario_names
from holdfast.sim.runner.simulation import Outcome, simulate

EXIT_DONE, EXIT_FAILED = 0, 1
SEEDS_MAX = 1_000_000
JOBS_MAX = 256
PROGRESS_S = 2.0

Jobs = Annotated[int | None, Parameter(help="Processes; by default one per core.")]

app = App(name="sim", help="Run the deterministic simulator.")


@app.command
def run(
    *,
    scenario: str,
    seeds: str = "0:100",
    jobs: Jobs = None,
    profile: str = DEFAULT,
    planted: str | None = None,
    output: Output = "table",
    trace: bool = False,
    keep: Path = FAILURES,
    unsealed: bool = False,
) -> int:
    """Run a range of seeds of one scenario; exits with 1 if a rule was broken.

    Parameters
    ----------
    scenario
        The scenario; `holdfast sim list` names them.
    seeds
        From A up to but not including B, as A:B; or a single seed.
    profile
        Which faults occur; by default each seed gets its own mix.
    planted
        Plant this bug first, to see what it does.
    trace
        Print the whole trace (one seed only).
    keep
        Where failing runs are kept, each with everything needed to replay it.
    unsealed
        Do not check that simulated code stays away from the real clock, randomness and sockets.
    """
    wanted = parse_seeds(seeds)
    _check_jobs(jobs)
    if trace and len(wanted) != 1:
        raise InvalidRequest("--trace shows one seed: give --seeds N:N+1")
    if planted is not None:
        planted_bug(planted)
    if trace:
        options = expand(scenario, wanted[0], profile, planted=planted)
        _show_trace(simulate(options, keep_trace=True, seal=not unsealed))
    summary = run_seeds(
        scenario,
        wanted,
        profile=profile,
        planted=planted,
        jobs=jobs,
        seal=not unsealed,
        keep=keep,
        progress=_Progress(scenario),
        say=talk.print,
    )
    show_summary(summary, output)
    return EXIT_FAILED if summary.violation_count else EXIT_DONE


@app.command
def replay(file: Path, /, *, trace: bool = False, output: Output = "table") -> int:
    """Run a kept failure again; exits with 1 if it still fails.

    Parameters
    ----------
    file
        The file that `holdfast sim run` kept.
    trace
        Print the whole trace.
    """
    failure = load_failure(file)
    outcome = simulate(failure.options, keep_trace=trace)
    if trace:
        _show_trace(outcome)
    if output == "json":
        print_json(
            {"violations": outcome.violations, "trace_hash": outcome.trace_hash, "faults": outcome.faults}
        )
        return EXIT_FAILED if outcome.violations else EXIT_DONE
    rows = [(f"{event.at_ns / 1e6:.3f}", event.kind, event.target) for event in failure.options.faults]
    print_table(("at ms", "fault", "node"), rows)
    for violation in outcome.violations:
        say(f"{violation.at_ns / 1e6:.3f} ms: {violation.rule}: {violation.message}")
    if not outcome.violations:
        talk.print(
            f"It no longer fails; it was kept for {failure.violation.rule}: {failure.violation.message}"
        )
    return EXIT_FAILED if outcome.violations else EXIT_DONE


@app.command(name="planted")
def search(
    *,
    scenario: str | None = None,
    name: str | None = None,
    jobs: Jobs = None,
    output: Output = "table",
) -> int:
    """Look for every planted bug; exits with 1 if one is not found within its runs.

    Parameters
    ----------
    scenario
        Only the bugs of this scenario.
    name
        Only this bug.
    """
    _check_jobs(jobs)
    if scenario is not None:
        scenario_class(scenario)
    bugs = [planted_bug(name)] if name is not None else planted_bugs(scenario)
    searches = search_planted(bugs, jobs=jobs, progress=_say_search)
    if output == "json":
        print_json({"bugs": searches})
    else:
        show_searches(searches)
    return EXIT_DONE if all(search.found for search in searches) else EXIT_FAILED


@app.command
def mix(*, minutes: float = 3.0, jobs: Jobs = None, output: Output = "table", keep: Path = FAILURES) -> int:
    """Look for planted bugs, then run all scenarios in turn with fresh seeds, for some minutes.

    Every scenario's planted bugs get the same part of the time; those for which there was none are listed.
    Exits with 1 if a bug is not found within its runs, or if a rule was broken without a planted bug.

    Parameters
    ----------
    minutes
        Time for both: two thirds for the planted bugs, and for the fresh seeds what they leave.
    keep
        Where failing runs are kept.
    """
    _check_jobs(jobs)
    if not 0 < minutes <= 7 * 24 * 60:
        raise InvalidRequest("--minutes: from above 0 up to a week")
    mixed = run_mix(
        planted_bugs(),
        scenario_names(),
        within_s=minutes * 60,
        jobs=jobs,
        keep=keep,
        on_search=_say_search,
        say=talk.print,
    )
    if output == "json":
        print_json(mixed)
    else:
        for summary in mixed.runs:
            show_summary(summary, output)
        show_searches(mixed.bugs)
        if mixed.not_begun:
            talk.print(f"no time for {len(mixed.not_begun)} bugs: {', '.join(mixed.not_begun)}")
    return EXIT_DONE if mixed.is_clean else EXIT_FAILED


@app.command(name="list")
def list_all(*, output: Output = "table") -> None:
    """List the scenarios, their faults and planted bugs, and the profiles."""
    scenarios = {
        name: {
            "summary": summary_of(name),
            "faults": sorted(kinds_of(scenario_class(name))),
            "planted": [bug.name for bug in planted_bugs(name)],
        }
        for name in scenario_names()
    }
    if output == "json":
        print_json({"scenarios": scenarios, "profiles": profile_names()})
        return
    for name, described in scenarios.items():
        print_table(("scenario", name), [(key, _joined(value)) for key, value in described.items()])
        say("")
    say(f"profiles  {', '.join(profile_names())}")


# --- arguments


def parse_seeds(text: str) -> range:
    """The seeds of ``A:B``, or one seed alone."""
    first, colon, last = text.partition(":")
    if not (first.isdecimal() and (last.isdecimal() if colon else True)):
        raise InvalidRequest(f"--seeds {text!r}: expected A:B with whole numbers, A < B")
    seeds = range(int(first), int(last) if colon else int(first) + 1)
    if not seeds:
        raise InvalidRequest(f"--seeds {text!r}: there is no seed in that range")
    if len(seeds) > SEEDS_MAX:
        raise InvalidRequest(f"--seeds {text!r}: at most {SEEDS_MAX} at once")
    return seeds


def _check_jobs(jobs: int | None) -> None:
    if jobs is not None and not 1 <= jobs <= JOBS_MAX:
        raise InvalidRequest(f"--jobs {jobs}: from 1 to {JOBS_MAX}")


# --- output


class _Progress:
    """Prints on stderr how far a range is, every few seconds."""

    def __init__(self, scenario: str) -> None:
        self._scenario = scenario
        self._started = self._said = time.monotonic()

    def __call__(self, done: int, all_seeds: int, failing: int) -> None:
        now = time.monotonic()
        if done == all_seeds or now - self._said >= PROGRESS_S:
            self._said = now
            taken = now - self._started
            talk.print(f"{self._scenario}: {done}/{all_seeds} seeds, {failing} failing, {taken:.1f} s")


def show_summary(summary: Summary, output: Output) -> None:
    for found in summary.violations:
        talk.print(
            f"seed {found.seed}: {found.rule}: {found.message}", markup=False, style="red", soft_wrap=True
        )
        talk.print(f"  {found.replay}", markup=False, soft_wrap=True)
    if output == "json":
        print_json(summary)
        return
    rows: list[tuple[str, object]] = [
        ("seeds", summary.seeds),
        ("violations", summary.violation_count),
        ("unavailable", summary.unavailable),
        *((f"  {reason}", count) for reason, count in summary.unavailable_reasons.items()),
        ("operations", summary.operations),
        ("faults", sum(summary.faults.values())),
        *((f"  {kind}", count) for kind, count in summary.faults.items()),
        *((f"sometimes: {point}", count) for point, count in summary.sometimes.items()),
        ("simulated seconds", summary.simulated_seconds),
        ("events", summary.events),
        ("events per CPU second", summary.events_per_cpu_second),
        ("trace hash", summary.trace_hash),
    ]
    print_table(("scenario", summary.scenario), rows)


def show_searches(searches: list[Search]) -> None:
    rows = [(search.name, search.rule, search.scenario, _verdict(search), search.runs) for search in searches]
    print_table(("planted bug", "rule", "scenario", "", "runs"), rows)


def _verdict(search: Search) -> str:
    if search.found:
        return "found"
    return "no time to find it" if search.is_cut else "NOT FOUND"


def _say_search(search: Search) -> None:
    how = search.violation if search.found else _verdict(search)
    talk.print(f"{search.name} ({search.rule}): {search.runs} runs: {how}", markup=False, soft_wrap=True)


def _show_trace(outcome: Outcome) -> None:
    say(*(outcome.lines or ()))


def summary_of(scenario: str) -> str:
    """The first line of the scenario module's docstring."""
    text = sys.modules[scenario_class(scenario).__module__].__doc__ or ""
    return text.partition("\n")[0]


def _joined(value: object) -> str:
    return ", ".join(value) if isinstance(value, list) else str(value)
