"""Searches that are answered at one go: one entry by its name, or those with one value of one attribute.

Programs send a few *forms* of search again and again, each time about another entry. A form is all of a
request but the name at which it begins and the value that it compares with. It is read and planned once; a
request of a known form is told by its bytes, and takes no more than its name, its index and its entries,
whose encoded bytes are kept.

Nothing is refused here, and nothing is special: whatever is not plain (controls, referrals, aliases, many
entries, a name that does not exist, anything that cannot be read) is left to the usual way, which answers it.
"""

from typing import Final

from holdfast.directory.filters.filter import Equality, Present
from holdfast.directory.matching import NotComparable
from holdfast.directory.operations import Scope, SearchRequest
from holdfast.directory.primitives import EntryId
from holdfast.directory.replica.access import INTERNAL, SECRET, Identity
from holdfast.directory.replica.planning import FEW, EqualityIndex, equality_index
from holdfast.directory.replica.snapshot import Face, Snapshot
from holdfast.directory.results import DirectoryError
from holdfast.ldap.ber import INTEGER, OCTETS, length_bytes
from holdfast.ldap.decoding import decode
from holdfast.ldap.encoding import entry_with, operation_bytes
from holdfast.ldap.messages import MESSAGE_ID_MAX, SUCCESS, MalformedMessage, SearchResultDone, Tag
from holdfast.ldap.naming_context import NamingContext
from holdfast.ldap.rendering import ENCODED_MAX, Selection, rendered
from holdfast.ldap.service import Service

FORMS_MAX: Final = 1_000
"""How many forms are known at once. Programs have a few each; people's searches pass through."""
ANSWER_BYTES_MAX: Final = 64 << 10
"""How long an answer may be that is made at one go; a longer one takes turns."""

_DONE: Final = operation_bytes(SearchResultDone(SUCCESS))
_EQUALITY: Final = 0xA3
_PRESENT: Final = 0x87
_SEARCH: Final = int(Tag.SEARCH_REQUEST)
_LONG: Final = 0x80


def _rendered(face: Face, selection: Selection, snapshot: Snapshot) -> bytes:
    ready, view = face.ready, face.view
    face.let_go()
    attributes = None if ready is None else selection.of_ready(ready)
    if attributes is not None:
        data = entry_with(face.dn.encode(), attributes)
    else:
        view = view or snapshot.made(face.id)
        assert view is not None, "its face was found in this snapshot"
        data = rendered(view, selection)
    if len(face.encoded) >= ENCODED_MAX:
        face.encoded.clear()
    face.encoded[selection.key] = data
    return data


class Form:
    """What all requests of one form have in common."""

    __slots__ = ("index", "is_quick", "request", "selections")

    def __init__(self, request: SearchRequest, service: Service) -> None:
        self.request = request
        """The first of its kind: its base and its value are not the others'."""
        self.index: EqualityIndex | None = None
        filter_ = request.filter
        if isinstance(filter_, Equality) and request.scope is Scope.SUBTREE:
            self.index = equality_index(filter_.description, service.schema)
            is_plain = self.index is not None and self.index.attribute.name not in (*SECRET, *INTERNAL)
        else:
            is_plain = (
                request.scope is Scope.BASE
                and isinstance(filter_, Present)
                and filter_.description.lower() == "objectclass"
            )
        self.selections: tuple[Selection, Selection] = (
            service.selection(request.attributes, types_only=request.types_only, sees_all=False),
            service.selection(request.attributes, types_only=request.types_only, sees_all=True),
        )
        # How many entries are below one is counted anew for each answer.
        self.is_quick = is_plain and not self.selections[0].counted


