"""The server's own entries: the root DSE, the subschema, and what it says of itself below ``cn=config``.

They are made when they are asked for, and nobody changes them over LDAP. Of controls, extensions and features
only those are listed that are done.
"""

from collections.abc import Callable, Iterable
from typing import Final

from msgspec import Struct

from holdfast.directory.dn import Dn
from holdfast.directory.filters.evaluation import matches
from holdfast.directory.operations import Scope, SearchRequest
from holdfast.directory.replica.view import SUBSCHEMA_DN, Attributes
from holdfast.directory.results import DirectoryError, ResultCode
from holdfast.directory.schema.schema import Schema
from holdfast.ldap.controls import KNOWN as CONTROLS
from holdfast.ldap.controls import (
    SORT_REQUEST,
    PagedResults,
    RequestControls,
    SortResult,
    write_paged_results,
    write_sort_result,
)
from holdfast.ldap.extended import CANCEL, PASSWORD_MODIFY, START_TLS, WHO_AM_I
from holdfast.ldap.messages import SUCCESS, VERSION, Control, Result
from holdfast.ldap.rendering import Selection, encoded

FEATURES: Final = (
    "1.3.6.1.1.14",  # increment (RFC 4525)
    "1.3.6.1.4.1.4203.1.5.1",  # all operational attributes (RFC 3673)
    "1.3.6.1.4.1.4203.1.5.3",  # absolute true and false filters (RFC 4526)
)
CONFIG_DN: Final = "cn=config"
GENERATOR_DN: Final = "cn=csnGenerator,cn=config"
EXTERNAL: Final = "EXTERNAL"


class ServerEntry:
    """One of them: user attributes, and the operational ones."""

    def __init__(self, dn: str, user: Attributes, operational: Attributes) -> None:
        self.dn = dn
        self.user = user
        self.operational = operational


class ServerEntries:
    """All of them, by name."""

    def __init__(
        self,
        schema: Schema,
        suffixes: Callable[[], tuple[str, ...]],
        csnstates: Callable[[], tuple[str, ...]],
        version: str,
    ) -> None:
        """*csnstates* gives the state of each suffix's generator."""
        self._schema = schema
        self._suffixes = suffixes
        self._csnstates = csnstates
        self._version = version
        self._keys = {
            Dn.parse(each).key(schema): each for each in ("", SUBSCHEMA_DN, CONFIG_DN, GENERATOR_DN)
        }
        self._subschema = {
            name: tuple(each.encode() for each in values) for name, values in schema.subschema().items()
        }

    def name_of(self, dn: Dn) -> str | None:
        """Which of them is meant; None if it is none."""
        return self._keys.get(dn.key(self._schema))

    def is_below_config(self, dn: Dn) -> bool:
        """Whether a name is the server's own, whether or not there is an entry of it."""
        top = Dn(dn.rdns[-1:]).key(self._schema) if dn.rdns else b""
        return top in self._keys

    def is_private(self, dn: Dn) -> bool:
        """Whether only administrators may read it."""
        return bool(dn.rdns) and Dn(dn.rdns[-1:]).key(self._schema) == Dn.parse(CONFIG_DN).key(self._schema)

    def search(
        self,
        request: SearchRequest,
        dn: Dn,
        selection: Selection,
        further: dict[str, Attributes],
        *,
        can_start_tls: bool,
        has_certificate: bool,
    ) -> dict[str, bytes]:
        """What a search that begins at one of them finds, encoded, by name. *further* are more entries below
        ``cn=config``, by name."""
        base = self.name_of(dn)
        if base is None:
            key = dn.key(self._schema)
            base = next((each for each in further if Dn.parse(each).key(self._schema) == key), None)
        if base is None:
            raise DirectoryError(ResultCode.NO_SUCH_OBJECT, "there is no such entry")
        found = {}
        for name in self._in_scope(base, request.scope, further):
            if name in further:
                entry = ServerEntry(name, further[name], _common(name))
            else:
                entry = self._entry(name, can_start_tls=can_start_tls, has_certificate=has_certificate)
            if matches(request.filter, {**entry.user, **entry.operational}, self._schema, Dn.parse(name)):
                found[name] = encoded(entry.dn, selection.of(entry.user, entry.operational))
        return found

    def _in_scope(self, base: str, scope: Scope, further: Iterable[str]) -> list[str]:
        if scope is Scope.BASE:
            return [base]
        end = f",{base}"
        below = [each for each in (GENERATOR_DN, *further) if base and each.endswith(end)]
        if scope is Scope.ONE_LEVEL:
            depth = len(Dn.parse(base)) + 1
            below = [each for each in below if len(Dn.parse(each)) == depth]
        return [base, *below] if scope is Scope.SUBTREE else below

    def _entry(self, name: str, *, can_start_tls: bool, has_certificate: bool) -> ServerEntry:
        common = _common(name)
        if name == "":
            return ServerEntry("", {"objectClass": (b"top",)}, self._root(can_start_tls, has_certificate))
        if name == SUBSCHEMA_DN:
            user: Attributes = {
                "objectClass": (b"top", b"subentry", b"subschema", b"extensibleObject"),
                "cn": (b"subschema",),
            }
            return ServerEntry(name, user, {**self._subschema, **common, "subtreeSpecification": (b"{}",)})
        if name == CONFIG_DN:
            user = {"objectClass": (b"top", b"extensibleObject"), "cn": (b"config",)}
            return ServerEntry(name, user, common)
        # The source's entry: its state is an attribute that every read shows (CSN-41, CSN-42).
        user = {
            "objectClass": (b"top", b"csnGenerator"),
            "cn": (b"csnGenerator",),
            "csnstate": tuple(each.encode() for each in self._csnstates()),
        }
        return ServerEntry(name, user, common)

    def _root(self, can_start_tls: bool, has_certificate: bool) -> Attributes:
        # StartTLS cannot be done twice, and EXTERNAL needs a certificate.
        extensions = [WHO_AM_I, PASSWORD_MODIFY, CANCEL, *([START_TLS] if can_start_tls else [])]
        found: Attributes = {
            "namingContexts": tuple(each.encode() for each in self._suffixes()),
            "subschemaSubentry": (SUBSCHEMA_DN.encode(),),
            "supportedLDAPVersion": (str(VERSION).encode(),),
            "supportedControl": tuple(each.encode() for each in CONTROLS),
            "supportedExtension": tuple(each.encode() for each in sorted(extensions)),
            "supportedFeatures": tuple(each.encode() for each in FEATURES),
            "supportedSASLMechanisms": (EXTERNAL.encode(),) if has_certificate else (),
            "vendorName": (b"Holdfast",),
            "vendorVersion": (self._version.encode(),),
        }
        return {name: values for name, values in found.items() if values}


