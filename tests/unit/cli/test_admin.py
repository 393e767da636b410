"""What commands ask a person before they change something for good."""

import io

import pytest

from holdfast.cli import domain_state, hosts
from holdfast.cli.output import is_agreed
from holdfast.model.admin.domain import DomainInspected
from holdfast.model.admin.hosts import HostList
from holdfast.model.errors import InvalidRequest
from holdfast.model.ids import HostId, Term


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


HELD = DomainInspected(
    host=HostId("host1"), role="replica", cas=3, committed_cas=3, coordinator=HostId(""), term=Term(1)
)


@pytest.mark.parametrize(("said", "is_yes"), [("y\n", True), ("YES\n", True), ("n\n", False), ("", False)])
def test_all_but_yes_is_no(
    said: str, is_yes: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """This includes the end of the input, by Ctrl-D; and every question says how it can be answered."""
    for ask in (
        lambda: is_agreed("Sure? [y/N] "),
        lambda: hosts._is_agreed("host1"),
        lambda: domain_state._is_agreed(HELD),
    ):
        monkeypatch.setattr("sys.stdin", Terminal(said))
        assert ask() is is_yes
        assert "[y/N]" in capsys.readouterr().err


def test_a_host_that_is_of_the_domain_no_more_is_said_to_be_so() -> None:
    """This happens when it is removed while somebody waits for it to be empty."""
    with pytest.raises(InvalidRequest, match="host1"):
        hosts._of(HostList(hosts=(), manager=HostId("host2")), HostId("host1"))
