"""Several suffixes behind one door: whatever has a name in it belongs to one of them."""

from directory_replica import ADMIN, SUFFIX, Master, add
from ldap_session import PASSWORD, ROUNDS, Client, Door

from holdfast.directory.filters.text import parse_filter
from holdfast.directory.operations import (
    Attribute,
    CompareRequest,
    DeleteRequest,
    Modification,
    ModificationKind,
    ModifyDnRequest,
    ModifyRequest,
    Scope,
    SearchRequest,
)
from holdfast.directory.replica.passwords import hashed
from holdfast.directory.results import ResultCode
from holdfast.ldap.controls import PagedResults, write_paged_results
from holdfast.ldap.messages import SearchResultDone, SearchResultEntry

OTHER = "dc=other,dc=org"
OTHER_ADMIN = f"cn=admin,{OTHER}"


class TwoSuffixes(Door):
    """A door with a second suffix, which has an administrator of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.other = Master(number=2, suffix=OTHER)
        self.service.add(self.other.replica)
        self.other.do(add(OTHER, "domain", dc="other", administrator=OTHER_ADMIN))
        secret = hashed(PASSWORD, b"1" * 16, ROUNDS)
        admin = add(OTHER_ADMIN, "organizationalRole", "simpleSecurityObject", cn="admin")
        self.other.do(type(admin)(admin.dn, (*admin.attributes, Attribute("userPassword", (secret,)))))
        self.other.do(add(f"ou=things,{OTHER}", "organizationalUnit", ou="things"))

    def settle(self) -> None:
        for _ in range(10):
            super().settle()
            self.other.store.commit()
        super().settle()


def found(
    client: Client, base: str, filter_: str = "(objectClass=*)", scope: Scope = Scope.SUBTREE
) -> list[str]:
    answers = client.ask(SearchRequest(base, scope, parse_filter(filter_)))
    assert isinstance(answers[-1].operation, SearchResultDone)
    return sorted(each.operation.dn for each in answers if isinstance(each.operation, SearchResultEntry))


def code(client: Client, request: object) -> int:
    return client.result(request).result.code  # type: ignore[arg-type,union-attr]


def values(client: Client, base: str, attribute: str) -> tuple[bytes, ...]:
    answers = client.ask(SearchRequest(base, Scope.BASE, parse_filter("(objectClass=*)"), (attribute,)))
    entry = answers[0].operation
    assert isinstance(entry, SearchResultEntry), answers
    return entry.attributes[0].values if entry.attributes else ()


def test_the_root_names_every_suffix_and_the_generator_has_a_value_for_each() -> None:
    door = TwoSuffixes()
    client = door.client()
    assert values(client, "", "namingContexts") == (SUFFIX.encode(), OTHER.encode())
    client.bind()
    states = values(client, "cn=csnGenerator,cn=config", "csnstate")
    assert [each.partition(b" replica=")[2].decode() for each in states] == [
        f"1 suffix={SUFFIX}",
        f"2 suffix={OTHER}",
    ]


def test_a_search_is_answered_from_the_suffix_that_it_names() -> None:
    door = TwoSuffixes()
    client = door.client()
    for _ in range(2):  # the second time from what was kept
        assert found(client, OTHER) == sorted([OTHER, OTHER_ADMIN, f"ou=things,{OTHER}"])
        assert found(client, SUFFIX) == sorted([SUFFIX, ADMIN, f"ou=people,{SUFFIX}"])
        assert found(client, SUFFIX, "(ou=people)") == [f"ou=people,{SUFFIX}"]
        assert found(client, OTHER, "(ou=people)") == []
        assert found(client, OTHER, "(ou=things)") == [f"ou=things,{OTHER}"]
    assert (
        code(client, SearchRequest("dc=third", Scope.BASE, parse_filter("(a=*)")))
        == ResultCode.NO_SUCH_OBJECT
    )
    compare = CompareRequest(f"ou=things,{OTHER}", "ou", b"things")
    assert code(client, compare) == ResultCode.COMPARE_TRUE


def test_pages_of_two_suffixes_wait_side_by_side() -> None:
    door = TwoSuffixes()
    client = door.client()
    page = write_paged_results(PagedResults(1))
    for base in (SUFFIX, OTHER):
        entry, _ = client.ask(SearchRequest(base, Scope.SUBTREE, parse_filter("(objectClass=*)")), page)
        assert isinstance(entry.operation, SearchResultEntry)
        assert entry.operation.dn == base
    assert (door.service.searches, door.service.pages) == (2, 2)
    client.session.close()
    assert (door.service.searches, door.service.pages) == (0, 0)


def test_who_administers_one_suffix_changes_nothing_in_the_other() -> None:
    door = TwoSuffixes()
    client = door.client()
    assert client.bind(OTHER_ADMIN, PASSWORD).result.code == 0  # type: ignore[union-attr]
    replace = (Modification(ModificationKind.REPLACE, "description", (b"x",)),)
    assert code(client, ModifyRequest(f"ou=things,{OTHER}", replace)) == 0
    assert values(client, f"ou=things,{OTHER}", "description") == (b"x",)
    refused = ResultCode.INSUFFICIENT_ACCESS_RIGHTS
    assert code(client, ModifyRequest(f"ou=people,{SUFFIX}", replace)) == refused
    assert code(client, DeleteRequest(f"ou=people,{SUFFIX}")) == refused


def test_whoever_is_named_in_both_suffixes_administers_both() -> None:
    door = TwoSuffixes()
    client = door.client()
    grant = Modification(ModificationKind.ADD, "administrator", (ADMIN.encode(),))
    door.other.do(ModifyRequest(OTHER, (grant,)))
    client.bind()
    assert code(client, add(f"ou=more,{OTHER}", "organizationalUnit", ou="more")) == 0
    assert len(found(client, "cn=replica,cn=config", "(objectClass=replica)")) == 2


def test_an_entry_is_not_moved_to_another_suffix() -> None:
    door = TwoSuffixes()
    client = door.client()
    grant = Modification(ModificationKind.ADD, "administrator", (ADMIN.encode(),))
    door.other.do(ModifyRequest(OTHER, (grant,)))
    client.bind()
    move = ModifyDnRequest(f"ou=people,{SUFFIX}", "ou=people", True, f"ou=things,{OTHER}")
    assert code(client, move) == ResultCode.AFFECTS_MULTIPLE_DSAS


def test_the_replica_of_each_suffix_is_shown_to_its_administrators() -> None:
    door = TwoSuffixes()
    client = door.client()
    client.bind(OTHER_ADMIN, PASSWORD)
    (own,) = found(client, "cn=config", "(objectClass=replica)")
    assert own == r"cn=dc=other\,dc=org,cn=replica,cn=config"
    assert values(client, own, "replicaSuffix") == (OTHER.encode(),)
    assert found(client, "cn=replica,cn=config", scope=Scope.ONE_LEVEL) == [own]


def test_a_suffix_below_another_has_its_own_entries() -> None:
    """The nearest suffix above a name is meant, as clients of other servers expect."""
    door = Door()
    inner = f"ou=branch,{SUFFIX}"
    branch = Master(number=1, suffix=inner)
    branch.do(add(inner, "organizationalUnit", ou="branch"))
    door.service.add(branch.replica)
    client = door.client()
    assert found(client, inner) == [inner]
    assert inner not in found(client, SUFFIX)
