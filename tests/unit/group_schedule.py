"""Random lives of a group: calls, failovers, crashes, lost disks; and what must hold through all of them."""

import random
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import msgspec
from fake_group import FakeGroup
from group_classes import LATER_S, TellsUpdates

import holdfast as hf
from holdfast.execution.definition import Definition
from holdfast.execution.effects import Outgoing
from holdfast.execution.records import (
    Call,
    Calls,
    Executed,
    Sent,
    decode_calls,
    decode_record,
    encode_arguments,
    encode_calls,
)
from holdfast.model.calls import Request
from holdfast.model.errors import Overloaded, Unavailable
from holdfast.model.ids import MILLISECOND, SECOND, ClientId, Position
from holdfast.model.outcome import Outcome, Raised, Refused, Returned, decode_outcome, encode_outcome
from holdfast.styles.config import StyleConfig


class Journal:
    """Writes down everything that happens to it, so that whatever happens twice or never can be seen."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def write(self, line: str) -> int:
        self.lines.append(line)
        return len(self.lines)

    def stumble(self, line: str) -> None:
        self.lines.append(line)
        raise ValueError(line)

    def roll(self, line: str) -> float:
        drawn = hf.context.random.random() + hf.context.time()
        self.lines.append(f"{line} {drawn} {hf.context.uuid4()}")
        return drawn

    def remind(self, line: str, delay_s: float) -> None:
        self.lines.append(line)
        hf.context.call_later(delay_s, self.reminded, line)

    def reminded(self, line: str) -> None:
        self.lines.append(f"timer of {line}")

    async def ask(self, line: str, times: int) -> list[Any]:
        self.lines.append(line)
        found = []
        for turn in range(times):
            found.append(await hf.context.group("oracle").get(line, turn))
            self.lines.append(f"answer {turn} to {line}: {found[-1]}")
        return found

    def post(self, line: str, *to: str) -> None:
        self.lines.append(line)
        for name in to:
            hf.context.send(name).note(line)

    @hf.query
    def read(self) -> list[str]:
        return list(self.lines)


class UpdatingJournal(TellsUpdates, Journal):
    """The same, and it can say what changed."""


@hf.interleaved
class InterleavedJournal(Journal):
    """The same, and others write while one waits for an answer."""


@hf.interleaved
class InterleavedUpdatingJournal(UpdatingJournal):
    """Both."""


BORNE = ("timer", "checkpoint_failed")
"""Faults that a schedule causes."""
CONFIG = StyleConfig(
    checkpoint_interval_ns=3 * SECOND, replay_budget_ns=2 * MILLISECOND, scan_positions=4, uncommitted_max=200
)


@dataclass
class Client:
    name: ClientId
    sent: int = 0
    awaited: dict[int, Call] = field(default_factory=dict)


class Schedule:
    """One random life. Every answer is compared with what was answered before to the same request."""

    def __init__(self, seed: int, style: str, cls: type = Journal) -> None:
        self.rng = random.Random(seed)
        config = CONFIG
        if self.rng.random() < 0.3:
            config = msgspec.structs.replace(CONFIG, sent_state_bytes_max=1)
        if self.rng.random() < 0.5:
            config = msgspec.structs.replace(config, inline_state_bytes_max=1)
        if self.rng.random() < 0.5:
            config = msgspec.structs.replace(config, slice_ns=MILLISECOND)
        if self.rng.random() < 0.5:
            config = msgspec.structs.replace(config, gate_ns=SECOND, gate_pause_ns=SECOND)
        self.group = FakeGroup(style, Definition("journal", cls, cls), config)
        self.group.clock.step_ns = 200_000
        self.clients = [Client(ClientId(f"client-{index}")) for index in range(3)]
        self.known: dict[Request, bytes] = {}
        self.methods: dict[Request, str] = {}
        self.reads: dict[int, tuple[set[Request], list[str] | None]] = {}
        self.oracle: dict[tuple[Request, int], str] = {}
        self.received: dict[tuple[str, Request, int], int] = {}
        """What was sent, by receiver and id: the number that it had in the outbox."""
        self.committed: set[Request] = set()
        self.looked_at = 0
        self.posted: dict[Request, Counter[Any]] = {}
        self.down: list[str] = []

    def live(self, steps: int) -> None:
        actions = [
            (self.call, 30),
            (self.repeat, 8),
            (self.read, 6),
            (self.replicate, 25),
            (self.commit, 20),
            (self.tell_backup, 10),
            (self.turn, 25),
            (self.answer_nested, 15),
            (self.pass_time, 6),
            (self.lose_epoch, 2),
            (self.crash, 2),
            (self.come_back, 4),
            (self.refuse_once, 1),
            (self.stall_reads, 2),
            (self.end_copy, 20),
        ]
        for _ in range(steps):
            self.rng.choices([each for each, _ in actions], [weight for _, weight in actions])[0]()
            self.take_answers()

    # --- clients

    def call(self) -> None:
        client = self.rng.choice(self.clients)
        calls = [self.new_call(client) for _ in range(self.rng.randint(1, 4))]
        self.send(client, calls)

    def new_call(self, client: Client) -> Call:
        client.sent += 1
        line = f"{client.name}/{client.sent}"
        method, args = self.rng.choice(
            [
                ("write", (line,)),
                ("write", (line,)),
                ("stumble", (line,)),
                ("roll", (line,)),
                ("remind", (line, self.rng.choice([0.5, 2, 5]))),
                ("ask", (line, self.rng.randint(1, 2))),
                ("post", (line, *self.rng.choices(("east", "west"), k=self.rng.randint(1, 3)))),
            ]
        )
        call = Call(client.sent, method, encode_arguments(args, {}), LATER_S)
        if method == "post":
            self.posted[Request(client.name, client.sent)] = Counter(args[1:])
        client.awaited[client.sent] = call
        self.methods[Request(client.name, client.sent)] = method
        return call

    def repeat(self) -> None:
        client = self.rng.choice(self.clients)
        if client.awaited:
            numbers = self.rng.sample(sorted(client.awaited), min(len(client.awaited), 3))
            self.send(client, [client.awaited[number] for number in sorted(numbers)])

    def send(self, client: Client, calls: list[Call]) -> None:
        floor = min(client.awaited, default=client.sent + 1)
        frame = Sent(client.name, floor, LATER_S, encode_calls(calls))
        with suppress(Unavailable, Overloaded):  # the client sends it again, some time
            self.primary.on_calls((client.name, "call"), frame)

    def read(self) -> None:
        number = len(self.reads) + 1
        # Linearizable: whatever was acknowledged before the query began must be seen by it.
        self.reads[number] = (set(self.known), None)
        try:
            call = Call(number, "read", encode_arguments((), {}), LATER_S)
            self.primary.on_calls(number, Sent(ClientId("reader"), 1, LATER_S, encode_calls([call])))
        except Unavailable:
            del self.reads[number]
            self.reads[-number] = (set(), [])

    def take_answers(self) -> None:
        for token, numbers, outcomes in self.group.answers:
            if isinstance(token, tuple):
                for number, outcome in zip(numbers, outcomes, strict=True):
                    self.take_answer(Request(token[0], number), outcome)
            else:
                self.take_read(token, decode_outcome(outcomes[0]))
        self.group.answers.clear()
        self.group.forsaken.clear()
        for member in self.group.members.values():
            for then in member.asked[:]:
                member.asked.remove(then)
                then(member.name == self.group.primary)

    def take_answer(self, request: Request, outcome: bytes) -> None:
        client = next(each for each in self.clients if each.name == request.client)
        if request.number in client.awaited:
            assert self.known.setdefault(request, outcome) == outcome, (
                f"{request} was answered twice, differently"
            )
            # Sometimes the answer is lost on its way, and the client asks again.
            if self.rng.random() < 0.7:
                del client.awaited[request.number]

    def take_read(self, number: int, outcome: Outcome) -> None:
        if isinstance(outcome, Refused) and outcome.code == "overloaded":
            # It waited for an operation that was half done: this class is not asked for copies.
            assert self.group.definition.cls is UpdatingJournal
            return
        assert isinstance(outcome, Returned)
        expected, _ = self.reads[number]
        lines = "\n".join(outcome.value)
        for client, sent_number in expected:
            assert f"{client}/{sent_number}" in lines, "a query missed what was acknowledged before it"
        self.reads[number] = (expected, outcome.value)

    # --- the group

    @property
    def primary(self) -> Any:
        return self.group.replicas[self.group.primary]

    def backups(self) -> list[str]:
        return [name for name in self.group.replicas if name != self.group.primary]

    def replicate(self) -> None:
        if self.backups():
            self.group.replicate(self.rng.choice(self.backups()))

    def commit(self) -> None:
        self.group.commit()

    def tell_backup(self) -> None:
        if self.backups():
            name = self.rng.choice(self.backups())
            committed = self.group.members[self.group.primary].committed
            self.group.tell_commit(name, min(committed, self.group.members[name].tail))

    def turn(self) -> None:
        self.group.members[self.group.primary].may = self.rng.random() < 0.8
        self.group.replicas[self.rng.choice(sorted(self.group.replicas))].turn()

    def pass_time(self) -> None:
        self.group.clock.time_ns += self.rng.choice([SECOND // 10, SECOND, 4 * SECOND])

    def answer_nested(self) -> None:
        if not self.group.outgoing:
            return
        name, waits = self.group.outgoing.pop(self.rng.randrange(len(self.group.outgoing)))
        if waits.send:
            self.receive(name, waits)
            return
        outcome = self.ask_oracle(waits)
        replica = self.group.replicas.get(name)
        if replica is not None:
            replica.on_nested_outcome(waits.caller, waits.call, outcome)

    def receive(self, name: str, sent: Outgoing) -> None:
        """A receiver, which executes each request id once; sometimes it has no room, or no sender."""
        for each in self.group.final[self.looked_at :]:
            record = decode_record(each.body)
            if isinstance(record, Calls | Executed):
                calls = decode_calls(record.sent.calls)
                self.committed.update(Request(record.sent.client, call.number) for call in calls)
        self.looked_at = len(self.group.final)
        assert sent.caller in self.committed, "a call was sent before its sender was committed"
        if self.rng.random() < 0.1:
            outcome = encode_outcome(Refused("overloaded", "no room"))
        else:
            outcome = encode_outcome(Returned(None))
            key = (sent.group, sent.caller, sent.call)
            if key not in self.received:
                before = [number for (to, *_), number in self.received.items() if to == sent.group]
                assert sent.send > max(before, default=0), f"{sent.group} got it before an earlier one"
            assert self.received.setdefault(key, sent.send) == sent.send, "it has another place in a replay"
        replica = self.group.replicas.get(name)
        if replica is not None:
            replica.on_send_outcome(sent.send, outcome)

    def ask_oracle(self, waits: Outgoing) -> bytes:
        """Another group, which executes each request id once and remembers its reply."""
        key = (waits.caller, waits.call)
        committed = max(member.committed for member in self.group.members.values())
        assert waits.position <= committed, "a nested call left before its caller was committed"
        if key not in self.oracle:
            self.oracle[key] = f"oracle says {len(self.oracle)}"
        if len(self.oracle) % 5 == 0:
            return encode_outcome(Raised("OracleError", self.oracle[key]))
        return encode_outcome(Returned(self.oracle[key]))

    def lose_epoch(self) -> None:
        if self.backups():
            self.group.fail_over(self.rng.choice(self.backups()), is_crash=False)

    def crash(self) -> None:
        if not self.backups():
            return
        name = self.rng.choice(sorted(self.group.replicas))
        if name == self.group.primary:
            self.group.fail_over(self.rng.choice(self.backups()), is_crash=True)
        else:
            self.group.crash(name)
        self.down.append(name)

    def come_back(self) -> None:
        if self.down:
            self.group.restart(self.down.pop(0), is_wiped=self.rng.random() < 0.3)

    def refuse_once(self) -> None:
        """The log is full for a moment: what the primary has executed cannot be ordered."""
        member = self.group.members[self.group.primary]
        member.refuses = Overloaded("full")
        self.call()
        member.refuses = None

    def stall_reads(self) -> None:
        """The log makes a new file: records cannot be read for a moment."""
        self.group.members[self.rng.choice(sorted(self.group.members))].unreadable = self.rng.randint(1, 3)

    def end_copy(self) -> None:
        """A copy that captures a large state has written it, or has failed."""
        copies = self.group.copies[self.rng.choice(sorted(self.group.replicas))]
        copies.end("killed" if self.rng.random() < 0.2 else "")

    # --- the end

    def finish(self) -> list[str]:
        """Let everybody come back and everything be answered; then the journal, which all must agree on."""
        for member in self.group.members.values():
            member.unreadable = 0
        while self.down:
            self.group.restart(self.down.pop(0))
        for _ in range(400):
            self.group.clock.time_ns += SECOND // 4
            self.group.settle()
            while self.group.outgoing:
                self.answer_nested()
            self.take_answers()
            for client in self.clients:
                if client.awaited:
                    self.send(client, list(client.awaited.values())[:50])
            execution = self.primary.execution
            is_empty = not execution.timers and not len(execution.sends)
            if is_empty and not any(client.awaited for client in self.clients):
                break
        else:
            raise AssertionError("the group did not come to rest")
        self.group.settle()
        return self.lines_of(self.group.primary)

    def lines_of(self, name: str) -> list[str]:
        found = self.group.replicas[name].on_stale_query(
            Request(ClientId("reader"), 0), "read", encode_arguments((), {})
        )
        outcome = decode_outcome(found)
        assert isinstance(outcome, Returned)
        lines: list[str] = outcome.value
        return lines


def check(schedule: Schedule) -> None:
    """What must hold at the end of any life."""
    lines = schedule.finish()
    for request, method in schedule.methods.items():
        line = f"{request.client}/{request.number}"
        times = sum(1 for each in lines if each.split(" ")[0] == line)
        assert times == 1, f"{line} was executed {times} times"
        if method == "remind":
            assert lines.count(f"timer of {line}") == 1
    for (caller, call), answer in schedule.oracle.items():
        line = f"answer {call - 1} to {caller.client}/{caller.number}: {answer}"
        assert lines.count(line) <= 1
    for line in (each for each in lines if each.startswith("answer ")):
        asked, answer = line.removeprefix("answer ").split(": ", 1)
        turn, name = asked.split(" to ")
        client, number = name.split("/")
        caller = Request(ClientId(client), int(number))
        assert schedule.oracle[caller, int(turn) + 1] == answer, f"{caller} got the answer to another call"
    for request, receivers in schedule.posted.items():
        found = Counter(to for to, caller, _ in schedule.received if caller == request)
        assert found == receivers, f"{request} sent to {receivers}, received by {found}"
    assert not [fault for fault in schedule.group.faults if fault[1] not in BORNE], schedule.group.faults
    digests = {schedule.group.primary: schedule.primary.execution.digest()}
    assert schedule.primary.execution.position >= Position(1)
    for name in sorted(schedule.group.replicas):
        if name != schedule.group.primary:
            schedule.group.fail_over(name, is_crash=False)
            schedule.group.wake()
            digests[name] = schedule.primary.execution.digest()
    assert len(set(digests.values())) == 1, "members differ"
