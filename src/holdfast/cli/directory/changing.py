"""`holdfast directory cut`, `heal`, `join`, `retire`, `initialise`, `clock`: who replicates with whom."""

import asyncio
from collections.abc import Coroutine
from typing import Annotated, Final

import uvloop
from cyclopts import App, Parameter

from holdfast.cli.admin import endpoint_at
from holdfast.cli.directory.masters import Master, ask, masters_at, named, reachable
from holdfast.cli.hosts import add
from holdfast.cli.output import is_agreed, talk
from holdfast.cli.where import HERE, Dir, Target, Where
from holdfast.clock.vector import Vector
from holdfast.directory.hosting.orders import (
    AdmitReplica,
    CutLink,
    HealLink,
    InitialiseReplica,
    LeaveDirectory,
    Order,
    OrderDone,
    ResetClock,
    RetireReplica,
)
from holdfast.model.errors import HoldfastError, InvalidRequest, OutcomeUnknown, Unavailable
from holdfast.model.host_roles import DIRECTORY, GROUPS
from holdfast.model.ids import HostId
from holdfast.net import NotConnected
from holdfast.node.layout import DIRECTORY_DEFAULT, Layout

APPLIED_S: Final = 30.0
"""How long a command waits until what it ordered is so."""
POLL_S: Final = 0.1
EXIT_DECLINED: Final = 1

clock = App(name="clock", help="Put the clocks of masters right.")

Yes = Annotated[bool, Parameter(negative="", help="Do not ask.")]


def cut(one: str, other: str, *, at: Where = HERE) -> int:
    """Stop replication between two masters, until `heal`. Both go on taking writes.

    Parameters
    ----------
    one
        A master: its host's name, or the number of its replica.
    other
        Another.
    """
    uvloop.run(_set_link(at.target, one, other, is_cut=True))
    talk.print(f"{one} and {other} do not replicate with each other; `heal` lets them", markup=False)
    return 0


def heal(one: str, other: str, *, at: Where = HERE) -> int:
    """Resume replication between two masters: each gets what it lacks.

    Parameters
    ----------
    one
        A master: its host's name, or the number of its replica.
    other
        Another.
    """
    uvloop.run(_set_link(at.target, one, other, is_cut=False))
    talk.print(f"{one} and {other} replicate with each other", markup=False)
    return 0


async def _set_link(target: Target, one: str, other: str, *, is_cut: bool) -> None:
    masters = await masters_at(target)
    a, b = named(masters, one), named(masters, other)
    kind = CutLink if is_cut else HealLink
    order = kind(one=a.host, other=b.host)
    # Each is asked: the first writes it down for good, and each has it in force when it answers.
    asked = [each for each in (a, b) if each.address]
    if not asked:
        raise Unavailable(f"neither {a.host} nor {b.host} can be asked")
    await asyncio.gather(*(ask(each.address, endpoint_at(target), order, OrderDone) for each in asked))


def join(
    host: str,
    *,
    read_only: Annotated[bool, Parameter(negative="")] = False,
    location: str | None = None,
    dir: Dir = DIRECTORY_DEFAULT,
) -> int:
    """Let one more host of this machine have a replica: it is made, and filled with a copy.

    Parameters
    ----------
    host
        Its id, which no host of the domain has; or a host that was retired and shall come back.
    read_only
        It takes no writes, and refers writers to masters.
    location
        Where it is, as rack1/m2.
    """
    layout = Layout(dir)
    uvloop.run(_admit(layout, HostId(host), is_read_only=read_only))
    if host not in layout.read().hosts:
        add(host, location=location, roles=f"{GROUPS},{DIRECTORY}", dir=dir)
    uvloop.run(_until(layout, HostId(host), "serving"))
    talk.print(f"{host} has a replica and serves it", markup=False)
    return 0


async def _admit(layout: Layout, host: HostId, *, is_read_only: bool) -> None:
    order = AdmitReplica(host=host, is_read_only=is_read_only)
    await _ask_any(layout, await masters_at(layout), order)


async def _ask_any(target: Target, masters: list[Master], order: Order) -> OrderDone:
    """Give an order that any master can carry out."""
    why: HoldfastError = Unavailable("no master of the directory lives")
    for each in masters:
        if each.info is None or each.info.state != "serving":
            continue
        try:
            return await ask(each.address, endpoint_at(target), order, OrderDone)
        except (NotConnected, OutcomeUnknown, Unavailable) as error:
            why = error
    raise why


