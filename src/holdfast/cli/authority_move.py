"""``holdfast authority move`` and ``where``: move the domain to another authority; say where it is (A8)."""

import asyncio
import secrets
import signal
import time
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec
import uvloop

from holdfast.agent.status_client import signal_holder
from holdfast.authority.move.copying import COPY_BYTES_MAX, list_all
from holdfast.authority.move.finding import Serving, Undecided, find_serving, give_up
from holdfast.authority.move.following import Places, perform_at
from holdfast.authority.move.mover import Moved, MoveEnd, Mover, Progress, StaysHere, TakenOver, objection_to
from holdfast.authority.move.place import Place, etcd_for, moved_to, parse_endpoints, sqlite_at
from holdfast.authority.move.place_file import Whereabouts, write_whereabouts
from holdfast.authority.move.seat import MoveRecipe, SeenSeat, read_seat
from holdfast.authority.recipe import NoAnswer, Silence
from holdfast.cli.etcd_flags import Etcd, EtcdFlags
from holdfast.cli.output import Output, print_json, print_table, talk
from holdfast.cli.where import Dir
from holdfast.machine import MachineClock
from holdfast.model.errors import InvalidRequest, Unavailable
from holdfast.model.ids import Nonce
from holdfast.node.endpoints import admin_endpoint
from holdfast.node.layout import DIRECTORY_DEFAULT, Description, Layout
from holdfast.node.links import free_addresses
from holdfast.node.session import authority_connector

EXIT_DONE, EXIT_STAYS, EXIT_UNKNOWN = 0, 1, 3
RETRY_S: Final = 0.2
START_S: Final = 30.0
"""How long an embedded authority may take to start, on a busy machine."""


@dataclass(slots=True)
class _Told:
    """What the person is told of the steps, and when the pause began and ended."""

    sealed_at: float | None = None
    released_at: float | None = None
    steps: list[str] = field(default_factory=list)

    def __call__(self, progress: Progress) -> None:
        if progress.step == "sealed":
            self.sealed_at = time.monotonic()
        elif progress.step == "released":
            self.released_at = time.monotonic()
        what = "leases" if progress.step == "continued" else "keys"
        count = f" {progress.done} of {progress.of} {what}" if progress.of else ""
        self.steps.append(progress.step)
        talk.print(f"{progress.step}{count}")

    @property
    def pause_ms(self) -> int | None:
        if self.sealed_at is None or self.released_at is None:
            return None
        return round((self.released_at - self.sealed_at) * 1000)


def where(*, dir: Dir = DIRECTORY_DEFAULT, output: Output = "table") -> int:
    """Say where the domain's authority is, and whether it is being moved.

    Parameters
    ----------
    output
        `table` for people, `json` for machines.
    """
    layout = Layout(dir)
    return uvloop.run(_where(layout, layout.read(), output))


def move(
    *,
    to: str,
    dir: Dir = DIRECTORY_DEFAULT,
    etcd: Etcd = None,
    give_up: bool = False,
    patience: float = 30.0,
    dry_run: bool = False,
    output: Output = "table",
) -> int:
    """Move the domain to another authority while it runs.

    Groups go on serving calls meanwhile; what needs the authority (failovers, new groups, joining hosts)
    waits from `sealed` to `released`, mostly less than a second. A move that was interrupted is taken up
    again by the same command; without that, the hosts give it up after five seconds, and the domain stays
    where it was.

    Parameters
    ----------
    to
        `etcd://HOST:PORT,HOST:PORT,...`, or `sqlite` for the embedded authority: the one that the
        domain had, or else one on this machine.
    give_up
        Give up a move to there that is under way, instead of finishing it.
    patience
        How many seconds to go on when one of the two does not answer; then the move is given up.
    dry_run
        Only say what would be moved, and whether it can be.
    output
        `table` for people, `json` for machines.
    """
    layout = Layout(dir)
    run = _MoveCommand(layout, layout.read(), to, etcd or EtcdFlags(), patience)
    return uvloop.run(run.run(wants_give_up=give_up, dry_run=dry_run, output=output))


