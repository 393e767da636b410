"""A session without a socket: requests in, answers out, on a replica in memory."""

from collections.abc import Callable
from typing import Any

from directory_replica import ADMIN, SUFFIX, Master, add

from holdfast.directory.operations import Attribute
from holdfast.directory.replica.passwords import hashed
from holdfast.ldap.ber import Splitter
from holdfast.ldap.decoding import decode
from holdfast.ldap.encoding import encode
from holdfast.ldap.limits import DoorLimits
from holdfast.ldap.messages import BindRequest, Control, Message, Request, Response, SimpleAuthentication
from holdfast.ldap.service import DoorPolicy, DoorPorts, SecondStore, Service
from holdfast.ldap.session import Session

PASSWORD = b"secret"
ROUNDS = 10


class Hashing:
    """Work with passwords, done when the test says so."""

    def __init__(self) -> None:
        self.waiting: list[tuple[Callable[[], Any], Callable[[Any], None]]] = []
        self.most = 10

    def submit(self, work: Callable[[], Any], then: Callable[[Any], None]) -> bool:
        if len(self.waiting) >= self.most:
            return False
        self.waiting.append((work, then))
        return True

    def run(self) -> None:
        while self.waiting:
            work, then = self.waiting.pop(0)
            then(work())


class Wire:
    """The channel of a session: keeps what was written."""

    def __init__(self) -> None:
        self.written = bytearray()
        self.is_closed = False
        self.tls_started = 0

    def write(self, data: bytes) -> None:
        self.written += data

    def close(self) -> None:
        self.is_closed = True

    def start_tls(self) -> None:
        self.tls_started += 1


class Client:
    """One client of one service."""

    def __init__(self, door: "Door", **options: Any) -> None:
        self.door = door
        self.wire = Wire()
        self.session = Session(door.service, self.wire, **options)
        self._splitter = Splitter(1 << 24)
        self._last = 0

    def send(self, request: Request, *controls: Control, number: int | None = None) -> int:
        self._last = self._last + 1 if number is None else number
        self.session.receive(encode(Message(self._last, request, tuple(controls))))
        return self._last

    def answers(self) -> list[Message]:
        """All that was answered since this was last asked."""
        self._splitter.feed(bytes(self.wire.written))
        self.wire.written.clear()
        found = []
        while (data := self._splitter.take()) is not None:
            found.append(decode(data))
        return found

    def ask(self, request: Request, *controls: Control) -> list[Message]:
        """Send, let everything happen that can, and return the answers."""
        self.send(request, *controls)
        self.door.settle()
        return self.answers()

    def result(self, request: Request, *controls: Control) -> Response:
        *_, last = self.ask(request, *controls)
        assert not isinstance(last.operation, BindRequest)
        return last.operation  # type: ignore[return-value]

    def bind(self, dn: str = ADMIN, password: bytes = PASSWORD) -> Response:
        return self.result(BindRequest(3, dn, SimpleAuthentication(password)))


class Door:
    """A service on a master in memory, with an administrator."""

    def __init__(
        self,
        limits: DoorLimits | None = None,
        policy: DoorPolicy | None = None,
        second_store: SecondStore | None = None,
    ) -> None:
        self.master = Master()
        self.now = 0.0
        self.hashing = Hashing()
        self.notes: list[tuple[str, dict[str, object]]] = []
        self.clients: list[Client] = []
        counter = iter(range(1, 1 << 30))
        ports = DoorPorts(
            now=lambda: self.now,
            random_bytes=lambda count: next(counter).to_bytes(count, "big"),
            hasher=self.hashing,
            note=lambda word, **fields: self.notes.append((word, fields)),
        )
        self.service = Service(
            self.master.replica,
            ports,
            limits or DoorLimits(),
            policy or DoorPolicy(password_rounds=ROUNDS),
            "test",
            second_store,
        )
        top = add(SUFFIX, "domain", dc="example", administrator=ADMIN)
        self.master.do(top)
        secret = hashed(PASSWORD, b"0" * 16, ROUNDS)
        admin = add(ADMIN, "organizationalRole", "simpleSecurityObject", cn="admin")
        self.master.do(type(admin)(admin.dn, (*admin.attributes, Attribute("userPassword", (secret,)))))
        self.master.do(add(f"ou=people,{SUFFIX}", "organizationalUnit", ou="people"))

    def client(self, **options: Any) -> Client:
        made = Client(self, **options)
        self.clients.append(made)
        return made

    def settle(self) -> None:
        """Let passwords be hashed, transactions be committed, and searches go on, until all is quiet."""
        for _ in range(10_000):
            self.hashing.run()
            self.master.store.commit()
            busy = [each for each in self.clients if each.session.has_work]
            for each in busy:
                each.session.work()
            if not busy and not self.hashing.waiting and not self.master.store.on_its_way:
                return
        raise AssertionError("it never became quiet")
