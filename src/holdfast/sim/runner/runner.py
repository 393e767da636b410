"""Runs many seeds in several processes, and searches for planted bugs.

The outcome of a seed does not depend on which process ran it or what ran there before. So the work can be cut
into pieces in any way, and the results are put together in the order of the seeds.

A mix first searches for planted bugs, then the scenarios take turns with fresh seeds, within a given time.
The planted bugs of all scenarios get ``PLANTED_SHARE`` of it, each scenario's the same part: there are more
bugs than such a time can hold, and those of one scenario must not crowd out another's. A search that its
scenario's part cut off says so, and is no evidence either way; which bugs come first is drawn, so that all
have their turn over many mixes. ``holdfast sim planted`` takes as long as it needs.
A turn of seeds ends after a few of them, or earlier when the turns after it in the same round would otherwise
get less time than it. The first turn of each scenario gets at least ``FIRST_TURN_S``, so that a mix includes
some seeds of every scenario.
"""

import gc
import multiprocessing
import os
import secrets
import shlex
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import lru_cache, partial
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

from holdfast.machine.process_end import end_with
from holdfast.model.errors import Unavailable
from holdfast.sim.engine.options import Options
from holdfast.sim.runner.planted import Planted, planted_bug
from holdfast.sim.runner.profiles import DEFAULT, expand
from holdfast.sim.runner.report import Failure, Summary, Tally, merge, save_failure
from holdfast.sim.runner.simulation import Outcome, Shrinker, simulate

PIECE_MAX: Final = 20
"""Seeds per piece of work: few enough to keep all processes busy to the end."""
SHRUNK_MAX: Final = 3
"""The number of failures of one range that are shrunk; the others are kept as they are."""

COLLECTOR: Final = (50_000, 20, 100)
"""Thresholds of the garbage collector. A run makes many small objects and few cycles, and looking for cycles
at the default frequency takes a tenth of its time."""

CLEAN_MAX: Final = 1000
"""The number of bug-free runs whose outcome a process remembers."""

Progress = Callable[[int, int, int], None]
"""Called with the number of seeds done, of seeds in total, and of failing seeds so far."""

Work = Callable[[bytes], bytes]
Run = Callable[[Work, Sequence[bytes], float | None], Iterator[bytes]]
"""Does pieces of work in any order; when a time is given, it begins none after that time."""


class Piece(Struct, frozen=True, kw_only=True):
    """Some seeds for one process to run."""

    scenario: str
    seeds: tuple[int, ...]
    profile: str = DEFAULT
    planted: str | None = None
    seal: bool = True


class PieceDone(Struct, frozen=True, kw_only=True):
    outcomes: tuple[Outcome, ...]
    cpu_ns: int


class Search(Struct, frozen=True, kw_only=True):
    """The result of the search for one planted bug."""

    name: str
    rule: str
    scenario: str
    found: bool
    runs: int
    violation: str = ""
    """The violation that revealed the bug."""
    cpu_seconds: float = 0.0
    is_cut: bool = False
    """The search was ended by the time, so that a bug that was not found may still be."""


class SearchPiece(Struct, frozen=True, kw_only=True):
    """A bug for one process to search for."""

    name: str
    until: float | None = None
    """When to stop, by the machine's monotonic clock."""


