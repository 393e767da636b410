"""A notifier without a domain: its group is one object here, called as a client's proxy would."""

import asyncio
from collections.abc import Callable
from typing import Any

import msgspec
from group_classes import call, run

from holdfast.client.faults import Faults
from holdfast.execution.definition import Definition
from holdfast.execution.execution import Execution
from holdfast.faults.notifier import Notifier
from holdfast.model.admin.objects import FaultNotifierShown
from holdfast.model.outcome import decode_outcome, encode_outcome, value_of


class LocalNotifier:
    """The group, and what a client makes of it. *fails* is raised by the next call instead of an answer."""

    def __init__(self, **kwargs: Any) -> None:
        self.execution = Execution(Definition("faults", Notifier, lambda: Notifier(**kwargs)))
        self.number = 0
        self.fails: list[Exception] = []
        self.found = 0

    def faults(self) -> Faults:
        return Faults(self._give, self._open)  # type: ignore[arg-type]  # they stand in for a domain's

    def fail_over(self) -> None:
        """Another member goes on from the state."""
        self.execution = Execution.load(self.execution.definition, self.execution.save())

    async def _give(self, wanted: object, kind: object) -> FaultNotifierShown:
        self.found += 1
        return FaultNotifierShown(group="faults")

    async def _open(self, name: str, cls: type) -> "LocalNotifier":
        return self

    def call(self, method: Callable[..., Any], /, *args: Any, **kwargs: Any) -> "asyncio.Future[Any]":
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        if self.fails:
            answer.set_exception(self.fails.pop(0))
            return answer
        self.number += 1
        (outcome,) = run(
            self.execution, call(self.number, method.__name__, *args, **kwargs), time_s=10 + self.number
        )
        assert outcome is not None
        try:
            value = value_of(decode_outcome(encode_outcome(outcome)))
            returns = self.execution.definition.interface.operation(method.__name__).returns
            answer.set_result(msgspec.convert(value, returns))
        except Exception as error:
            answer.set_exception(error)
        return answer