async def _until(target: Target, host: HostId, state: str) -> Master:
    """Wait until the replica of *host* is in that state."""
    while True:
        try:
            found = next((each for each in await masters_at(target) if each.host == host), None)
        except (NotConnected, OutcomeUnknown, Unavailable):
            found = None
        if found is not None and found.info is not None and found.info.state == state:
            return found
        await asyncio.sleep(POLL_S)


def retire(
    host: str,
    *,
    force: Annotated[bool, Parameter(negative="")] = False,
    yes: Yes = False,
    at: Where = HERE,
) -> int:
    """Let a host have no replica any more, and its replica id be used by nobody.

    A master that lives says its last word first, and nothing is lost. One that is gone for good is retired
    with --force; the command says what that loses.

    Parameters
    ----------
    host
        The host, or the number of its replica.
    force
        Also if changes may be lost that only this replica has.
    """
    target = at.target
    masters = uvloop.run(masters_at(target))
    gone = named(masters, host)
    if force and not yes and not is_agreed(f"retire the replica of {gone.host}, whatever it has? [y/N] "):
        return EXIT_DECLINED
    talk.print(uvloop.run(_retire(target, masters, gone, force=force)), markup=False, soft_wrap=True)
    return 0


async def _retire(target: Target, masters: list[Master], gone: Master, *, force: bool) -> str:
    others = [each for each in masters if each is not gone]
    order = RetireReplica(host=gone.host, force=force)
    if gone.info is not None and gone.info.state == "serving":
        await ask(reachable(gone), endpoint_at(target), LeaveDirectory(), OrderDone)
        # Its last word has to reach another first.
        order = RetireReplica(host=gone.host)
    elif not force:
        return (await _ask_any(target, others, order)).text
    try:
        async with asyncio.timeout(APPLIED_S):
            while True:
                try:
                    return (await _ask_any(target, others, order)).text
                except InvalidRequest:
                    if order.force or gone.info is None:
                        raise
                await asyncio.sleep(POLL_S)
    except TimeoutError:
        if not force:
            raise Unavailable(f"no other master has heard the last word of {gone.host}") from None
    return (await _ask_any(target, others, RetireReplica(host=gone.host, force=True))).text


def initialise(
    host: str,
    *,
    source: Annotated[str | None, Parameter(name="--from")] = None,
    force: Annotated[bool, Parameter(negative="")] = False,
    yes: Yes = False,
    at: Where = HERE,
) -> int:
    """Throw the data of one replica away and fill it anew from another, with all state.

    For a replica that was away for longer than changes are kept, and for one that is damaged. It serves
    again, under a new replica id, when the copy is there.

    Parameters
    ----------
    host
        The host, or the number of its replica.
    source
        From which master; without it, from any.
    force
        Also if it has changes that no connected master has: they are lost.
    """
    target = at.target
    masters = uvloop.run(masters_at(target))
    emptied = named(masters, host)
    named_source = None if source is None else named(masters, source).host
    if not yes and not is_agreed(f"throw the data of {emptied.host} away and fill it anew? [y/N] "):
        return EXIT_DECLINED
    order = InitialiseReplica(source=named_source, force=force)
    uvloop.run(_initialise(target, emptied, order))
    talk.print(f"{emptied.host} is filled and serves", markup=False)
    return 0


async def _initialise(target: Target, emptied: Master, order: InitialiseReplica) -> None:
    await ask(reachable(emptied), endpoint_at(target), order, OrderDone)
    before = emptied.info.replica if emptied.info is not None else None
    while True:
        found = await _until(target, emptied.host, "serving")
        if found.info is not None and found.info.replica != before:
            return
        await asyncio.sleep(POLL_S)


@clock.command
def reset(*, at: Where = HERE) -> int:
    """Let masters whose clocks were wrong replicate again.

    Every master passes the newest change of all, and what peers have pulled its clock forward counts as its
    own: the limit (csn_max_skew) counts anew from here. Its time never goes back, so no CSN is given twice;
    put the machines' clocks right first.
    """
    for line in uvloop.run(_reset(at.target)):
        talk.print(line, markup=False, soft_wrap=True)
    return 0


async def _reset(target: Target) -> list[str]:
    masters = [each for each in await masters_at(target) if each.info is not None and each.info.vector]
    if not masters:
        raise Unavailable("no master of the directory serves")
    vectors = [Vector.parse(each.info.vector) for each in masters if each.info is not None]
    newest = max((csn for vector in vectors for csn in vector), default=None)
    order = ResetClock(newest="" if newest is None else newest.text())
    given: list[Coroutine[object, object, OrderDone]] = [
        ask(each.address, endpoint_at(target), order, OrderDone) for each in masters
    ]
    answers = await asyncio.gather(*given)
    return [f"{each.host}: {answer.text}" for each, answer in zip(masters, answers, strict=True)]
