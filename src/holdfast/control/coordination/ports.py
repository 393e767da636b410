"""What a manager needs from its surroundings, its roles, and the outcomes of requested changes.

The roles are those of IM-60. A manager changes between coordinator and replica only through bootstrap
(IM-63).
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
from holdfast.model.proven_dead import HeardAt


class ParticipantRole(enum.Enum):
    BOOTSTRAP = "bootstrap"
    COORDINATOR = "coordinator"
    REPLICA = "replica"
    ONLOOKER = "onlooker"
    """A host that takes no part, because enough others do."""


@dataclass(frozen=True, slots=True)
class Accepted:
    """The change is part of the committed context *cas*."""

    cas: int
    reply: bytes


@dataclass(frozen=True, slots=True)
class Failed:
    """The change was not made and never will be; *why* says what the caller may do next."""

    why: HoldfastError


@dataclass(frozen=True, slots=True)
class Unsettled:
    """Only the authority's record of *cas* can say whether the change was made (IM-14)."""

    cas: int


Outcome = Accepted | Failed | Unsettled
Tell = Callable[[Outcome], None]


class Application(Protocol):
    """The application that defines what the context means and how it changes."""

    def apply(self, body: bytes, change: bytes) -> tuple[bytes, bytes]:
        """Return the context after *change*, and the reply to the requester. Raises ``InvalidRequest``.

        The result must be the same on every host, now and later, because replicas make the context from the
        changes (T5).
        """
        ...

    def on_context(self, context: Context) -> None:
        """Handle a committed context. The same one may be passed again."""
        ...

    def on_role(self, role: ParticipantRole, term: Term) -> None: ...


@dataclass(frozen=True, slots=True)
class ControlPorts:
    """Everything that a manager needs from its host."""

    clock: Clock
    timers: Callable[[Callable[[Hashable], None]], Timers]
    network: Network
    random: Random
    trace: Trace
    recipes: Recipes
    nonce: Callable[[], Nonce]
    """Makes a nonce that no other change ever carries (A1)."""
    on_session_lost: Callable[[], None]
    """Called when the authority does not know this process: the process ends, or its session is restored
    (V2)."""
    heard_at: HeardAt = lambda host, incarnation: None
    """When a process was last heard: one that was proven dead and is heard afterwards lives (K7)."""
