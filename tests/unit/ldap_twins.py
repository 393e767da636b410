"""Two connections that are told the same: one that answers plain searches at one go, one that never does."""

from directory_replica import ADMIN, SUFFIX, add, person
from ldap_session import Client, Door

from holdfast.directory.filters.text import parse_filter
from holdfast.directory.operations import AddRequest, AliasDereferencing, Attribute, Scope, SearchRequest
from holdfast.directory.replica.access import Identity
from holdfast.ldap.controls import MANAGE_DSA_IT
from holdfast.ldap.encoding import encode
from holdfast.ldap.messages import Control, Message
from holdfast.ldap.quick_search import QuickSearches

PEOPLE = f"ou=people,{SUFFIX}"
SECRETS = f"ou=secrets,{SUFFIX}"


class NeverQuick(QuickSearches):
    """Leaves every search to the usual way."""

    def answer(self, data: bytes, identity: Identity, under_way: dict[int, str]) -> bytes | None:
        return None


class Twins:
    """A door with all that is not plain: a referral, an alias, a hidden subtree, an entry of many."""

    def __init__(self) -> None:
        self.door = Door()
        do = self.door.master.do
        for each in ("ada", "bob", "eve"):
            do(person(each, mail=f"{each}@example.com", title="engineer"))
        do(add(SECRETS, "organizationalUnit", ou="secrets", anonymousRead="FALSE"))
        do(add(f"uid=mole,{SECRETS}", "inetOrgPerson", uid="mole", cn="mole", sn="mole", title="engineer"))
        do(add(f"cn=away,{SUFFIX}", "referral", "extensibleObject", cn="away", ref="ldap://elsewhere/"))
        do(add(f"cn=other,{SUFFIX}", "alias", "extensibleObject", cn="other", aliasedObjectName=PEOPLE))
        photo = Attribute("jpegPhoto", (b"\xff\xd8" + b"x" * 70_000,))
        large = person("large")
        do(AddRequest(large.dn, (*large.attributes, photo)))

    def answers(self, data: bytes, *, is_bound: bool = False) -> tuple[bytes, bytes, int]:
        """What each of the two says to *data*, and how much of that was answered at one go."""
        quick = Counting(self.door.service)
        said = []
        for each in (quick, NeverQuick(self.door.service)):
            client = Client(self.door, quick=each)
            if is_bound:
                self.door.clients.append(client)
                client.bind(ADMIN)
                client.wire.written.clear()
            client.session.receive(data)
            for _ in range(1_000):
                if not client.session.has_work:
                    break
                client.session.work()
            said.append(bytes(client.wire.written))
            client.session.close()
        self.door.clients.clear()
        return said[0], said[1], quick.answered


class Counting(QuickSearches):
    """Says how much it answered."""

    answered = 0

    def answer(self, data: bytes, identity: Identity, under_way: dict[int, str]) -> bytes | None:
        found = super().answer(data, identity, under_way)
        self.answered += found is not None
        return found


def search(
    filter_: str = "(objectClass=*)", base: str = SUFFIX, scope: Scope = Scope.SUBTREE, **rest: object
) -> SearchRequest:
    return SearchRequest(base, scope, parse_filter(filter_), **rest)  # type: ignore[arg-type]


PLAIN = (
    search("(uid=ada)"),
    search("(UID=Ada)", attributes=("cn", "mail")),
    search("(uid=  ADA  )", base=PEOPLE.upper()),
    search("(mail=bob@example.com)", types_only=True),
    search("(uid=nobody)"),
    search("(title=engineer)", attributes=("1.1",)),
    search("(uid=eve)", base=f"uid=eve,{PEOPLE}", attributes=("createTimestamp", "*")),
    search(base=f"uid=ada,{PEOPLE}", scope=Scope.BASE),
    search("(OBJECTCLASS=*)", base=PEOPLE, scope=Scope.BASE, attributes=("*", "entryUUID")),
    search("(uid=ada)", size_limit=1, time_limit_s=300),
)
"""What is answered at one go."""

NOT_PLAIN = (
    search("(uid=ada)", base=f"ou=nowhere,{SUFFIX}"),
    search("(uid=ada)", base="no name"),
    search("(uid=ada)", base="dc=elsewhere"),
    search("(uid=ada)", base=f"cn=away,{SUFFIX}"),
    search(base=f"cn=other,{SUFFIX}", scope=Scope.BASE, dereference=AliasDereferencing.ALWAYS),
    search("(cn=away)"),
    search("(title=engineer)", size_limit=1),
    search("(uid=large)"),
    search("(name=ada)"),
    search("(uid;lang-de=ada)"),
    search("(userPassword=x)"),
    search("(lastModifiedCSN=0)"),
    search("(uid=ada)", scope=Scope.ONE_LEVEL),
    search("(uid=ada)", base=f"uid=ada,{PEOPLE}", scope=Scope.BASE),
    search("(uid=*)", base=PEOPLE),
    search("(&(uid=ada)(sn=ada))"),
    search(base="", scope=Scope.BASE),
    search(base="cn=subschema", scope=Scope.BASE, attributes=("objectClass",)),
    search(base="cn=config", scope=Scope.BASE),
    search(base=PEOPLE, scope=Scope.BASE, attributes=("numSubordinates",)),
    search("(uid=ada)", attributes=("+",)),
    search("(entryUUID=00000000-0000-4000-8000-000000000000)"),
)
"""What takes the usual way."""

HIDDEN = (search(base=SECRETS, scope=Scope.BASE), search("(uid=mole)", base=SECRETS))
"""What strangers take for something that is not there."""

MANAGED = encode(Message(3, search("(uid=ada)"), (Control(MANAGE_DSA_IT, True),)))
EVERYTHING = (
    *(encode(Message(number, each)) for number, each in enumerate((*PLAIN, *NOT_PLAIN, *HIDDEN), start=1)),
    *(encode(Message(number, PLAIN[0])) for number in (0, 127, 128, 70_000, 2**31 - 1)),
    MANAGED,
)
