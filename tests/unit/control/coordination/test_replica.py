"""Tests a replica that receives messages late, which were sent earlier in its term (T3)."""

import random
from collections.abc import Callable, Hashable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from holdfast.authority import keys
from holdfast.authority.control_records import MANAGER, Participant, Status, Transaction
from holdfast.authority.membership import join
from holdfast.authority.recipe import Recipe, put
from holdfast.authority.sessions import Session
from holdfast.control.coordination.config import ControlConfig
from holdfast.control.coordination.messages import Whole
from holdfast.control.coordination.ports import ControlPorts
from holdfast.control.coordination.replica import ContextReplica
from holdfast.control.coordination.role_base import OwnPart
from holdfast.control.coordination.state_file import Context
from holdfast.model.ids import HostId, Incarnation, Nonce, Term
from recipe_bench import Bench

A, B = HostId("a"), HostId("b")
T = Term(1)


class Around:
    """What a replica on host b needs; its state file writes at once."""

    def __init__(self, directory: Path) -> None:
        self.bench = Bench(directory)
        self.context = Context(6, b"six")
        self.log = None
        self.session: Session = self.bench.session(B)
        self.bench.run(join(self.session, roles=(MANAGER,), context_cas=6, nonce=self.bench.nonce()))

    def replace(self, context: Context, then: Callable[[], None]) -> None:
        self.context = context
        then()

    def start(self, recipe: Recipe[Any], then: Callable[[Any], None]) -> None:
        then(self.bench.run(recipe))

    def commit(self, cas: int) -> None:
        """Commit an update in the authority's record."""
        took_part = (Participant(host=B, incarnation=self.session.incarnation),)
        ended = Transaction(cas=cas, term=T, status=Status.COMMIT, participants=took_part, nonce=Nonce("x"))
        self.bench.change(put(keys.COMMITTED, ended), put(keys.LAST_TRANSACTION, ended))

    def replica(self) -> ContextReplica:
        def timers(on_timer: Callable[[Hashable], None]) -> Any:
            return SimpleNamespace(set=lambda delay_ns, tag: None)

        quiet = SimpleNamespace(
            now=lambda: 0,
            send=lambda peer, message: None,
            stream=random.Random,
            note=lambda kind, **fields: None,
        )
        port = cast(Any, quiet)
        ports = ControlPorts(port, timers, port, port, port, cast(Any, self), self.bench.nonce, lambda: None)
        application = cast(Any, SimpleNamespace(on_context=lambda context: None))
        me = OwnPart(B, self.session.incarnation, cast(Any, self), ports, application, ControlConfig())
        return ContextReplica(
            me, T, Participant(host=A, incarnation=Incarnation(1)), lambda why, is_gone: None
        )


@pytest.fixture
def around(tmp_path: Path) -> Iterator[Around]:
    made = Around(tmp_path)
    yield made
    made.bench.close()


def test_a_late_copy_of_an_older_context_does_not_undo_the_committed_one(around: Around) -> None:
    """The replica asked twice when it began to follow, and one copy was enough. It took part in 6, left, came
    back to the same coordinator, and now the other copy arrives."""
    around.commit(6)
    around.replica().on_message(Whole(T, Context(5, b"five")))
    assert around.context == Context(6, b"six")


def test_a_copy_of_a_newer_context_is_taken(around: Around) -> None:
    around.commit(7)
    around.replica().on_message(Whole(T, Context(7, b"seven")))
    assert around.context == Context(7, b"seven")


def test_what_a_restored_authority_has_lost_is_given_up_for_the_copy(around: Around) -> None:
    """A5: the record continues from 5, and nobody will ever commit on top of 6."""
    around.commit(5)
    around.replica().on_message(Whole(T, Context(5, b"five")))
    assert around.context == Context(5, b"five")
