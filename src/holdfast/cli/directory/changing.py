"""`holdfast directory cut`, `heal`, `join`, `retire`, `initialise`, `clock`: who replicates with whom."""

import asyncio
from collections.abc import Coroutine
from typing import Annotated, Final

import uvloop
from cyclopts import App, Parameter

from holdfast.cli.admin import endpoint_at
from holdfast.cli.directory.masters import (
    Master,
    ask,
    directories_at,
    directory_at,
    masters_at,
    named,
    reachable,
)
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
OfSuffix = Annotated[str | None, Parameter(help="Of this directory only; without it, of all of the domain.")]


def cut(one: str, other: str, *, suffix: OfSuffix = None, at: Where = HERE) -> int:
    """Stop replication between two masters, until `heal`. Both go on taking writes.

    Parameters
    ----------
    one
        A master: its host's name, or the number of its replica.
    other
        Another.
    """
    uvloop.run(_set_links(at.target, suffix, one, other, is_cut=True))
    talk.print(f"{one} and {other} do not replicate with each other; `heal` lets them", markup=False)
    return 0


def heal(one: str, other: str, *, suffix: OfSuffix = None, at: Where = HERE) -> int:
    """Resume replication between two masters: each gets what it lacks.

    Parameters
    ----------
    one
        A master: its host's name, or the number of its replica.
    other
        Another.
    """
    uvloop.run(_set_links(at.target, suffix, one, other, is_cut=False))
    talk.print(f"{one} and {other} replicate with each other", markup=False)
    return 0


async def _set_links(target: Target, wanted: str | None, one: str, other: str, *, is_cut: bool) -> None:
    directories = await directories_at(target, wanted)
    for suffix, masters in directories.items():
        await _set_link(target, suffix, masters, one, other, is_cut=is_cut)


async def _set_link(
    target: Target, suffix: str, masters: list[Master], one: str, other: str, *, is_cut: bool
) -> None:
    a, b = named(masters, one), named(masters, other)
    kind = CutLink if is_cut else HealLink
    order = kind(one=a.host, other=b.host, suffix=suffix)
    # Each is asked: the first writes it down for good, and each has it in force when it answers.
    asked = [each for each in (a, b) if each.address]
    if not asked:
        raise Unavailable(f"neither {a.host} nor {b.host} can be asked")
    await asyncio.gather(*(ask(each.address, endpoint_at(target), order, OrderDone) for each in asked))


def join(
    host: str,
    *,
    suffix: OfSuffix = None,
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
    admitted = uvloop.run(_admit(layout, suffix, HostId(host), is_read_only=read_only))
    if host not in layout.read().hosts:
        add(host, location=location, roles=f"{GROUPS},{DIRECTORY}", dir=dir)
    for each in admitted:
        uvloop.run(_until(layout, each, HostId(host), "serving"))
    talk.print(f"{host} has a replica and serves it", markup=False)
    return 0


async def _admit(layout: Layout, wanted: str | None, host: HostId, *, is_read_only: bool) -> tuple[str, ...]:
    directories = await directories_at(layout, wanted)
    for suffix, masters in directories.items():
        order = AdmitReplica(host=host, is_read_only=is_read_only, suffix=suffix)
        await _ask_any(layout, masters, order)
    return tuple(directories)


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


async def _until(target: Target, suffix: str, host: HostId, state: str) -> Master:
    """Wait until the replica of *host* is in that state."""
    while True:
        try:
            found = next((each for each in await masters_at(target, suffix) if each.host == host), None)
        except (NotConnected, OutcomeUnknown, Unavailable):
            found = None
        if found is not None and found.info is not None and found.info.state == state:
            return found
        await asyncio.sleep(POLL_S)


def retire(
    host: str,
    *,
    suffix: OfSuffix = None,
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
    directories = uvloop.run(directories_at(target, suffix))
    gone = {each: named(masters, host) for each, masters in directories.items()}
    names = ", ".join(sorted({each.host for each in gone.values()}))
    if force and not yes and not is_agreed(f"retire the replica of {names}, whatever it has? [y/N] "):
        return EXIT_DECLINED
    for each, masters in directories.items():
        said = uvloop.run(_retire(target, each, masters, gone[each], force=force))
        talk.print(said if len(directories) == 1 else f"{each}: {said}", markup=False, soft_wrap=True)
    return 0


async def _retire(target: Target, suffix: str, masters: list[Master], gone: Master, *, force: bool) -> str:
    others = [each for each in masters if each is not gone]
    order = RetireReplica(host=gone.host, force=force, suffix=suffix)
    if gone.info is not None and gone.info.state == "serving":
        await ask(reachable(gone), endpoint_at(target), LeaveDirectory(suffix=suffix), OrderDone)
        # Its last word has to reach another first.
        order = RetireReplica(host=gone.host, suffix=suffix)
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
            raise Unavailable(
                f"no other master has heard the last word of {gone.host}, which takes no writes any more: "
                "let it reach one (`directory status` shows its links) and say this again, or say --force"
            ) from None
    order = RetireReplica(host=gone.host, force=True, suffix=suffix)
    return (await _ask_any(target, others, order)).text


def initialise(
    host: str,
    *,
    suffix: Annotated[str | None, Parameter(help="Of which directory, if there are several.")] = None,
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
    name, masters = uvloop.run(directory_at(target, suffix))
    emptied = named(masters, host)
    named_source = None if source is None else named(masters, source).host
    if not yes and not is_agreed(f"throw the data of {emptied.host} away and fill it anew? [y/N] "):
        return EXIT_DECLINED
    order = InitialiseReplica(source=named_source, force=force, suffix=name)
    uvloop.run(_initialise(target, emptied, order))
    talk.print(f"{emptied.host} is filled and serves", markup=False)
    return 0


async def _initialise(target: Target, emptied: Master, order: InitialiseReplica) -> None:
    await ask(reachable(emptied), endpoint_at(target), order, OrderDone)
    before = emptied.info.replica if emptied.info is not None else None
    while True:
        found = await _until(target, order.suffix, emptied.host, "serving")
        if found.info is not None and found.info.replica != before:
            return
        await asyncio.sleep(POLL_S)


@clock.command
def reset(*, suffix: OfSuffix = None, at: Where = HERE) -> int:
    """Let masters whose clocks were wrong replicate again.

    Every master passes the newest change of all, and what peers have pulled its clock forward counts as its
    own: the limit (csn_max_skew) counts anew from here. Its time never goes back, so no CSN is given twice;
    put the machines' clocks right first.
    """
    directories = uvloop.run(directories_at(at.target, suffix))
    for name, masters in directories.items():
        for line in uvloop.run(_reset(at.target, name, masters)):
            talk.print(line if len(directories) == 1 else f"{name}: {line}", markup=False, soft_wrap=True)
    return 0


async def _reset(target: Target, suffix: str, known: list[Master]) -> list[str]:
    masters = [each for each in known if each.info is not None and each.info.vector]
    if not masters:
        raise Unavailable("no master of the directory serves")
    vectors = [Vector.parse(each.info.vector) for each in masters if each.info is not None]
    newest = max((csn for vector in vectors for csn in vector), default=None)
    order = ResetClock(newest="" if newest is None else newest.text(), suffix=suffix)
    given: list[Coroutine[object, object, OrderDone]] = [
        ask(each.address, endpoint_at(target), order, OrderDone) for each in masters
    ]
    answers = await asyncio.gather(*given)
    return [f"{each.host}: {answer.text}" for each, answer in zip(masters, answers, strict=True)]
