"""One connection's conversation (RFC 4511): requests in, answers out, without IO.

The driver hands over what arrived (:meth:`Session.receive`), gives the session turns while it has work
(:meth:`Session.work`), and writes what it says. A session does nothing while a bind or StartTLS, or too many
operations are under way, or its client does not read: then what arrives waits in the socket. Changes are
answered when they are on the disk, searches as they go, each under its own number.
"""

from collections import deque
from typing import Final, Protocol

from holdfast.directory.dn import Dn
from holdfast.directory.operations import (
    AddRequest,
    Change,
    CompareRequest,
    DeleteRequest,
    ModifyDnRequest,
    ModifyRequest,
    SearchRequest,
)
from holdfast.directory.replica.access import ANONYMOUS, Identity
from holdfast.directory.results import DirectoryError, ResultCode
from holdfast.ldap.ber import BerError, Splitter
from holdfast.ldap.binding import Binding
from holdfast.ldap.changing import CHANGE_CONTROLS, Changing
from holdfast.ldap.comparing import COMPARE_CONTROLS, compared
from holdfast.ldap.controls import RequestControls, read_request_controls
from holdfast.ldap.decoding import decode
from holdfast.ldap.encoding import encode, envelope
from holdfast.ldap.extended import (
    CANCEL,
    PASSWORD_MODIFY,
    START_TLS,
    WHO_AM_I,
    generated_password,
    read_cancel,
    read_password_modify,
    start_tls,
    who_am_i,
)
from holdfast.ldap.messages import (
    RESPONSES,
    SUCCESS,
    AbandonRequest,
    BindRequest,
    BindResponse,
    CompareResponse,
    Control,
    ExtendedRequest,
    ExtendedResponse,
    MalformedMessage,
    Message,
    Response,
    Result,
    SearchResultDone,
    UnbindRequest,
    notice_of_disconnection,
    refusal,
)
from holdfast.ldap.quick_search import QuickSearches
from holdfast.ldap.search_task import SEARCH_CONTROLS, Pages, Referral, SearchTask, Walk, begin
from holdfast.ldap.server_entries import chosen
from holdfast.ldap.service import Service

WRITE_BYTES: Final = 64 << 10
"""How many bytes are written at once; then the driver may say that the client does not read."""


class Channel(Protocol):
    """The driver's part of a connection."""

    def write(self, data: bytes) -> None: ...

    def close(self) -> None:
        """Send what was written, and close."""

    def start_tls(self) -> None:
        """Send what was written, then begin TLS; the session hears ``on_tls``."""


