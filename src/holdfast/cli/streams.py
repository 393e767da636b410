"""`holdfast stream bind | unbind | list | show | loss | rules | audit | key`: streams, and what became of
lost messages."""

import asyncio
from collections.abc import Sequence
from typing import Annotated, Final

import uvloop
from cyclopts import App, Parameter

from holdfast.cli.admin import give_at
from holdfast.cli.output import Output, print_json, print_table, say, talk
from holdfast.cli.where import HERE, Target, Where
from holdfast.model.admin.streams import (
    BindStream,
    EndStreamRule,
    InspectStreams,
    ListStreams,
    MakeSourceKey,
    SourceKeyMade,
    StreamDecision,
    StreamInfo,
    StreamList,
    StreamRulesEnded,
    StreamsInspected,
    UnbindStream,
)
from holdfast.model.errors import HoldfastError, InvalidRequest, OutcomeUnknown, Unavailable
from holdfast.model.ids import HostId

app = App(name="stream", help="Bind streams to groups, and see what became of lost messages.")

DISTANCES: Final = ("exact", "cumulative", "both", "none")


@app.command
def bind(
    name: str,
    *,
    group: str,
    source: str = "",
    levels: int = 2,
    distances: str = "exact",
    ages: str = "created",
    paced: bool = True,
    open: Annotated[bool | None, Parameter(negative="--sealed")] = None,
    multicast: str = "",
    at: Where = HERE,
    output: Output = "table",
) -> int:
    """Bind a stream to an active group: its members take the stream's messages from now on.

    Parameters
    ----------
    name
        The stream's name, unique in the domain.
    group
        The group whose class has `on_message` or `on_messages`.
    source
        The name of its source, for messages without a key; by default the stream's.
    levels
        How many priorities its messages have; 0 is the highest.
    distances
        What a message says of the last one of each priority: `exact`, `cumulative`, `both` or `none`.
    ages
        What messages say of their age: any of `created`, `back`, `before`, separated by commas; or `none`.
    paced
        Sources wait until the group has delivered enough; what goes beyond is refused.
    open
        Take datagrams without a key; `--sealed` takes none. By default they are taken where every host is on
        this machine.
    multicast
        A multicast group that members join, as ADDRESS:PORT.
    output
        `table` for people, `json` for machines.
    """
    if distances not in DISTANCES:
        raise InvalidRequest(f"distances are one of {', '.join(DISTANCES)}, not {distances!r}")
    kinds = [] if ages == "none" else [each.strip() for each in ages.split(",")]
    wrong = [each for each in kinds if each not in ("created", "back", "before")]
    if wrong:
        raise InvalidRequest(f"ages are any of created, back, before, or none; not {wrong[0]!r}")
    order = BindStream(
        name=name,
        group=group,
        source=source,
        levels=levels,
        exact=distances in ("exact", "both"),
        cumulative=distances in ("cumulative", "both"),
        created="created" in kinds,
        back="back" in kinds,
        before="before" in kinds,
        is_paced=paced,
        is_open=open,
        multicast=multicast,
    )
    (made,) = uvloop.run(give_at(at.target, order, StreamList)).streams
    if output == "json":
        print_json(made)
    else:
        sealed = "open to all on this machine" if made.is_open else "sealed: sources need a key"
        talk.print(f"stream {made.number}: {name} of {group}; {sealed}", markup=False)
    return 0


@app.command
def unbind(name: str, *, at: Where = HERE) -> int:
    """Forget a stream: what its sources send is refused from now on.

    Parameters
    ----------
    name
        The stream's name.
    """
    uvloop.run(give_at(at.target, UnbindStream(name=name), StreamList))
    talk.print(f"stream {name} is bound to no group any more", markup=False)
    return 0


@app.command(name="list")
def list_streams(*, at: Where = HERE, output: Output = "table") -> int:
    """Show the streams of the domain.

    Parameters
    ----------
    output
        `table` for people, `json` for machines.
    """
    found = uvloop.run(give_at(at.target, ListStreams(), StreamList))
    if output == "json":
        print_json(found)
        return 0
    print_table(
        ("number", "stream", "group", "source", "levels", "keys", "paced", "members"),
        (
            (
                each.number,
                each.name,
                each.group_name or "(gone)",
                each.source,
                each.levels,
                ", ".join(each.sources) or ("open" if each.is_open else "none yet"),
                "yes" if each.is_paced else "no",
                ", ".join(member.host for member in each.members),
            )
            for each in found.streams
        ),
    )
    return 0


@app.command
def show(name: str, *, at: Where = HERE, output: Output = "table") -> int:
    """Show how far each member is with a stream, and what it has counted.

    Parameters
    ----------
    name
        The stream's name.
    output
        `table` for people, `json` for machines.
    """
    info, members = uvloop.run(_inspected(at.target, name))
    if output == "json":
        print_json({"stream": info, "members": members})
        return 0
    rows = []
    for each in members:
        (figures,) = each.streams or (None,)
        if figures is not None:
            told = ", ".join(f"{what} {count}" for what, count in sorted(figures.counts.items()) if count)
            rows.append((*_who(each), figures.delivered, figures.highest, figures.held, figures.credit, told))
    print_table(("host", "is", "delivered", "sent", "held", "may send", "counts"), rows)
    if decided_by := next((each.decided_by for each in members if each.decided_by), ""):
        talk.print(f"losses are decided by {decided_by}", markup=False)
    lossy = [f"{each.host}: {each.kernel_drops}" for each in members if each.kernel_drops]
    if lossy:
        talk.print(f"datagrams that the kernel dropped, of all streams: {', '.join(lossy)}", markup=False)
    return 0