class Chosen(Struct, frozen=True):
    """What a client gets of the entries that were found."""

    entries: tuple[bytes, ...]
    result: Result
    controls: tuple[Control, ...] = ()


def chosen(found: dict[str, bytes], size_limit: int, controls: RequestControls) -> Chosen:
    """Heed a search's size limit, of each page, and the controls for pages and order. Raises
    ``DirectoryError``.

    Pages are in the order of names, and each begins after the last name of the one before: nothing is kept
    between two, and entries that go meanwhile, as conflicts that are resolved do, are not missed.
    """
    answers: list[Control] = []
    if controls.sort is not None:
        if SORT_REQUEST in controls.critical and len(found) > 1:
            raise DirectoryError(
                ResultCode.UNAVAILABLE_CRITICAL_EXTENSION, "the server's own entries cannot be sorted"
            )
        code = ResultCode.UNWILLING_TO_PERFORM if len(found) > 1 else ResultCode.SUCCESS
        answers.append(write_sort_result(SortResult(code)))
    names, cookie = list(found), b""
    paged = controls.paged
    if paged is not None and (paged.size or paged.cookie):
        left = sorted(each for each in names if not paged.cookie or each.encode() > paged.cookie)
        names = left[: paged.size]
        if 0 < len(names) < len(left):
            cookie = names[-1].encode()
    result = SUCCESS
    if size_limit and len(names) > size_limit:
        names, cookie = names[:size_limit], b""
        result = Result(ResultCode.SIZE_LIMIT_EXCEEDED, "", "there are more entries")
    if paged is not None:
        answers.append(write_paged_results(PagedResults(0, cookie)))
    return Chosen(tuple(found[each] for each in names), result, tuple(answers))


def _common(name: str) -> Attributes:
    return {"entryDN": (name.encode(),), "subschemaSubentry": (SUBSCHEMA_DN.encode(),)}