class _MoveCommand:
    def __init__(
        self, layout: Layout, description: Description, to: str, flags: EtcdFlags, patience_s: float
    ) -> None:
        self._layout = layout
        self._description = description
        self._to = to
        self._flags = flags
        self._patience_s = patience_s
        self._told = _Told()

    async def run(self, *, wants_give_up: bool, dry_run: bool, output: Output) -> int:
        target = self._target(dry_run=dry_run)
        places = _places(self._layout, self._description)
        try:
            found = await _found(places, self._layout, self._description)
            if isinstance(found, Undecided):
                if not _is_same(found.target.place, target):
                    raise InvalidRequest(
                        f"a move to {found.target.place} is under way: finish it, or give it up with "
                        "`holdfast authority move --give-up --to ...`, before another begins"
                    )
                if wants_give_up:
                    return await self._give_up(places, found, output)
                talk.print(f"taking up the move from {found.source.place} to {found.target.place}")
                return await self._move(places, found.source, found.target.place, output)
            if wants_give_up:
                raise InvalidRequest(f"no move is under way: the authority is {found.seen.place}")
            if _is_same(found.seen.place, target):
                return _say_end(output, "is there already", found.seen.place)
            target = moved_to(target, found.seen.seat.stay + 1)
            await self._check(places, target)
            if dry_run:
                return await self._show(places, found.seen, target, output)
            return await self._move(places, found.seen, target, output)
        finally:
            await places.leave_all_but(None)

    def _target(self, *, dry_run: bool) -> Place:
        if self._to == "sqlite":
            if self._flags.is_given:
                raise InvalidRequest("the --etcd-... flags are for a move to an etcd")
            return sqlite_at(self._own_authority(dry_run=dry_run))
        if not self._to.startswith(("etcd://", "http://", "https://")):
            raise InvalidRequest(f"cannot move to {self._to!r}: give etcd://HOST:PORT,HOST:PORT or sqlite")
        endpoints = parse_endpoints(self._to, is_tls=self._flags.has_tls)
        place = etcd_for(
            self._description.domain, endpoints, self._flags.keep(self._layout.directory, endpoints)
        )
        if problems := place.problems():
            raise InvalidRequest("; ".join(problems))
        return place

    def _own_authority(self, *, dry_run: bool) -> str:
        """The address of this machine's embedded authority, which the agent starts if there is none yet."""
        known = self._description.authority_address
        if known is not None:
            return known
        (listening,) = free_addresses(self._description.here.host, 1)
        address = str(self._description.reached(listening))
        if not dry_run:
            self._description = msgspec.structs.replace(
                self._description, authority_address=address, serves_authority=True
            )
            self._layout.write(self._description)
            self._layout.prepare(self._description)
            if not signal_holder(self._layout.agent_directory, signal.SIGHUP):
                raise Unavailable("no agent runs here that could start the embedded authority: `holdfast up`")
        return address

    async def _check(self, places: Places, target: Place) -> None:
        """Raise what makes the target unusable, before anything is changed."""
        backend = places.at(target)
        if target.kind == "etcd":
            from holdfast.authority.etcd.backend import (
                EtcdAuthority,  # it loads an HTTP client, for nobody else here
            )

            if isinstance(backend, EtcdAuthority):
                await backend.check()
        trouble = ""
        deadline = time.monotonic() + START_S
        while time.monotonic() < deadline:
            seen = await perform_at(places, _seat_or_silence(target))
            if isinstance(seen, SeenSeat):
                if (objection := await perform_at(places, objection_to(seen))) is not None:
                    raise InvalidRequest(objection)
                return
            trouble = seen.reason
            if target.kind == "etcd":
                break
            await asyncio.sleep(RETRY_S)
        raise Unavailable(f"{target} does not answer, nothing was changed: {trouble}")

    async def _show(self, places: Places, source: SeenSeat, target: Place, output: Output) -> int:
        items = await perform_at(places, list_all(source))
        size = sum(len(key) + len(item.value) for key, item in items.items())
        found = {
            "from": str(source.place),
            "to": str(target),
            "keys": len(items),
            "bytes": size,
            "bytes_max": COPY_BYTES_MAX,
            "sessions": sum(1 for item in items.values() if item.lease),
        }
        if output == "json":
            print_json({"ends": "dry run", **found})
        else:
            print_table(("", ""), list(found.items()), title="nothing was changed")
        return EXIT_DONE

    async def _move(self, places: Places, source: SeenSeat, target: Place, output: Output) -> int:
        mover = Mover(
            source.place,
            target,
            id=secrets.token_hex(8),
            nonce=lambda: Nonce(secrets.token_hex(8)),
            now=MachineClock().now,
            tell=self._told,
        )
        deadline = time.monotonic() + self._patience_s
        end: MoveEnd = await perform_at(places, mover.run())
        while isinstance(end, NoAnswer) and time.monotonic() < deadline:
            talk.print(f"no answer: {end.reason}")
            await asyncio.sleep(RETRY_S)
            end = await perform_at(places, mover.run())
        return await self._ended(places, end, output)

    async def _ended(self, places: Places, end: MoveEnd, output: Output) -> int:
        if isinstance(end, Moved):
            self._remember(end.seen)
            copied = end.copied
            facts = (
                {}
                if copied is None
                else {"keys": copied.keys, "bytes": copied.bytes, "digest": copied.digest}
            )
            return _say_end(output, "moved", end.seen.place, pause_ms=self._told.pause_ms, **facts)
        if isinstance(end, StaysHere):
            return await self._say_where(places, end.reason, output)
        if isinstance(end, NoAnswer):
            found = await perform_at(places, find_serving(self._layout.authority_place(self._description)))
            if isinstance(found, Undecided):
                await perform_at(places, give_up(found, nonce=Nonce(secrets.token_hex(8))))
            return await self._say_where(places, end.reason, output)
        return await self._say_where(places, end.reason if isinstance(end, TakenOver) else "", output)

    async def _give_up(self, places: Places, found: Undecided, output: Output) -> int:
        await perform_at(places, give_up(found, nonce=Nonce(secrets.token_hex(8))))
        await self._say_where(places, "the move was given up", output)
        return EXIT_DONE

    async def _say_where(self, places: Places, reason: str, output: Output) -> int:
        """Say where the domain is, after a move that did not end as this command wanted."""
        deadline = time.monotonic() + self._patience_s
        found: object = None
        while time.monotonic() < deadline:
            found = await perform_at(places, find_serving(self._layout.authority_place(self._description)))
            if isinstance(found, Serving):
                self._remember(found.seen)
                _say_end(output, "stays", found.seen.place, reason=reason)
                return EXIT_STAYS
            await asyncio.sleep(RETRY_S)
        state = found if isinstance(found, Undecided) else None
        where = state.source.place if state is not None else "unknown"
        _say_end(output, "undecided", where, reason=f"{reason}; see `holdfast authority where`")
        return EXIT_UNKNOWN

    def _remember(self, seen: SeenSeat) -> None:
        if seen.seat.stay > 1:
            write_whereabouts(self._layout.directory, Whereabouts(stay=seen.seat.stay, place=seen.place))