@app.command
def loss(name: str, *, at: Where = HERE, output: Output = "table") -> int:
    """Show what was lost of a stream, and what became of it, by action.

    Parameters
    ----------
    name
        The stream's name.
    output
        `table` for people, `json` for machines.
    """
    _, members = uvloop.run(_inspected(at.target, name))
    leader = _leading(members)
    counts = leader.streams[0].counts if leader.streams else {}
    by_action: dict[str, tuple[int, int]] = {}
    for each in leader.decisions:
        losses, messages = by_action.get(each.action, (0, 0))
        by_action[each.action] = (losses + 1, messages + each.last - each.first + 1)
    if output == "json":
        totals = {what: counts.get(what, 0) for what in ("losses", "dropped", "ignored", "recovered")}
        print_json({"stream": name, **totals, "lately": by_action})
        return 0
    say(
        f"{counts.get('losses', 0)} losses; {counts.get('dropped', 0)} messages dropped, "
        f"{counts.get('ignored', 0)} ignored, {counts.get('recovered', 0)} recovered"
    )
    print_table(
        ("lately", "losses", "messages"), [(action, *counted) for action, counted in by_action.items()]
    )
    return 0


@app.command
def rules(
    name: str, *, end: int | None = None, sync: bool = False, at: Where = HERE, output: Output = "table"
) -> int:
    """Show the rules by which messages of a stream are ignored, or end some.

    Parameters
    ----------
    name
        The stream's name.
    end
        End the rule of this number.
    sync
        The source and the group are in step again: end the rules that last until then.
    output
        `table` for people, `json` for machines.
    """
    if end is not None and (sync or end < 1):
        raise InvalidRequest("--end takes the number of one rule, from 1 on; --sync goes without it")
    _, members = uvloop.run(_inspected(at.target, name))
    leader = _leading(members)
    if end is not None or sync:
        order = EndStreamRule(name=name, rule=end or 0)
        ended = uvloop.run(give_at(at.target, order, StreamRulesEnded, host=leader.host))
        if output == "json":
            print_json(ended)
        else:
            talk.print(f"{ended.count} rules end at the next point of the order", markup=False)
        return 0 if ended.count else 1
    if output == "json":
        print_json({"stream": name, "rules": leader.rules})
        return 0
    print_table(
        ("rule", "stream", "ignores"), [(each.number, each.stream, each.text) for each in leader.rules]
    )
    return 0


@app.command
def audit(name: str, *, at: Where = HERE, output: Output = "table") -> int:
    """Show the last decisions about losses of a stream, the latest last.

    Parameters
    ----------
    name
        The stream's name.
    output
        `table` for people, `json` for machines.
    """
    _, members = uvloop.run(_inspected(at.target, name))
    decisions = _leading(members).decisions
    if output == "json":
        print_json({"stream": name, "decisions": decisions})
        return 0
    print_table(("lost", "action", "decided by", "came to"), map(_decided, decisions))
    return 0


@app.command
def key(name: str, source: str, *, drop: bool = False, at: Where = HERE, output: Output = "table") -> int:
    """Print the key of a source of a stream, as ID:KEY; it is made if the source has none.

    Whoever has it can send messages as that source. Python programs need none: they are given theirs on their
    own connection.

    Parameters
    ----------
    name
        The stream's name.
    source
        The source's name.
    drop
        Forget the key instead: what it seals is refused from now on.
    output
        `table` for people, `json` for machines.
    """
    order = MakeSourceKey(name=name, source=source, is_dropped=drop)
    made = uvloop.run(give_at(at.target, order, SourceKeyMade))
    if output == "json":
        print_json(made)
    elif drop:
        talk.print(f"{source} has no key for {name} any more", markup=False)
    else:
        say(f"{made.key}:{made.secret}")
    return 0


async def _inspected(target: Target, name: str) -> tuple[StreamInfo, list[StreamsInspected]]:
    """The stream, and what each member says of it that can be asked."""
    (info,) = (await give_at(target, ListStreams(name=name), StreamList)).streams

    async def ask(host: HostId) -> StreamsInspected | None:
        try:
            return await give_at(target, InspectStreams(name=name), StreamsInspected, host=host)
        except (Unavailable, OutcomeUnknown) as error:
            _warn(host, error)
            return None

    found = await asyncio.gather(*(ask(each.host) for each in info.members))
    return info, [each for each in found if each is not None]


def _warn(host: HostId, error: HoldfastError) -> None:
    talk.print(f"{host} says nothing: {error}", markup=False, soft_wrap=True)


def _leading(members: Sequence[StreamsInspected]) -> StreamsInspected:
    """The leader's word, or that of any member with an object."""
    able = sorted(members, key=lambda each: (not each.is_leader, not each.is_active))
    if not able:
        raise Unavailable("no member of the stream's group can be asked")
    return able[0]


def _who(member: StreamsInspected) -> tuple[str, str]:
    if not member.is_active:
        return member.host, "without its object"
    return member.host, "leader" if member.is_leader else "follower"


def _decided(decision: StreamDecision) -> tuple[str, str, str, str]:
    span = str(decision.first) if decision.first == decision.last else f"{decision.first} to {decision.last}"
    return span, decision.action, decision.by, decision.came_to
