"""The settings of a group's streams: ``streams = holdfast.StreamSettings(...)`` in its class.

They are part of the class's code, so every member has the same ones (E7).
"""

from typing import Annotated, Any, Final, Literal

from msgspec import Meta, Struct

from holdfast.model.ids import MILLISECOND
from holdfast.streams.actions import Action, BadAction, Drop, Recover, Suspend, steps_of
from holdfast.streams.message import NAME_CHARACTERS_MAX, TOPIC_CHARACTERS_MAX

PEERS: Final = "peers"
LOG: Final = "log"
SOURCE: Final = "source"
STREAMS_MAX: Final = 1_024
"""The most streams of one group."""

Milliseconds = Annotated[int, Meta(ge=0, le=600_000)]


class StreamSettings(Struct, frozen=True, kw_only=True):
    """How the streams of a group are ordered, and what becomes of loss where the class does not say it."""

    retain: Literal["memory", "disk", "none", ""] = ""
    """Whether an ordered range carries its messages, so that no member can lack one that was ordered (O1).
    Empty or otherwise: as the group's durability, with its messages. ``"none"``: only numbers; each member
    has the messages from the source, or asks for them. It saves the leader from sending everything once
    more."""
    order: Literal["total", "set"] = "total"
    """``"set"``: a gap holds up nothing of its stream; what was missing is delivered when it comes, until it
    is dropped. Every member still delivers the same messages, in the same order (LOSS-9)."""
    grace_ms: Milliseconds = 10
    """How long a gap may close by itself, because messages overtake each other, before it counts as a loss.
    Shorter: decided sooner; longer: fewer losses that were none."""
    late_join: bool = True
    """Whether a stream that this group has never seen begins with the first message that comes, rather than
    with number 1."""
    recover_first: bool = False
    """Whether every loss is recovered first, as far as that goes, and the application is asked only of what
    is left (LOSS-52)."""
    recover_from: tuple[Literal["peers", "log", "source"], ...] = (PEERS, LOG, SOURCE)
    """Who is asked for lost messages, in this order (LOSS-94)."""
    recover_ms: Annotated[int, Meta(ge=1, le=600_000)] = 300
    """When a recovery has failed, at the latest."""
    attempts: Annotated[int, Meta(ge=1, le=100)] = 3
    """How often each of them is asked."""
    retry_ms: Annotated[int, Meta(ge=1, le=60_000)] = 20
    """How long an answer is awaited before the next question; doubled each time."""
    ask_peers: bool = False
    """Whether the other servers are asked what they have of the lost messages before the application is asked
    (LOSS-36, LOSS-44). It costs a round trip."""
    decider: Annotated[str, Meta(max_length=NAME_CHARACTERS_MAX)] = ""
    """The host whose member decides; empty: the leader (LOSS-10, LOSS-84)."""
    decider_group: Annotated[str, Meta(max_length=NAME_CHARACTERS_MAX)] = ""
    """The group that decides instead of this one's members: its method ``on_loss(info: holdfast.LossInfo)``
    is called, as any caller calls it, and returns an action. What it answers becomes a record here like any
    other decision (O4). It may be of any class and style, and may change its own state. A new leader asks
    anew."""
    decide_ms: Annotated[int, Meta(ge=1, le=600_000)] = 200
    """How long an answer is awaited before the default is taken."""
    asks_max: Annotated[int, Meta(ge=1, le=100)] = 3
    """How often the application is asked of one loss before the default is taken."""
    default: Action = Recover() | Suspend()
    """What is done if the class has no ``on_loss``, or it raises, or answers nonsense, or not in time."""
    default_alone: Action = Recover() | Drop()
    """The same where this is the only active server: suspending would end the service."""
    next_messages: Annotated[int, Meta(ge=0, le=64)] = 1
    """How many messages after the gap the application is shown."""
    sync_topic: Annotated[str, Meta(max_length=TOPIC_CHARACTERS_MAX)] = "sync"
    """A message with this topic ends the rules of its stream that last until sync (LOSS-66)."""
    hold_messages: Annotated[int, Meta(ge=1, le=10_000_000)] = 100_000
    """How many messages of one stream a member keeps that are not delivered everywhere yet."""
    hold_bytes: Annotated[int, Meta(ge=60_000, le=1 << 34)] = 64 << 20
    """How many bytes they may have, of all streams together."""
    suspended_bytes: Annotated[int, Meta(ge=0, le=1 << 34)] = 256 << 20
    """How many bytes more a member keeps while it or another one takes a state (``retain="none"``): the
    messages that came after that state. With too little, a member that has taken a large state lacks what
    came meanwhile and takes another one; with more, each member may need so much memory for that time."""
    give_up_ms: Annotated[int, Meta(ge=0, le=3_600_000)] = 10_000
    """How long a leader waits for listed servers that are not heard of before it goes on without ordered
    messages that nobody else has (``retain="none"``)."""
    status_ms: Annotated[int, Meta(ge=10, le=60_000)] = 200
    """How often members tell each other how far they are."""

    @property
    def carries(self) -> bool:
        """Whether an ordered range carries its messages."""
        return self.retain != "none"

    @property
    def decided_by(self) -> str:
        """Who decides about losses, in the words of the audit; empty if it is the leader."""
        return f"group {self.decider_group}" if self.decider_group else self.decider

    @property
    def grace_ns(self) -> int:
        return self.grace_ms * MILLISECOND

    def problems(self) -> list[str]:
        """All that is wrong with them; empty if nothing is."""
        found = []
        for name in ("default", "default_alone"):
            value: Any = getattr(self, name)
            try:
                steps = steps_of(value)
            except BadAction as error:
                found.append(f"{name}: {error}")
                continue
            if any(each.rules for each in steps):
                found.append(f"{name}: a default registers no rules")
        if self.decider and self.decider_group:
            found.append("decider, decider_group: one of them decides, not both")
        if len(set(self.recover_from)) < len(self.recover_from):
            found.append("recover_from: names each place once")
        if self.decide_ms < self.grace_ms:
            found.append("decide_ms: at least grace_ms")
        return found
