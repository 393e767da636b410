"""How a domain is shown: what clients connect to."""

from holdfast.cli.show.domain_table import url_in
from holdfast.model.ids import HostId
from holdfast.node.messages import AuthorityStatus, DomainStatus, HostStatus


def host(name: str, address: str | None, *, alive: bool = True) -> HostStatus:
    return HostStatus(
        id=HostId(name),
        alive=alive,
        incarnation=None,
        pid=None,
        address=address,
        restarts=0,
        uptime_s=1.0,
        state="alive" if alive else "down",
        last_exit=None,
    )


def domain(*hosts: HostStatus) -> DomainStatus:
    authority = AuthorityStatus(
        kind="sqlite", alive=True, pid=None, address="127.0.0.1:1", restarts=0, last_exit=None
    )
    return DomainStatus(domain="shop", hosts=hosts, authority=authority, agent=None)


def test_the_url_names_every_host_that_lives() -> None:
    found = domain(host("a", "127.0.0.1:7"), host("b", "127.0.0.1:8", alive=False), host("c", "127.0.0.1:9"))
    assert url_in(found) == "holdfast://127.0.0.1:7,127.0.0.1:9/shop"


def test_where_no_host_lives_there_is_no_url() -> None:
    assert url_in(domain(host("a", None, alive=False))) == ""
