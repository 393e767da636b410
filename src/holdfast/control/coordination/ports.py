"""What a manager asks of its surroundings, and how it answers those who wish for changes.

The states of a manager (IM-60): from coordinator to replica and back only through bootstrap (IM-63).
"""

import enum
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Protocol

from holdfast.authority.recipe import Recipes
from holdfast.control.coordination.state_file import Context
from holdfast.model.errors import HoldfastError
from holdfast.model.ids import Nonce, Term
from holdfast.model.ports import Clock, Network, Random, Timers, Trace


class ParticipantRole(enum.Enum):
    BOOTSTRAP = "bootstrap"
    COORDINATOR = "coordinator"
    REPLICA = "replica"
    ONLOOKER = "onlooker"
    """Enough others take part."""


@dataclass(frozen=True, slots=True)
class Accepted:
    """The change is in the context of *cas*, which is committed."""

    cas: int
    reply: bytes


@dataclass(frozen=True, slots=True)
class Failed:
    """The change was not made and never will be; *why* says what may be done next."""

    why: HoldfastError


@dataclass(frozen=True, slots=True)
class Unsettled:
    """Whether the change was made is for the authority's record of *cas* to say (IM-14)."""

    cas: int


Outcome = Accepted | Failed | Unsettled
Tell = Callable[[Outcome], None]


class Application(Protocol):
    """What stands on the context."""

    def apply(self, body: bytes, change: bytes) -> tuple[bytes, bytes]:
        """The context after *change*, and the reply to whoever wished for it. Raises ``InvalidRequest``.

        The same on every host, now and later: a replica makes the context from the changes (T5).
        """
        ...

    def on_context(self, context: Context) -> None:
        """This context is committed. The same one may be told again."""
        ...

    def on_role(self, role: ParticipantRole, term: Term) -> None: ...


@dataclass(frozen=True, slots=True)
class ControlPorts:
    """All that a manager asks for."""

    clock: Clock
    timers: Callable[[Callable[[Hashable], None]], Timers]
    network: Network
    random: Random
    trace: Trace
    recipes: Recipes
    nonce: Callable[[], Nonce]
    """A mark that no other change ever carries (A1)."""
    on_session_lost: Callable[[], None]
    """The authority does not know this process now: it ends, or its session is put back (V2)."""
