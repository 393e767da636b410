"""A scheduler: jobs that run later, or again and again, once each time, whichever host is alive by then.

See it survive the death of its primary, on a domain of its own::

    python examples/scheduler.py

Timers (`hf.context.call_later` and `cron`) are part of the group: they outlive the host that set them.
"""

import asyncio
from dataclasses import dataclass, field
from typing import Any

import holdfast as hf


@dataclass
class Job:
    command: str
    timer: int
    is_repeated: bool
    ran_at: list[float] = field(default_factory=list)
    """In the group's time: the same on every member."""


class NoSuchJob(Exception):
    """Raised for a number that no job has."""


class Scheduler:
    """Jobs by number. What a job does is noted here; it could as well call another group."""

    jobs: dict[int, Job]

    def __init__(self) -> None:
        self.jobs = {}
        self.added = 0

    def after(self, delay_s: float, command: str) -> int:
        """Run *command* once, so much later; the job's number."""
        number = self._next()
        self.jobs[number] = Job(command, hf.context.call_later(delay_s, self.run, number), False)
        return number

    def every(self, schedule: str, command: str) -> int:
        """Run *command* at the times of a cron expression (UTC): ``*/5 * * * *`` is every five minutes."""
        number = self._next()
        self.jobs[number] = Job(command, hf.context.cron(schedule, self.run, number), True)
        return number

    def cancel(self, number: int) -> bool:
        """Whether the job was still to run; it will not."""
        return hf.context.cancel(self._job(number).timer)

    def run(self, number: int) -> None:
        """What the timers call."""
        job = self._job(number)
        if job.is_repeated or not job.ran_at:
            job.ran_at.append(hf.context.time())

    @hf.query
    def runs(self, number: int) -> list[float]:
        """When the job ran."""
        return list(self._job(number).ran_at)

    @hf.query
    def waiting(self) -> list[int]:
        """The jobs that have not run yet."""
        return [number for number, job in self.jobs.items() if not job.ran_at]

    def _next(self) -> int:
        self.added += 1
        return self.added

    def _job(self, number: int) -> Job:
        if number not in self.jobs:
            raise NoSuchJob(f"there is no job {number}")
        return self.jobs[number]


JOBS, DELAY_S = 20, 1.5


async def story(stage: Any) -> None:
    """Jobs are set, the primary dies before they are due, and each runs once, on another host."""
    scheduler = stage.group
    jobs = [await scheduler.after(DELAY_S, f"job {number}") for number in range(JOBS)]
    dropped = await scheduler.after(3600, "never mind")
    assert await scheduler.cancel(dropped)
    print(f"{JOBS} jobs are due in {DELAY_S:g} s, one was cancelled", flush=True)
    await stage.kill_primary()
    while len(await scheduler.waiting()) > 1:
        await asyncio.sleep(0.05)
    runs = [len(await scheduler.runs(number)) for number in jobs]
    print(f"on {await stage.primary()}: {sum(runs)} runs of {JOBS} jobs, none twice")
    assert runs == [1] * JOBS
    assert await scheduler.runs(dropped) == []


if __name__ == "__main__":
    from holdfast.demo.story import play

    play(Scheduler, story)
