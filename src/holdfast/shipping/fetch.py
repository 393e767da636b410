"""The receiving end of one manifest: it finds what is here, asks for what is lacking, and checks everything.

*Search*: chunks are taken from half-made files and from files of other manifests, wherever their hashes are
right. *Fetch*: the rest is asked for, within a window and at a bounded rate, from one source at a time; a
source that is silent, refuses or sends something else is left for the next. *Check*: once everything is
synced, every file is read again and hashed, and a damaged chunk is fetched again. *Name*: only then do the
files, and last the manifest, get the names by which they count (W5).

A fetch that fails, or whose process ends, leaves on the shelf what it has; the next one goes on from there.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Final

from msgspec import Struct

from holdfast.model.backoff import Backoff
from holdfast.model.errors import Corruption, HoldfastError, InvalidRequest, Unavailable
from holdfast.model.ids import MILLISECOND, SECOND
from holdfast.model.ports import Clock, Network, Timers, Trace
from holdfast.model.validation import Problem, below
from holdfast.shipping.manifest import Chunk, Contents, FileEntry, digest_of
from holdfast.shipping.messages import Ask, ChunkSent, NotSent
from holdfast.shipping.progress import Phase, Progress
from holdfast.shipping.rate import Rate
from holdfast.shipping.shelf import Place, Shelf

STEP_BYTES: Final = 1 << 20
"""The most that is read and hashed in one turn: some two milliseconds."""
LOOK_COST: Final = 256
"""What looking at one place counts for, in bytes, even if nothing is read there."""


class ShippingConfig(Struct, frozen=True, kw_only=True):
    """The bounds of what a host fetches and serves."""

    window_bytes: int = 4 << 20
    """The most that is asked for or written and not yet synced. It bounds the memory of both ends; more helps
    on lines with long delays."""
    bytes_per_s: int = 32 << 20
    """How fast to fetch. More takes disk and line from the calls of this host's groups: on two processors,
    calls beside 32 MiB/s took twice as long, beside 64 MiB/s three times."""
    offered_bytes_per_s: int = 32 << 20
    """How fast to serve files, to all other hosts together."""
    silence_ns: int = 5 * SECOND
    """A source from which nothing comes for this long is left for the next."""
    attempts_max: int = 8
    """After this many sources in a row gave nothing, the fetch fails; its owner may try again later."""
    pause_first_ns: int = 100 * MILLISECOND
    """The first pause before the next source."""
    pause_most_ns: int = 5 * SECOND
    """The pause before the next source, which doubles with every attempt that gave nothing."""
    checks_max: int = 4
    """After this many checks that found damage, the disk is given up."""

    def validate(self) -> list[Problem]:
        problems = below(self, 1, self.__struct_fields__)
        if self.pause_first_ns > self.pause_most_ns:
            problems.append(("pause_first_ns", "must be at most pause_most_ns"))
        return problems


@dataclass(frozen=True, slots=True)
class FetchPorts:
    """What a fetch needs of the outside."""

    clock: Clock
    timers: Callable[[Callable[[object], None]], Timers]
    network: Network
    trace: Trace


class Fetch:
    """One fetch of one manifest. *on_end* is called once: with None when the manifest counts, else why not.

    An error of the disk is raised where it occurs, and reported by the shelf: it is the owner's (D1).
    """

    def __init__(
        self,
        contents: Contents,
        sources: Sequence[str],
        shelf: Shelf,
        ports: FetchPorts,
        on_end: Callable[[HoldfastError | None], None],
        config: ShippingConfig,
        instead_of: Contents | None = None,
    ) -> None:
        """Files of *instead_of* that are on the shelf become those of *contents* in place."""
        self.contents: Final = contents
        self._instead_of = instead_of
        self.progress: Final = Progress(contents.bytes)
        self._sources = tuple(sources)
        self._source = 0
        self._shelf = shelf
        self._clock = ports.clock
        self._timers = ports.timers(self._on_timer)
        self._network = ports.network
        self._trace = ports.trace
        self._on_end = on_end
        self._config = config
        self._rate = Rate(ports.clock, config.bytes_per_s)
        self._lacking: dict[bytes, list[int]] = {}
        """The hashes of the chunks that are not written yet, with the chunks' numbers."""
        self._job: Iterator[int] = iter(())
        """The rest of the present search or check, which yields the cost of each of its steps."""
        self._twins: list[Place] = []
        """Where chunks were written that the manifest has at other places too."""
        self._to_ask: deque[int] = deque()
        self._asked: dict[int, int] = {}
        """The chunks that were asked for, with their lengths."""
        self._in_flight = 0
        self._heard_ns = 0
        self._is_pausing = self._is_watching = self._is_rated = self._is_work_due = False
        self._dirty: dict[str, None] = {}
        self._unsynced = 0
        self._is_syncing = False
        self._finished: set[int] = set()
        """The files that were there, by index: they are hashed whole, whatever this process knows of them."""
        self._checks = 0

    @property
    def held_up_bytes(self) -> int:
        """What is asked for, or written and not synced: at most a window, or one chunk."""
        return self._in_flight + self._unsynced

    def start(self) -> None:
        self._shelf.begin(self.contents, self._begun, self._instead_of)

    def stop(self) -> None:
        """Do nothing any more; *on_end* is not called."""
        if self.progress.phase is not Phase.DONE:
            self.progress.phase = Phase.FAILED

    # --- events

    def on_chunk(self, peer: str, sent: ChunkSent) -> None:
        if sent.manifest != self.contents.id or sent.number >= self.contents.count:
            return
        if self.progress.phase is not Phase.FETCHING:
            self.progress.repeated += len(sent.data)
            return
        was_asked = self._no_longer_asked(sent.number)
        self._heard_ns = self._clock.now()
        chunk = self.contents.chunk(sent.number)
        found = digest_of(sent.data)
        numbers = self._lacking.get(chunk.digest)
        if found != chunk.digest:
            self._note_damage(chunk, found, f"from {peer}")
            if was_asked:
                self._to_ask.appendleft(sent.number)
            self._leave_source(f"{peer} sent a damaged chunk of {chunk.file.name!r} at byte {chunk.offset}")
        elif numbers is None or sent.number not in numbers or not (was_asked or self._has_room(chunk.length)):
            self.progress.repeated += len(sent.data)
        else:
            self.progress.attempts = 0
            self.progress.received += len(sent.data)
            numbers.remove(sent.number)
            self._write(sent.number, sent.data)
            if numbers:
                self._twins.append(self._shelf.place_of(chunk))
        self._go_on()

    def on_not_sent(self, peer: str, answer: NotSent) -> None:
        is_ours = answer.manifest == self.contents.id and self.progress.phase is Phase.FETCHING
        if is_ours and self._no_longer_asked(answer.number):
            self._to_ask.append(answer.number)
            self._leave_source(f"{peer}: {answer.why}")

    def on_lost(self, peer: str) -> None:
        """The connection to *peer* has ended, and with it what was asked there."""
        if self._asked and peer == self._sources[self._source]:
            self._ask_again()
            self._leave_source(f"the connection to {peer} has ended")

    def _on_timer(self, tag: object) -> None:
        if self.progress.phase in (Phase.DONE, Phase.FAILED):
            return
        if tag == "work":
            self._is_work_due = False
            self._work()
        elif tag == "watch":
            self._is_watching = False
            self._watch()
        elif tag == "rate":
            self._is_rated = False
            self._go_on()
        else:
            self._is_pausing = False
            self._heard_ns = self._clock.now()  # the next source is silent from now on, not since before
            self._go_on()

    # --- search

    def _begun(self, half_made: list[FileEntry]) -> None:
        if not self._sources:
            self._end(InvalidRequest(f"{self.contents!r}: no host was named that could send it"))
            return
        places = self._shelf.places(self.contents, half_made)
        self._search(chain(self._listing(), self._searching(places)))

    def _search(self, job: Iterator[int]) -> None:
        self.progress.phase = Phase.SEARCHING
        self._job = job
        self._work()

    def _listing(self) -> Iterator[int]:
        for index, file in enumerate(self.contents.files):
            if self._shelf.is_finished(file):
                self.progress.found += file.size
                self._finished.add(index)
                continue
            for number in self.contents.numbers(index):
                chunk = self.contents.chunk(number)
                if self._shelf.is_checked(chunk):
                    self.progress.found += chunk.length
                else:
                    self._lack(number)
                yield LOOK_COST

    def _searching(self, places: Iterable[Place]) -> Iterator[int]:
        for place in places:
            yield LOOK_COST
            numbers = self._lacking.get(place.digest)
            if numbers is None:
                continue
            data = self._shelf.read(place)
            yield len(data)
            if digest_of(data) != place.digest:
                continue
            while numbers:
                self.progress.found += len(data)
                self._write(numbers.pop(), data)
                yield len(data)

    def _work(self) -> None:
        """Do a turn's share of the present search or check."""
        budget = STEP_BYTES
        while budget > 0:
            if not self._has_room(self.contents.manifest.chunk_bytes):
                self._sync()  # and then go on
                return
            cost = next(self._job, None)
            if cost is None:
                self._worked()
                return
            budget -= cost
        self._work_on()

    def _worked(self) -> None:
        if self.progress.phase is Phase.SEARCHING:
            self._fetch()
        elif self.progress.phase is Phase.CHECKING:
            self._checked()

    def _work_on(self) -> None:
        """Do the next share in a turn of its own, so that others have theirs."""
        if not self._is_work_due:
            self._is_work_due = True
            self._timers.set(0, "work")

    # --- fetch

    def _fetch(self) -> None:
        self.progress.phase = Phase.FETCHING
        self._twins.clear()
        self._to_ask = deque(numbers[0] for numbers in self._lacking.values())
        self._heard_ns = self._clock.now()
        self._go_on()

    def _go_on(self) -> None:
        """Do whatever is due: whenever something has arrived, was synced, or may be asked again."""
        if self.progress.phase is Phase.SEARCHING:
            self._work_on()
        if self.progress.phase is not Phase.FETCHING:
            return
        is_all_here = not self._asked and not self._to_ask
        if self._unsynced and (is_all_here or 2 * self._unsynced >= self._config.window_bytes):
            self._sync()
        if not is_all_here:
            self._ask()
        elif self._lacking:
            # What is lacking now is what the manifest has at several places.
            if self._twins:
                self._search(self._searching(tuple(self._twins)))
            else:
                self._fetch()
        elif not self._unsynced:
            self._check()

    def _ask(self) -> None:
        while self._to_ask and not self._is_pausing:
            number = self._to_ask[0]
            chunk = self.contents.chunk(number)
            if number not in self._lacking.get(chunk.digest, ()):
                self._to_ask.popleft()
                continue
            if not self._has_room(chunk.length):
                if not self._asked:
                    self._sync()  # nothing else will make room
                break
            wait_ns = self._rate.wait_ns()
            if wait_ns:
                if not self._is_rated:
                    self._is_rated = True
                    self._timers.set(wait_ns, "rate")
                break
            self._to_ask.popleft()
            self._asked[number] = chunk.length
            self._in_flight += chunk.length
            self._rate.spend(chunk.length)
            self._network.send(self._sources[self._source], Ask(self.contents.id, number))
        if not self._to_ask and not self._asked:
            self._go_on()
        elif self._asked and not self._is_watching:
            self._watch()

    def _has_room(self, length: int) -> bool:
        """Whether the window has room for that much more."""
        return not self.held_up_bytes or self.held_up_bytes + length <= self._config.window_bytes

    def _no_longer_asked(self, number: int) -> bool:
        length = self._asked.pop(number, None)
        self._in_flight -= length or 0
        return length is not None

    def _ask_again(self) -> None:
        self._to_ask.extendleft(reversed(self._asked))
        self._asked.clear()
        self._in_flight = 0

    def _watch(self) -> None:
        """Wait for the source, and leave it once it has been silent for too long."""
        if not self._asked:
            return
        left_ns = self._heard_ns + self._config.silence_ns - self._clock.now()
        if left_ns > 0:
            self._is_watching = True
            self._timers.set(left_ns, "watch")
            return
        self._ask_again()
        self._leave_source(f"nothing came from {self._sources[self._source]}")

    def _leave_source(self, why: str) -> None:
        """Go on with the next source, after a pause that grows while nobody gives anything."""
        if self._is_pausing:
            return
        progress, config = self.progress, self._config
        progress.problem = why
        progress.attempts += 1
        self._trace.note("shipping-source-left", manifest=self.contents.id.hex()[:12], why=why)
        if progress.attempts > config.attempts_max:
            self._end(Unavailable(f"{self.contents!r}: no source gives what is lacking; the last: {why}"))
            return
        self._source = (self._source + 1) % len(self._sources)
        self._heard_ns = self._clock.now()
        self._is_pausing = True
        pauses = Backoff(config.pause_first_ns, config.pause_most_ns)
        self._timers.set(pauses.delay_ns(progress.attempts - 1), "pause")

    # --- check

    def _check(self) -> None:
        self.progress.phase = Phase.CHECKING
        self._trace.note("shipping-checking", manifest=self.contents.id.hex()[:12])
        self._job = self._checking()
        self._work()

    def _checking(self) -> Iterator[int]:
        chunk_bytes = self.contents.manifest.chunk_bytes
        for index, file in enumerate(self.contents.files):
            for number in self.contents.numbers(index):
                chunk = self.contents.chunk(number)
                if index not in self._finished and self._shelf.is_checked(chunk):
                    yield LOOK_COST
                    continue
                data = self._shelf.read(self._shelf.place_of(chunk))
                found = digest_of(data)
                if found == chunk.digest:
                    self._shelf.note_checked(chunk, chunk_bytes)
                else:
                    self._note_damage(chunk, found, "on this disk")
                    self._lack(number)
                    if self._shelf.is_finished(file):
                        self._shelf.reopen(file)
                yield len(data)
            self._finished.discard(index)

    def _checked(self) -> None:
        self._checks += 1
        if not self._lacking:
            self.progress.phase = Phase.NAMING
            self._shelf.finish(self.contents, lambda: self._end(None))
        elif self._checks < self._config.checks_max:
            self._fetch()
        else:
            self._end(Unavailable(f"{self.contents!r}: this disk damages it: {self.progress.damage}"))

    def _note_damage(self, chunk: Chunk, found: bytes, where: str) -> None:
        damage = Corruption(
            f"a chunk {where}",
            file=chunk.file.name,
            offset=chunk.offset,
            expected=chunk.digest.hex()[:12],
            found=found.hex()[:12],
        )
        self.progress.damaged += 1
        self.progress.damage = str(damage)
        self._trace.note("shipping-damage", manifest=self.contents.id.hex()[:12], damage=str(damage))

    # --- writing, and the end

    def _lack(self, number: int) -> None:
        self._lacking.setdefault(self.contents.chunk(number).digest, []).append(number)

    def _write(self, number: int, data: bytes) -> None:
        """Write a chunk whose hash is right, and whose number was taken out of those that lack."""
        chunk = self.contents.chunk(number)
        if not self._lacking[chunk.digest]:
            del self._lacking[chunk.digest]
        self._dirty[self._shelf.write(chunk, data)] = None
        self._unsynced += len(data)

    def _sync(self) -> None:
        if self._is_syncing:
            return
        self._is_syncing = True
        names, covered = list(self._dirty), self._unsynced
        self._dirty.clear()

        def synced() -> None:
            self._is_syncing = False
            self._unsynced -= covered
            self._go_on()

        self._shelf.sync(names, synced)

    def _end(self, error: HoldfastError | None) -> None:
        self.progress.phase = Phase.DONE if error is None else Phase.FAILED
        if error is not None:
            self.progress.problem = str(error)
        self._job = iter(())
        self._on_end(error)