async def _where(layout: Layout, description: Description, output: Output) -> int:
    places = _places(layout, description)
    try:
        found = await _found(places, layout, description)
    finally:
        await places.leave_all_but(None)
    serving = found.seen if isinstance(found, Serving) else None
    facts: dict[str, Any] = {
        "authority": str(serving.place) if serving else None,
        "kind": serving.place.kind if serving else None,
        "stay": serving.seat.stay if serving else None,
        "moving": None,
    }
    if isinstance(found, Undecided):
        facts["moving"] = {
            "from": str(found.source.place),
            "to": str(found.target.place),
            "target": found.target.seat.state,
            "copied": found.target.seat.copied,
        }
    if output == "json":
        print_json(facts)
    elif isinstance(found, Undecided):
        talk.print(
            f"a move is under way, from {found.source.place} (sealed) to {found.target.place} "
            f"({found.target.seat.state}, {found.target.seat.copied} keys copied): the same `holdfast "
            "authority move` finishes it; without that the hosts give it up",
            soft_wrap=True,
        )
    else:
        assert serving is not None
        print_table(("authority", "stay", "moving"), [(str(serving.place), serving.seat.stay, "no")])
    return EXIT_DONE


def _places(layout: Layout, description: Description) -> Places:
    return Places(authority_connector(description, admin_endpoint(layout, description), layout))


async def _found(places: Places, layout: Layout, description: Description) -> Serving | Undecided:
    deadline = time.monotonic() + START_S
    reason = ""
    while time.monotonic() < deadline:
        found = await perform_at(places, find_serving(layout.authority_place(description)))
        if isinstance(found, Serving | Undecided):
            return found
        reason = found.reason if isinstance(found, NoAnswer) else "it is being moved right now"
        await asyncio.sleep(RETRY_S)
    raise Unavailable(f"the authority did not answer within {START_S:g} s: {reason}")


def _seat_or_silence(place: Place) -> MoveRecipe[SeenSeat | NoAnswer]:
    try:
        return (yield from read_seat(place))
    except Silence as silence:
        return NoAnswer(str(silence))


def _is_same(place: Place, target: Place) -> bool:
    """Whether *place* is where a move to *target* leads, whichever stay it is."""
    if place.etcd is None or target.etcd is None:
        return place == target
    return place.etcd.endpoints == target.etcd.endpoints


def _say_end(output: Output, ends: str, place: Place | str, **facts: Any) -> int:
    if output == "json":
        print_json({"ends": ends, "authority": str(place), **facts})
        return EXIT_DONE
    shown = "; ".join(f"{name} {value}" for name, value in facts.items() if value is not None)
    talk.print(f"{ends}: the authority is {place}{f' ({shown})' if shown else ''}", soft_wrap=True)
    return EXIT_DONE
