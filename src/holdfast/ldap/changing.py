"""A client's changes at the door: who may make them, passwords hashed first, reads before and after.

Passwords in clear come as far as here. They are hashed off the loop, and only then is the request judged.
"""

from collections.abc import Callable
from typing import Any, Final

from msgspec import structs

from holdfast.directory.dn import Dn, parse_rdn
from holdfast.directory.filters.evaluation import matches
from holdfast.directory.operations import (
    AddRequest,
    Attribute,
    Change,
    DeleteRequest,
    Modification,
    ModificationKind,
    ModifyDnRequest,
    ModifyRequest,
)
from holdfast.directory.replica.access import Identity
from holdfast.directory.replica.passwords import PASSWORD_BYTES_MAX, SALT_BYTES, hashed, is_hashed, verified
from holdfast.directory.replica.view import EntryView
from holdfast.directory.results import DirectoryError, ResultCode
from holdfast.ldap.controls import (
    ACKNOWLEDGE,
    ASSERTION,
    MANAGE_DSA_IT,
    POST_READ,
    PRE_READ,
    RequestControls,
    write_entry_read,
)
from holdfast.ldap.messages import Control, SearchResultEntry
from holdfast.ldap.naming_context import NamingContext
from holdfast.ldap.search_task import Referral, referrals_of
from holdfast.ldap.service import NamedDn, Service
from holdfast.model.csn import Csn
from holdfast.model.errors import HoldfastError, Overloaded

CHANGE_CONTROLS: Final = (MANAGE_DSA_IT, ASSERTION, PRE_READ, POST_READ, ACKNOWLEDGE)
PASSWORD: Final = "userPassword"

Answer = Callable[[tuple[Control, ...]], None]
Refuse = Callable[[DirectoryError], None]
Committed = Callable[[Csn], None]


class Changing:
    """Carries out one connection's changes. What can be refused at once raises ``DirectoryError``."""

    def __init__(self, service: Service) -> None:
        self._service = service

    def begin(
        self,
        identity: Identity,
        request: Change,
        controls: RequestControls,
        done: Answer,
        refused: Refuse,
    ) -> None:
        """Check who asks, hash what must be hashed, and have the replica do the rest; *done* follows when
        the change is on the disk, and *refused* if it turns out to be wrong after this has returned."""
        service = self._service
        named = service.name(request.dn)
        if (
            named.is_server_s
            and service.entries.is_private(named.dn)
            and self._resolve(identity, request, named.dn, controls, done, refused)
        ):
            return
        if named.is_server_s:
            raise DirectoryError(
                ResultCode.UNWILLING_TO_PERFORM, "the server's own entries cannot be changed"
            )
        self._check_access(identity, request, named)
        work = self._hashing(request)
        if work is None:
            self._execute(identity, request, named, controls, done, refused)
            return

        def then(result: Any) -> None:
            try:
                if isinstance(result, DirectoryError):
                    raise result
                self._execute(identity, result, named, controls, done, refused)
            except DirectoryError as error:
                refused(error)

        if not service.ports.hasher.submit(work, then):
            raise DirectoryError(ResultCode.BUSY, "too many passwords wait to be hashed; try again")

    def _committed(
        self, context: NamingContext, controls: RequestControls, done: Answer, refused: Refuse
    ) -> Committed:
        """What happens when the change is on the disk: it is answered, or a second store is waited for."""
        second, wanted = context.second_store, controls.acknowledge
        if wanted == 1 or (wanted is None and (second is None or not second.is_asked)):
            return lambda csn: done(())
        if second is None:
            raise DirectoryError(
                ResultCode.UNWILLING_TO_PERFORM, "this directory has one master: no second store can confirm"
            )
        try:
            second.check_room()
        except Overloaded as error:
            raise DirectoryError(ResultCode.BUSY, str(error)) from None

        def answer(error: HoldfastError | None) -> None:
            if error is None:
                done(())
            else:
                refused(DirectoryError(ResultCode.OTHER, str(error)))

        return lambda csn: second.wait(csn, answer)

    def _resolve(
        self,
        identity: Identity,
        request: Change,
        dn: Dn,
        controls: RequestControls,
        done: Answer,
        refused: Refuse,
    ) -> bool:
        """Resolve a conflict, if the request is about one."""
        service = self._service
        administered = service.administered(identity)
        if not administered:
            raise DirectoryError(
                ResultCode.INSUFFICIENT_ACCESS_RIGHTS, "only administrators may resolve conflicts"
            )
        csn = service.config.resolve(
            request, dn, administered, lambda context: self._committed(context, controls, done, refused)
        )
        if csn is not None:
            service.ports.note("directory_conflict_resolved", csn=csn.text(), dn=request.dn, who=identity.dn)
        return csn is not None

    def _execute(
        self,
        identity: Identity,
        request: Change,
        named: NamedDn,
        controls: RequestControls,
        done: Answer,
        refused: Refuse,
    ) -> None:
        service, context, dn = self._service, named.context, named.dn
        replica = context.replica
        before = None
        if not isinstance(request, AddRequest) and (
            controls.assertion is not None
            or controls.pre_read is not None
            or (not controls.manage_dsa_it and replica.sight.may_refer(dn))
        ):
            before = replica.view_now(dn)
        if before is not None and not controls.manage_dsa_it and (urls := referrals_of(before)):
            raise Referral(urls)
        if controls.assertion is not None:
            attributes = {} if before is None else before.everything()
            if not matches(controls.assertion, attributes, service.schema, dn):
                raise DirectoryError(ResultCode.ASSERTION_FAILED, "the entry does not match the assertion")
        answers: list[Control] = []
        committed = self._committed(context, controls, lambda _: done(tuple(answers)), refused)
        if controls.pre_read is not None and before is not None:
            read = self._read(context, identity, before, controls.pre_read)
            answers.append(write_entry_read(PRE_READ, read))
        who = identity.dn
        csn = replica.execute(request, who, committed)
        if controls.post_read is not None and not isinstance(request, DeleteRequest):
            after = replica.view_now(_name_after(request, dn))
            read = self._read(context, identity, after, controls.post_read)
            answers.append(write_entry_read(POST_READ, read))
        service.ports.note(
            "directory_change", csn=csn.text(), operation=type(request).__name__, dn=request.dn, who=who
        )

    def _read(
        self, context: NamingContext, identity: Identity, view: EntryView, attributes: tuple[str, ...]
    ) -> SearchResultEntry:
        sees_all = context.is_administrator(identity, view.dn_key)
        selection = self._service.selection(attributes, types_only=False, sees_all=sees_all)
        chosen = selection.of(view.attributes, view.operational())
        return SearchResultEntry(view.dn, tuple(Attribute(name, values) for name, values in chosen))

    # --- who may

    def _check_access(self, identity: Identity, request: Change, named: NamedDn) -> None:
        rules, key = named.context.rules, named.key
        names = [key]
        if isinstance(request, ModifyDnRequest) and request.new_superior is not None:
            above = self._service.name(request.new_superior)
            if above.context is not named.context:
                # Each suffix replicates by itself, so no change can be of two.
                raise DirectoryError(
                    ResultCode.AFFECTS_MULTIPLE_DSAS, "an entry stays within its suffix: add it there anew"
                )
            names.append(above.key)
        if all(rules.is_administrator(identity, each) for each in names):
            return
        if (
            isinstance(request, ModifyRequest)
            and identity.key == key
            and not identity.is_anonymous
            and all(self._is_password(each.description) for each in request.changes)
        ):
            return
        raise DirectoryError(
            ResultCode.INSUFFICIENT_ACCESS_RIGHTS,
            "bind first: only administrators may change this entry"
            if identity.is_anonymous
            else "only administrators may change this entry",
        )

    def _is_password(self, description: str) -> bool:
        found = self._service.schema.find(description)
        return found is not None and found.type.name == PASSWORD

    # --- passwords

    def _hashing(self, request: Change) -> Callable[[], Change | DirectoryError] | None:
        """The work of making a request without passwords in clear; None if it has none."""
        match request:
            case AddRequest(attributes=attributes):
                clear = [each for each in attributes if self._is_password(each.description)]
                if not _has_clear(value for each in clear for value in each.values):
                    return None
                hash_ = self._hash()
                return lambda: _hashed_add(request, clear, hash_)
            case ModifyRequest(changes=changes):
                steps = [each for each in changes if self._is_password(each.description)]
                if not _has_clear(value for each in steps for value in each.values):
                    return None
                hash_ = self._hash()
                stored = self._stored(request.dn)
                return lambda: _hashed_modify(request, steps, stored, hash_)
        return None

    def _stored(self, dn: str) -> tuple[bytes, ...]:
        named = self._service.name(dn)
        return named.context.replica.view_now(named.dn).attributes.get(PASSWORD, ())

    def _hash(self) -> Callable[[bytes], bytes]:
        random_bytes, rounds = self._service.ports.random_bytes, self._service.policy.password_rounds
        return lambda clear: hashed(clear, random_bytes(SALT_BYTES), rounds)