def run_seeds(
    scenario: str,
    seeds: Sequence[int],
    *,
    profile: str = DEFAULT,
    jobs: int | None = None,
    run: Run | None = None,
    planted: str | None = None,
    seal: bool = True,
    keep: Path | None = None,
    progress: Progress = lambda done, all_seeds, failing: None,
    say: Callable[[str], None] = lambda text: None,
    until: float | None = None,
) -> Summary:
    """Run *seeds* and return the totals; failing runs are shrunk and kept below *keep*, when given.

    With *until* (a reading of ``time.monotonic``) no piece begins after that time. With *run* the pieces run
    in processes that the caller provides.
    """
    expand(scenario, 0, profile)  # report bad input here, before any process starts
    pieces = [
        Piece(scenario=scenario, seeds=tuple(part), profile=profile, planted=planted, seal=seal)
        for part in _parts(seeds, job_count(jobs))
    ]
    tally = Tally(scenario, profile)
    cpu_ns = 0
    with _own_or(run, jobs, len(pieces)) as run:
        for done in run(_run_piece, [msgspec.json.encode(piece) for piece in pieces], until):
            result = msgspec.json.decode(done, type=PieceDone)
            cpu_ns += result.cpu_ns
            for outcome in result.outcomes:
                tally.add(outcome)
                for violation in outcome.violations[:1]:
                    say(f"{scenario}, seed {outcome.seed}: {violation.rule}: {violation.message}")
            progress(tally.seeds, len(seeds), len(tally.failing))
    replays = {outcome.seed: _replay_of(outcome, pieces[0]) for outcome in tally.failing}
    if keep is not None:
        replays = _keep_failures(tally.failing, pieces[0], keep, say)
    return tally.summary(cpu_ns=cpu_ns, replays=replays)


def search_planted(
    bugs: Sequence[Planted],
    *,
    jobs: int | None = None,
    run: Run | None = None,
    progress: Callable[[Search], None] = lambda search: None,
    until: float | None = None,
) -> list[Search]:
    """Search for each bug, from seed 0 on, until it makes a run fail or its budget is spent.

    With *until* no search goes on after that time, and bugs that were not begun are not in the result. With
    *run* the search uses processes that the caller provides.
    """
    _fails_alone.cache_clear()  # the code may have changed since then in this process
    found: dict[str, Search] = {}
    # A bug with a small budget has expensive runs. Those go first, so that no core waits for a long search at
    # the end.
    ordered = sorted(bugs, key=lambda bug: bug.runs_max) if until is None else bugs
    pieces = [msgspec.json.encode(SearchPiece(name=bug.name, until=until)) for bug in ordered]
    with _own_or(run, jobs, len(bugs)) as run:
        for done in run(_search_one, pieces, until):
            search = msgspec.json.decode(done, type=Search)
            found[search.name] = search
            progress(search)
    return [found[bug.name] for bug in bugs if bug.name in found]


def shrink_failure(options: Options, outcome: Outcome, *, seal: bool = True, shrink: bool = True) -> Failure:
    """Return the failure that *options* gave, in its smallest form."""
    violation = outcome.violations[0]
    if not shrink:
        return Failure(violation=violation, options=options, original=options)
    shrinker = Shrinker(violation.rule, partial(simulate, seal=seal))
    smallest = shrinker.shrink(options)
    return Failure(violation=violation, options=smallest, original=options, shrink_runs=shrinker.runs)


def _keep_failures(
    failing: Sequence[Outcome], piece: Piece, keep: Path, say: Callable[[str], None]
) -> dict[int, str]:
    """Keep each failing run, shrinking the first few; return, by seed, the command that replays it."""
    replays: dict[int, str] = {}
    for outcome in sorted(failing, key=lambda outcome: outcome.seed):
        options = expand(piece.scenario, outcome.seed, piece.profile, planted=piece.planted)
        is_shrunk = len(replays) < SHRUNK_MAX
        if is_shrunk:
            say(f"shrinking seed {outcome.seed} with its {len(options.faults)} faults")
        failure = shrink_failure(options, outcome, seal=piece.seal, shrink=is_shrunk)
        path = save_failure(failure, keep)
        replays[outcome.seed] = f"holdfast sim replay {shlex.quote(str(path))}"
    return replays


def _replay_of(outcome: Outcome, piece: Piece) -> str:
    seeds = f"{outcome.seed}:{outcome.seed + 1}"
    profile = "" if piece.profile == DEFAULT else f" --profile {piece.profile}"
    planted = "" if piece.planted is None else f" --planted {piece.planted}"
    return f"holdfast sim run --scenario {piece.scenario} --seeds {seeds}{profile}{planted}"


# --- inside the worker processes


