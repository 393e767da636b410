"""One connection as a state machine without IO: bytes in, frames and bytes out.

    connector:  AWAITING_WELCOME -> OPEN -> ENDED
    acceptor:   AWAITING_HELLO   -> OPEN -> ENDED

``receive`` returns the application's frames. Everything else is state: ``state``, ``agreed`` once open,
``reason`` once ended, and ``take_output`` for the bytes to send. The first violation ends the session with
one reason, which is also sent to the peer as a Goodbye; frames before it are still returned.
"""

from collections.abc import Callable
from enum import Enum, auto
from typing import Final

from holdfast.model.errors import invariant
from holdfast.net.frame import Frame, FrameDecoder, Kind, Reason, To, Why, encode_frame
from holdfast.net.handshake import (
    HANDSHAKE_BYTES_MAX,
    Agreed,
    CertifiedName,
    Expected,
    PeerIdentity,
    encode_goodbye,
    encode_hello,
    encode_welcome,
    judge_hello,
    judge_welcome,
    read_goodbye,
)


class State(Enum):
    AWAITING_HELLO = auto()
    AWAITING_WELCOME = auto()
    OPEN = auto()
    ENDED = auto()


CONTROL: Final[dict[tuple[State, Kind], State]] = {
    (State.AWAITING_HELLO, Kind.HELLO): State.OPEN,
    (State.AWAITING_HELLO, Kind.GOODBYE): State.ENDED,
    (State.AWAITING_WELCOME, Kind.WELCOME): State.OPEN,
    (State.AWAITING_WELCOME, Kind.GOODBYE): State.ENDED,
    (State.OPEN, Kind.ALIVE): State.OPEN,
    (State.OPEN, Kind.GOODBYE): State.ENDED,
}
"""The next state for each frame of the connection itself; any other combination is out of order. The
application's frames are in order while the session is open."""

ALIVE_FRAME: Final = encode_frame(Kind.ALIVE, b"")


class Session:
    """The protocol state of one connection, at either end."""

    def __init__(
        self,
        ours: PeerIdentity,
        *,
        is_connector: bool,
        payload_bytes_max: int,
        idle_ms: int,
        expected: Expected,
        certified: CertifiedName | None = None,
    ) -> None:
        self.state = State.AWAITING_WELCOME if is_connector else State.AWAITING_HELLO
        self.agreed: Agreed | None = None
        self.reason: Reason | None = None
        self._ours = ours
        self._payload_bytes_max = payload_bytes_max
        self._idle_ms = idle_ms
        self._expected = expected
        self._certified = certified
        self._decoder = FrameDecoder(HANDSHAKE_BYTES_MAX)
        self._output: list[bytes] = []
        if is_connector:
            self._output.append(encode_frame(Kind.HELLO, encode_hello(ours, payload_bytes_max, idle_ms)))

    def receive(self, data: bytes) -> list[Frame]:
        """Process the bytes that arrived, in any pieces, and return the application's frames in order."""
        if self.state is State.ENDED:
            return []
        self._decoder.feed(data)
        frames = self._decoder.take_run() if self.state is State.OPEN else []
        return frames + self._receive_unusual()

    def hand_on(self, data: bytes, take: Callable[[To, Kind, bytes], None], to: To) -> list[Frame]:
        """Like ``receive``, for the hot path of an open session: pass the frames to *take* as they are found.

        Return the frames that follow a frame of the connection itself.
        """
        if self.state is State.ENDED:
            return []
        self._decoder.feed(data)
        is_all = self._decoder.hand_run(take, to)
        return self._receive_unusual() if not is_all and self.state is State.OPEN else []

    @property
    def current_kind(self) -> Kind:
        """The kind of the frame at which ``hand_on`` raised."""
        return self._decoder.next_kind

    def _receive_unusual(self) -> list[Frame]:
        """Continue after a run: the rest is incomplete or begins with a frame of the connection itself."""
        decoder, frames = self._decoder, list[Frame]()
        while (frame := decoder.take_one()) is not None:
            self._on_unusual(*frame)
            if self.reason is not None:
                return frames
            if self.state is State.OPEN:
                frames += decoder.take_run()
        if decoder.fault is not None:
            self._fail(decoder.fault)
        return frames

    def receive_eof(self) -> None:
        """Record that the peer will send nothing more."""
        if self._decoder.is_between_frames:
            self._end(Reason(Why.LOST, "the connection was closed without a goodbye"))
        else:
            self._fail(Reason(Why.TRUNCATED, "the connection ended inside a frame"))

    def end(self, reason: Reason) -> None:
        """End the session from this side and tell the peer. A second call does nothing."""
        self._fail(reason)

    def frame(self, kind: Kind, payload: bytes) -> bytes:
        """The bytes of one application frame. Senders must respect ``agreed.payload_bytes_max``."""
        invariant(self.state is State.OPEN, "frames are sent only in an open session")
        return encode_frame(kind, payload)

    def take_output(self) -> bytes:
        """Return and clear the bytes that the session itself must send now."""
        output = b"".join(self._output)
        self._output.clear()
        return output

    def _on_unusual(self, kind: Kind, payload: bytes) -> None:
        """Handle a frame of the connection itself, or any frame before the session is open."""
        following = CONTROL.get((self.state, kind))
        if following is None:
            self._fail(Reason(Why.OUT_OF_ORDER, f"{kind.name} while {self.state.name}"))
        elif following is State.ENDED:
            self._end(read_goodbye(payload))
        elif self.state is not following:
            self._settle(kind, payload)

    def _settle(self, kind: Kind, payload: bytes) -> None:
        """Check the peer's half of the handshake."""
        judge = judge_hello if kind is Kind.HELLO else judge_welcome
        verdict = judge(payload, self._ours, self._expected, self._certified)
        if isinstance(verdict, Reason):
            self._fail(verdict)
            return
        if kind is Kind.HELLO:
            welcome = encode_welcome(self._ours, verdict.version, self._payload_bytes_max, self._idle_ms)
            self._output.append(encode_frame(Kind.WELCOME, welcome))
        self._decoder.payload_bytes_max = self._payload_bytes_max
        self.agreed = verdict
        self.state = State.OPEN

    def _fail(self, reason: Reason) -> None:
        """End with a Goodbye."""
        if self.state is not State.ENDED:
            self._output.append(encode_frame(Kind.GOODBYE, encode_goodbye(reason)))
            self._end(reason)

    def _end(self, reason: Reason) -> None:
        if self.state is not State.ENDED:
            self.state = State.ENDED
            self.reason = reason
            self._decoder.is_stopped = True