def _name_after(request: Change, dn: Dn) -> Dn:
    if not isinstance(request, ModifyDnRequest):
        return dn
    above = dn.rdns[1:] if request.new_superior is None else Dn.parse(request.new_superior).rdns
    return Dn((parse_rdn(request.new_rdn), *above))


def _has_clear(values: Any) -> bool:
    return any(not is_hashed(each) for each in values)


def _replaced(value: bytes, hash_: Callable[[bytes], bytes]) -> bytes:
    if is_hashed(value):
        return value
    if not 0 < len(value) <= PASSWORD_BYTES_MAX:
        raise DirectoryError(
            ResultCode.CONSTRAINT_VIOLATION, f"a password has 1 to {PASSWORD_BYTES_MAX} bytes"
        )
    return hash_(value)


def _hashed_add(
    request: AddRequest, clear: list[Attribute], hash_: Callable[[bytes], bytes]
) -> AddRequest | DirectoryError:
    try:
        attributes = tuple(
            structs.replace(each, values=tuple(_replaced(value, hash_) for value in each.values))
            if each in clear
            else each
            for each in request.attributes
        )
    except DirectoryError as error:
        return error
    return structs.replace(request, attributes=attributes)


def _hashed_modify(
    request: ModifyRequest,
    steps: list[Modification],
    stored: tuple[bytes, ...],
    hash_: Callable[[bytes], bytes],
) -> ModifyRequest | DirectoryError:
    def of(step: Modification) -> Modification:
        if step not in steps:
            return step
        if step.kind is ModificationKind.DELETE:
            values = tuple(_stored_for(value, stored) for value in step.values)
        else:
            values = tuple(_replaced(value, hash_) for value in step.values)
        return structs.replace(step, values=values)

    try:
        return structs.replace(request, changes=tuple(map(of, request.changes)))
    except DirectoryError as error:
        return error


def _stored_for(value: bytes, stored: tuple[bytes, ...]) -> bytes:
    """The hash of a password that a client names in clear, to delete it."""
    if is_hashed(value):
        return value
    found = next((each for each in stored if verified(value, each)), None)
    if found is None:
        raise DirectoryError(ResultCode.NO_SUCH_ATTRIBUTE, "userPassword has no such value")
    return found