def _run_piece(encoded: bytes) -> bytes:
    piece = msgspec.json.decode(encoded, type=Piece)
    expand(piece.scenario, 0, piece.profile)  # so that the first import is not part of any run
    gc.set_threshold(*COLLECTOR)
    started = time.process_time_ns()
    outcomes = tuple(
        simulate(expand(piece.scenario, seed, piece.profile, planted=piece.planted), seal=piece.seal)
        for seed in piece.seeds
    )
    return msgspec.json.encode(PieceDone(outcomes=outcomes, cpu_ns=time.process_time_ns() - started))


def _search_one(encoded: bytes) -> bytes:
    piece = msgspec.json.decode(encoded, type=SearchPiece)
    bug = planted_bug(piece.name)
    gc.set_threshold(*COLLECTOR)
    started = time.process_time()
    violation = None
    runs = 0
    is_cut = False
    while violation is None and runs < bug.runs_max and not is_cut:
        options = expand(bug.scenario, runs, bug.profile or DEFAULT, planted=bug.name)
        outcome = simulate(options)
        runs += 1
        # A run that also fails without the bug says nothing about the bug.
        if outcome.violations and not _fails_alone(bug.scenario, options.seed, bug.profile or DEFAULT):
            violation = outcome.violations[0]
        is_cut = violation is None and piece.until is not None and time.monotonic() >= piece.until
    search = Search(
        name=bug.name,
        rule=bug.rule,
        scenario=bug.scenario,
        found=violation is not None,
        runs=runs,
        violation="" if violation is None else f"{violation.rule}: {violation.message}",
        cpu_seconds=round(time.process_time() - started, 3),
        is_cut=is_cut and runs < bug.runs_max,
    )
    return msgspec.json.encode(search)


@lru_cache(maxsize=CLEAN_MAX)
def _fails_alone(scenario: str, seed: int, profile: str) -> bool:
    """Whether a run fails without any bug.

    The answer is cached, because many bugs show in the same few runs.
    """
    return bool(simulate(expand(scenario, seed, profile)).violations)


# --- the worker processes


@contextmanager
def processes(jobs: int | None = None, *, pieces: int | None = None) -> Iterator[Run]:
    """Start that many processes, by default one per core, at most one per piece.

    A single job runs in this process.
    """
    jobs = job_count(jobs) if pieces is None else min(job_count(jobs), pieces)
    if jobs <= 1:
        yield _run_here
        return
    with ProcessPoolExecutor(
        jobs,
        mp_context=multiprocessing.get_context("spawn"),
        initializer=end_with,
        initargs=(os.getpid(), signal.SIGTERM),
    ) as pool:
        try:
            yield partial(_run_there, pool, jobs)
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _own_or(run: Run | None, jobs: int | None, pieces: int) -> AbstractContextManager[Run]:
    return processes(jobs, pieces=pieces) if run is None else nullcontext(run)


def _run_here(work: Work, pieces: Sequence[bytes], until: float | None) -> Iterator[bytes]:
    for piece in pieces:
        if until is not None and time.monotonic() >= until:
            return
        yield work(piece)


def _run_there(
    pool: ProcessPoolExecutor, jobs: int, work: Work, pieces: Sequence[bytes], until: float | None
) -> Iterator[bytes]:
    """Give each process one piece in advance, so that *until* is overrun by at most a piece or two."""
    waiting = iter(pieces)
    running: set[Future[bytes]] = set()
    while True:
        while len(running) < 2 * jobs and (until is None or time.monotonic() < until):
            piece = next(waiting, None)
            if piece is None:
                break
            running.add(pool.submit(work, piece))
        if not running:
            return
        finished, running = wait(running, return_when=FIRST_COMPLETED)
        for future in finished:
            try:
                yield future.result()
            except BrokenProcessPool as error:
                raise Unavailable("a simulating process has died; is there enough memory?") from error