class Session:
    """The state of one connection."""

    def __init__(
        self,
        service: Service,
        channel: Channel,
        *,
        can_start_tls: bool = False,
        is_tls: bool = False,
        quick: QuickSearches | None = None,
    ) -> None:
        """*quick* may be shared with other connections of the same service."""
        self.service = service
        self.identity: Identity = ANONYMOUS
        self.is_tls = is_tls
        self.certified: str | None = None
        """The subject of the client's certificate, if it has one that is trusted."""
        self.is_paused = False
        """Whether the client reads too slowly; the driver says so."""
        self.is_closed = False
        self._channel = channel
        self._can_start_tls = can_start_tls
        self._splitter = Splitter(service.limits.anonymous_message_bytes)
        self._out: list[bytes] = []
        self._tasks: deque[SearchTask] = deque()
        self._under_way: dict[int, str] = {}
        """The messages that will be answered, by number."""
        self._abandoned: dict[int, None] = {}
        self._outstanding_max = service.limits.outstanding
        self._is_waiting = False
        """For a bind or TLS: until then nothing else is looked at."""
        self._is_working = False
        self.pages = Pages(service)
        self._binding = Binding(service)
        self._changing = Changing(service)
        self._quick = quick or QuickSearches(service)

    # --- the driver's side

    @property
    def has_work(self) -> bool:
        return bool(self._tasks) and not self.is_paused and not self.is_closed

    @property
    def wants_input(self) -> bool:
        """Whether more may be read from the socket."""
        is_full = len(self._under_way) >= self._outstanding_max
        return not (self.is_closed or self.is_paused or self._is_waiting or is_full)

    @property
    def is_idle(self) -> bool:
        return not self._under_way

    def receive(self, data: bytes) -> None:
        if not self.is_closed:
            self._splitter.feed(data)
            self.work()

    def work(self) -> None:
        """Look at what has arrived, go on with searches for a while, and send what there is."""
        if self._is_working:
            return
        self._is_working = True
        try:
            self._look()
            if self._tasks and not self.is_paused:
                task = self._tasks.popleft()
                if not self._advance(task):
                    self._tasks.append(task)
        finally:
            self._is_working = False
            self._quick.rest()
        self._flush()

    def on_tls(self, certified: str | None) -> None:
        """TLS has begun: the client is whom its certificate names, once it asks to be (EXTERNAL)."""
        self.is_tls = True
        self.certified = certified
        self._is_waiting = False

    def disconnect(self, result: ResultCode, why: str) -> None:
        """Tell the client why, and leave it (RFC 4511, 4.4.1)."""
        if not self.is_closed:
            self._out.append(encode(notice_of_disconnection(result, why)))
            self._end()

    def close(self) -> None:
        """Drop all that is under way; changes that were accepted are carried out, and answered by nobody."""
        self.is_closed = True
        for task in self._tasks:
            task.close()
        self._tasks.clear()
        self.pages.close()
        self._under_way.clear()

    # --- requests

    def _look(self) -> None:
        written = 0
        while self.wants_input:
            try:
                data = self._splitter.take()
                if data is None:
                    return
                found = self._quick.answer(data, self.identity, self._under_way)
                if found is not None:
                    self.service.operations += 1
                    self._out.append(found)
                    written += len(found)
                    if written > WRITE_BYTES:
                        self._flush()  # the driver then says whether the client reads what it asked for
                        written = 0
                    continue
                message = decode(data)
            except BerError as error:
                self.disconnect(ResultCode.PROTOCOL_ERROR, str(error))
                return
            except MalformedMessage as error:
                answer = refusal(error)
                if answer is not None:
                    self._out.append(encode(answer))
                if error.ends_connection:
                    self._end()
                    return
                continue
            self.service.operations += 1
            self._take(message)

    def _take(self, message: Message) -> None:
        operation = message.operation
        match operation:
            case UnbindRequest():
                self._end()
                return
            case AbandonRequest(message_id=target):
                self._abandon(target)
                return
        if (
            message.message_id == 0
            or message.message_id in self._under_way
            or type(operation) not in RESPONSES
        ):
            # RFC 4511, 4.1.1.1 and 5.3: what follows cannot be told apart from what came before.
            self.disconnect(ResultCode.PROTOCOL_ERROR, "a request has a number of its own, which is not 0")
            return
        self._under_way[message.message_id] = type(operation).__name__
        try:
            self._begin(message)
        except DirectoryError as error:
            self._refuse(message, error)

    def _begin(self, message: Message) -> None:
        number = message.message_id
        match message.operation:
            case SearchRequest() as search:
                self._search(message, search)
            case AddRequest() | DeleteRequest() | ModifyRequest() | ModifyDnRequest() as change:
                self._change(message, change)
            case CompareRequest() as compare:
                read_request_controls(message.controls, COMPARE_CONTROLS)
                is_equal = compared(self.service, self.identity, compare)
                code = ResultCode.COMPARE_TRUE if is_equal else ResultCode.COMPARE_FALSE
                self._answer(number, CompareResponse(Result(code)))
            case BindRequest() as bind:
                read_request_controls(message.controls, ())
                self._bind(number, bind)
            case ExtendedRequest() as extended:
                read_request_controls(message.controls, ())
                self._extended(number, extended)

    def _refuse(self, message: Message, error: DirectoryError) -> None:
        urls = error.urls if isinstance(error, Referral) else ()
        result = Result(error.result, error.matched_dn, error.diagnostic, urls)
        self._answer(message.message_id, RESPONSES[type(message.operation)](result))

    def _abandon(self, target: int) -> bool:
        """Give up a search; of a change the answer is dropped. Nothing answers this (CSN-101)."""
        for task in self._tasks:
            if task.message_id == target:
                task.close()
                self._tasks.remove(task)
                self._under_way.pop(target, None)
                return True
        if target in self._under_way and self._under_way[target] != BindRequest.__name__:
            self._abandoned[target] = None
        return False

    # --- searches

    def _search(self, message: Message, request: SearchRequest) -> None:
        service = self.service
        controls = read_request_controls(message.controls, SEARCH_CONTROLS)
        named = service.name(request.base)
        if named.is_server_s:
            self._search_server(message.message_id, request, named.dn, controls)
            return
        paged = controls.paged
        if paged is not None and paged.cookie:
            walk = self.pages.take(paged.cookie, request, self.identity)
            if paged.size == 0:  # the client wants no more
                service.release(walk.snapshot)
                self._answer(message.message_id, SearchResultDone(SUCCESS))
                return
        else:
            walk = begin(service, self.identity, request, named, controls)
        most = service.limits.time_s
        allowed = min(request.time_limit_s, most) if request.time_limit_s else most
        page = None if paged is None or paged.size == 0 else paged.size
        task = SearchTask(service, message.message_id, walk, page, service.ports.now() + allowed)
        if not self._advance(task):
            self._tasks.append(task)

    def _search_server(self, number: int, request: SearchRequest, dn: Dn, controls: RequestControls) -> None:
        service = self.service
        further = service.entries_below_config(self.identity, dn, request.scope)
        selection = service.selection(request.attributes, types_only=request.types_only, sees_all=True)
        found = service.entries.search(
            request,
            dn,
            selection,
            further,
            can_start_tls=self._can_start_tls and not self.is_tls,
            has_certificate=self.certified is not None,
        )
        answer = chosen(found, request.size_limit, controls)
        self._out.extend(envelope(number, each) for each in answer.entries)
        self._answer(number, SearchResultDone(answer.result), answer.controls)

    def _advance(self, task: SearchTask) -> bool:
        try:
            is_done = task.step(self._out, self._keep)
        except DirectoryError as error:
            task.close()
            is_done = True
            self._out.append(encode(Message(task.message_id, SearchResultDone(Result.of(error)))))
        if is_done:
            self._under_way.pop(task.message_id, None)
        return is_done

    def _keep(self, walk: Walk) -> bytes:
        return self.pages.keep(walk)

    # --- changes, binds and extended operations, which may be answered later

    def _change(self, message: Message, request: Change) -> None:
        controls = read_request_controls(message.controls, CHANGE_CONTROLS)
        number, respond = message.message_id, RESPONSES[type(request)]

        def done(answers: tuple[Control, ...]) -> None:
            self._answer_later(number, respond(SUCCESS), answers)

        def refused(error: DirectoryError) -> None:
            if number in self._under_way:
                self._refuse(message, error)
                self._resume()

        self._changing.begin(self.identity, request, controls, done, refused)

    def _bind(self, number: int, request: BindRequest) -> None:
        # RFC 4511, 4.2.1: a bind ends what was there before, also when it fails.
        self.identity = ANONYMOUS
        self._splitter.bytes_max = self.service.limits.anonymous_message_bytes
        self.pages.close()
        self._is_waiting = True

        def then(found: Identity | DirectoryError) -> None:
            self._is_waiting = False
            if self.is_closed:
                return
            if isinstance(found, DirectoryError):
                self.service.ports.note("directory_bind_failed", dn=request.name, result=int(found.result))
                self._answer_later(number, BindResponse(Result.of(found)))
                return
            self.identity = found
            if not found.is_anonymous:
                self._splitter.bytes_max = self.service.limits.message_bytes
            self._answer_later(number, BindResponse(SUCCESS))

        try:
            self._binding.begin(request, is_tls=self.is_tls, certified=self.certified, then=then)
        except DirectoryError:
            self._is_waiting = False
            raise

    def _extended(self, number: int, request: ExtendedRequest) -> None:
        match request.name:
            case name if name == WHO_AM_I:
                dn = self.identity.dn
                self._answer(number, who_am_i(f"dn:{dn}" if dn else ""))
            case name if name == START_TLS:
                self._start_tls(number)
            case name if name == PASSWORD_MODIFY:
                self._change_password(number, request)
            case name if name == CANCEL:
                target = read_cancel(request.value)
                if target not in self._under_way or target == number:
                    raise DirectoryError(ResultCode.NO_SUCH_OPERATION, "there is no such operation")
                if not self._abandon(target):
                    self._abandoned.pop(target, None)
                    raise DirectoryError(ResultCode.CANNOT_CANCEL, "a change cannot be cancelled")
                given_up = SearchResultDone(Result(ResultCode.CANCELED, "", "cancelled"))
                self._out.append(encode(Message(target, given_up)))
                self._answer(number, ExtendedResponse(SUCCESS))
            case _:
                raise DirectoryError(ResultCode.PROTOCOL_ERROR, "there is no such extended operation")

    def _start_tls(self, number: int) -> None:
        if self.is_tls or len(self._under_way) > 1 or self._splitter.held_bytes:
            raise DirectoryError(
                ResultCode.OPERATIONS_ERROR,
                "TLS is there already" if self.is_tls else "other operations are under way",
            )
        if not self._can_start_tls:
            raise DirectoryError(ResultCode.UNAVAILABLE, "this server has no certificate")
        self.identity = ANONYMOUS
        self._answer(number, start_tls(SUCCESS))
        self._is_waiting = True
        self._flush()
        self._channel.start_tls()

    def _change_password(self, number: int, request: ExtendedRequest) -> None:
        change = read_password_modify(request.value)
        if self.service.policy.require_tls and not self.is_tls:
            raise DirectoryError(ResultCode.CONFIDENTIALITY_REQUIRED, "passwords are taken over TLS alone")

        def done(chosen: bytes | None) -> None:
            answer = ExtendedResponse(SUCCESS) if chosen is None else generated_password(chosen)
            self._answer_later(number, answer)

        def refused(error: DirectoryError) -> None:
            self._answer_later(number, ExtendedResponse(Result.of(error)))

        self._binding.change_password(self.identity, change, self._changing, done, refused)

    # --- answers

    def _answer(self, number: int, response: Response, controls: tuple[Control, ...] = ()) -> None:
        """Answer a request; an abandoned one is not."""
        if self._under_way.pop(number, None) is None:
            return
        if self._abandoned.pop(number, number) is None:
            return
        self._out.append(encode(Message(number, response, controls)))

    def _answer_later(self, number: int, response: Response, controls: tuple[Control, ...] = ()) -> None:
        """Answer from outside of :meth:`work`, and look at what had to wait."""
        if not self.is_closed:
            self._answer(number, response, controls)
            self._resume()

    def _resume(self) -> None:
        if not self._is_working:
            self.work()

    def _flush(self) -> None:
        if self._out:
            data = b"".join(self._out)
            self._out.clear()
            self._channel.write(data)

    def _end(self) -> None:
        self._flush()
        self.close()
        self._channel.close()