class QuickSearches:
    """Answers those of one service. Between two calls of :meth:`rest` all of a suffix see one snapshot."""

    def __init__(self, service: Service, *, forms_max: int = FORMS_MAX) -> None:
        self._service = service
        self._forms_max = forms_max
        self._forms: dict[tuple[bytes, bytes, bytes], Form] = {}
        self._snapshots: dict[NamingContext, Snapshot] = {}

    @property
    def forms(self) -> int:
        """How many are known."""
        return len(self._forms)

    def rest(self) -> None:
        """The turn is over: what was looked at is let go."""
        if self._snapshots:
            for each in self._snapshots.values():
                each.close()
            self._snapshots.clear()

    def answer(self, data: bytes, identity: Identity, under_way: dict[int, str]) -> bytes | None:
        """The whole answer to the message *data* of someone whose messages *under_way* have none yet; None
        if it takes the usual way."""
        try:
            at = 2 if data[1] < _LONG else 2 + (data[1] & 0x7F)
            after = at + 2 + data[at + 1]
            if data[after] != _SEARCH or data[at] != INTEGER or data[at + 2] >= _LONG:
                return None
            number, numbered = int.from_bytes(data[at + 2 : after], "big"), data[at:after]
            length = data[after + 1]
            at = after + 2
            if length >= _LONG:
                at += length & 0x7F
                length = int.from_bytes(data[after + 2 : at], "big")
            if at + length != len(data) or data[at] != OCTETS or data[at + 1] >= _LONG:
                return None
            start = at + 2 + data[at + 1]
            base = data[at + 2 : start]
            # What stands between the name and the filter: scope, aliases, two limits, and one flag.
            at = start + 6
            at += 2 + data[at + 1]
            at += 5 + data[at + 1]
            end = at + 2 + data[at + 1]
            value = b""
            if data[at] == _EQUALITY:
                middle = at + 4 + data[at + 3]
                value = data[middle + 2 : end]
                if data[middle] != OCTETS or data[middle + 1] != len(value) or data[at + 1] >= _LONG:
                    return None
                key = (data[start:at], data[at + 2 : middle], data[end:])
            elif data[at] == _PRESENT:
                key = (data[start:at], data[at:end], data[end:])
            else:
                return None
        except IndexError:
            return None
        form = self._forms.get(key)
        if form is None:
            form = self._learnt(data, key)
        if form is None or not form.is_quick or number in under_way or not 0 < number <= MESSAGE_ID_MAX:
            return None
        return self._found(form, base, value, identity, numbered)

    def _learnt(self, data: bytes, key: tuple[bytes, bytes, bytes]) -> Form | None:
        """The form of a message, if it is sound and has no controls."""
        try:
            message = decode(data)
        except MalformedMessage:
            return None
        if not isinstance(message.operation, SearchRequest) or message.controls:
            return None
        if len(self._forms) >= self._forms_max:
            self._forms.clear()
        form = self._forms[key] = Form(message.operation, self._service)
        return form

    def _found(
        self, form: Form, base: bytes, value: bytes, identity: Identity, numbered: bytes
    ) -> bytes | None:
        service = self._service
        try:
            named = service.name(base.decode())
            if named.is_server_s:
                return None
            context = named.context
            rules = context.rules
            snapshot = self._snapshots.get(context)
            if snapshot is None:
                snapshot = self._snapshots[context] = context.replica.snapshot()
            base_face = snapshot.face(snapshot.find(named.dn, named.key))
            if base_face is None or base_face.is_elsewhere:
                return None
            is_hiding = not identity.key and not rules.reads_everything
            if is_hiding and not rules.may_read(identity, base_face.dn_key):
                return None
            if form.index is None:
                faces = [base_face]
            else:
                faces = []
                above = base_face.dn_key
                base_face.let_go()
                entries = form.index.find(value, service.schema, snapshot.reader, FEW + 1)
                if len(entries) > FEW:
                    return None
                for entry in entries:
                    each = snapshot.face(EntryId(entry))
                    if each is None or not each.dn_key.startswith(above):
                        continue
                    if is_hiding and not rules.may_read(identity, each.dn_key):
                        continue
                    if each.is_elsewhere:
                        return None
                    faces.append(each)
        except (DirectoryError, NotComparable, UnicodeDecodeError):
            return None
        limit = form.request.size_limit
        if limit and len(faces) > limit:
            return None
        selection = form.selections[rules.is_administrator(identity, named.key)]
        written = 0
        parts: list[bytes] = []
        for each in faces:
            data = each.encoded.get(selection.key) or _rendered(each, selection, snapshot)
            written += len(data)
            parts += (b"\x30", length_bytes(len(numbered) + len(data)), numbered, data)
        if written > ANSWER_BYTES_MAX:
            return None
        parts += (b"\x30", length_bytes(len(numbered) + len(_DONE)), numbered, _DONE)
        return b"".join(parts)