def _parts(seeds: Sequence[int], jobs: int) -> Iterator[Sequence[int]]:
    size = max(1, min(PIECE_MAX, len(seeds) // (4 * jobs)))
    for start in range(0, len(seeds), size):
        yield seeds[start : start + size]


def job_count(jobs: int | None) -> int:
    """Return *jobs*, or by default the number of cores that this process may use."""
    return jobs if jobs is not None else len(os.sched_getaffinity(0))


TURN_SEEDS: Final = 6
"""Seeds per process in one turn: so few that they are handed out one by one, and a turn can end after any."""
FIRST_TURN_S: Final = 1.0
"""The least time of every scenario's first turn, even when the total time is over."""
PLANTED_SHARE: Final = 2 / 3
FIRST_SEEDS: Final = 2**40
"""The range from which the first seed is drawn."""


class Mixed(Struct, frozen=True, kw_only=True):
    """What a mix found. Scripts read this interface, so only add to its fields."""

    runs: list[Summary]
    """One summary for each scenario."""
    bugs: list[Search]
    not_begun: list[str] = []
    """The planted bugs for which there was no time."""

    @property
    def is_clean(self) -> bool:
        """Whether every bug that was searched for to the end was found, and no rule broken without one."""
        is_found = all(bug.found or bug.is_cut for bug in self.bugs)
        return is_found and not any(run.violation_count for run in self.runs)


def run_mix(
    bugs: Sequence[Planted],
    scenarios: Sequence[str],
    *,
    within_s: float,
    keep: Path,
    jobs: int | None = None,
    on_search: Callable[[Search], None] = lambda search: None,
    say: Callable[[str], None] = lambda text: None,
) -> Mixed:
    """Search for *bugs*, then run seeds of *scenarios*; failing runs are kept below *keep*."""
    until = time.monotonic() + within_s
    with processes(jobs) as run:
        searches = _share(bugs, time.monotonic() + within_s * PLANTED_SHARE, run, on_search)
        until = max(until, time.monotonic() + within_s * (1 - PLANTED_SHARE))
        runs = _take_turns(scenarios, TURN_SEEDS * job_count(jobs), until, run, keep, say)
    begun = [search.name for search in searches]
    return Mixed(runs=runs, bugs=searches, not_begun=[bug.name for bug in bugs if bug.name not in begun])


def _share(
    bugs: Sequence[Planted], until: float, run: Run, on_search: Callable[[Search], None]
) -> list[Search]:
    """Search for the bugs of each scenario in the same part of the time; what one leaves goes to the next."""
    by_scenario: dict[str, list[Planted]] = {}
    for bug in bugs:
        by_scenario.setdefault(bug.scenario, []).append(bug)
    found: list[Search] = []
    for done, own in enumerate(by_scenario.values()):
        now, first = time.monotonic(), secrets.randbelow(len(own))
        ends = max(now + FIRST_TURN_S, turn_ends(now, until, turns=len(by_scenario) - done))
        ordered = [*own[first:], *own[:first]]
        found += search_planted(ordered, run=run, progress=on_search, until=ends)
    return found


def _take_turns(
    scenarios: Sequence[str], count: int, until: float, run: Run, keep: Path, say: Callable[[str], None]
) -> list[Summary]:
    """Run *count* seeds of each scenario in turn, again and again, until the time is up."""
    least_s = FIRST_TURN_S
    turns: dict[str, list[Summary]] = {scenario: [] for scenario in scenarios}
    first = secrets.randbelow(FIRST_SEEDS)
    while True:
        for done, (scenario, summaries) in enumerate(turns.items()):
            say(f"{scenario}: seeds {first}:{first + count}")
            now = time.monotonic()
            ends = max(now + least_s, turn_ends(now, until, turns=len(turns) - done))
            seeds = range(first, first + count)
            summaries.append(run_seeds(scenario, seeds, run=run, keep=keep, say=say, until=ends))
        if time.monotonic() >= until:
            return [merge(summaries) for summaries in turns.values()]
        first, least_s = first + count, 0.0


def turn_ends(now: float, until: float, *, turns: int) -> float:
    """Return when the next of *turns* turns must end so that all get the same time."""
    return now + max(0.0, until - now) / turns
