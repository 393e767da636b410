"""Tests what a starting host does about an interrupted recovery (T4)."""

import random
from collections.abc import Callable, Hashable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from holdfast.authority.contract import Refused
from holdfast.authority.control_records import MANAGER
from holdfast.authority.election import recover_context
from holdfast.authority.membership import join
from holdfast.authority.recipe import InDoubt, Recipe
from holdfast.authority.transactions import last_committed
from holdfast.control.coordination.bootstrap import Bootstrap
from holdfast.control.coordination.config import ControlConfig
from holdfast.control.coordination.ports import ControlPorts
from holdfast.control.coordination.role_base import OwnPart
from holdfast.control.coordination.state_file import Context
from holdfast.model.ids import HostId, Term
from recipe_bench import Bench

A = HostId("a")


class Archive:
    """A state file that writes at once. It holds the log of a recovery, and a context that nobody has
    committed."""

    def __init__(self) -> None:
        self.context = Context(3, b"three")
        self.log: Context | None = Context(1, b"recovered")

    def when_idle(self, then: Callable[[], None]) -> None:
        then()

    def drop_log(self, then: Callable[[], None]) -> None:
        self.log = None
        then()

    def promote(self, cas: int, then: Callable[[], None]) -> None:
        assert self.log is not None
        self.context, self.log = self.log, None
        then()


def test_a_recovery_whose_log_was_dropped_is_not_put_on_record_later(tmp_path: Path) -> None:
    """The request that puts the recovery on record is on its way while the process restarts. If it took
    effect after the log is gone, no host would hold the committed context (A1)."""
    bench, archive = Bench(tmp_path), Archive()
    former = bench.session(A)
    bench.run(join(former, roles=(MANAGER,), context_cas=3, nonce=bench.nonce()))
    recovering = recover_context(A, former.incarnation, 1, nonce=bench.nonce())
    assert isinstance(bench.run(recovering, bench.delay), InDoubt)

    def arrive_when_dropped(recipe: Recipe[Any], then: Callable[[Any], None]) -> None:
        if archive.log is None and bench.delayed:
            assert [type(each) for each in bench.release()] == [Refused]
        then(bench.run(recipe))

    def timers(on_timer: Callable[[Hashable], None]) -> Any:
        return SimpleNamespace(set=lambda delay_ns, tag: None)

    def ended(*_: object) -> None:
        return None

    port = cast(Any, SimpleNamespace(now=lambda: 0, stream=random.Random, note=lambda kind, **fields: None))
    recipes = cast(Any, SimpleNamespace(start=arrive_when_dropped))
    session = bench.session(A)
    ports = ControlPorts(port, timers, port, port, port, recipes, bench.nonce, lambda: None)
    me = OwnPart(A, session.incarnation, cast(Any, archive), ports, cast(Any, port), ControlConfig())
    bootstrap = Bootstrap(
        me,
        session,
        given_up=Term(0),
        is_dead=lambda each: False,
        is_silent=lambda host, term: False,
        coordinate=ended,
        follow=ended,
        look_on=ended,
    )
    bootstrap.begin()
    assert archive.log is None
    assert not bench.delayed
    assert bench.run(last_committed()) is None
    bench.close()
