"""Controls and extended operations: what their values mean, and which are refused."""

import pytest

from holdfast.directory.filters.filter import Equality
from holdfast.directory.operations import Attribute
from holdfast.directory.results import DirectoryError, ResultCode
from holdfast.ldap import ber, controls, extended
from holdfast.ldap.controls import (
    NO_CONTROLS,
    PagedResults,
    RequestControls,
    SortKey,
    SortResult,
    read_request_controls,
)
from holdfast.ldap.extended import PasswordModify
from holdfast.ldap.messages import Control, SearchResultEntry


def test_all_known_controls_are_read_back() -> None:
    keys = (SortKey("cn"), SortKey("sn", "caseExactOrderingMatch", is_reverse=True))
    asked = (
        controls.write_paged_results(PagedResults(100, b"cookie"), is_critical=True),
        controls.write_sort_keys(keys),
        Control(controls.MANAGE_DSA_IT, True),
        controls.write_assertion(Equality("cn", b"x")),
        controls.write_attribute_list(controls.PRE_READ, ("cn", "*")),
        controls.write_attribute_list(controls.POST_READ, ()),
    )
    assert read_request_controls(asked) == RequestControls(
        paged=PagedResults(100, b"cookie"),
        sort=keys,
        manage_dsa_it=True,
        assertion=Equality("cn", b"x"),
        pre_read=("cn", "*"),
        post_read=(),
        critical=frozenset({controls.PAGED_RESULTS, controls.MANAGE_DSA_IT, controls.ASSERTION}),
    )


def test_unknown_controls_matter_only_when_they_are_critical() -> None:
    assert read_request_controls(()) is NO_CONTROLS
    assert read_request_controls((Control("1.2.3", False, b"?"),)) == RequestControls()
    with pytest.raises(DirectoryError, match="critical") as caught:
        read_request_controls((Control("1.2.3", True),))
    assert caught.value.result == ResultCode.UNAVAILABLE_CRITICAL_EXTENSION


def test_a_control_that_does_not_fit_the_request_counts_as_unknown() -> None:
    paged = controls.write_paged_results(PagedResults(1))
    assert read_request_controls((paged,), known=()).paged is None
    with pytest.raises(DirectoryError):
        read_request_controls((controls.write_paged_results(PagedResults(1), is_critical=True),), known=())


@pytest.mark.parametrize(
    "wrong",
    [
        (Control(controls.MANAGE_DSA_IT), Control(controls.MANAGE_DSA_IT)),
        (Control(controls.PAGED_RESULTS),),
        (Control(controls.PAGED_RESULTS, False, b"\x30\x00"),),
        (controls.write_paged_results(PagedResults(-1)),),
        (controls.write_paged_results(PagedResults(1, bytes(2000))),),
        (controls.write_sort_keys(()),),
        (controls.write_sort_keys((SortKey("cn"),) * 17),),
        (Control(controls.SORT_REQUEST, False, b"\x30\x02\x04\x00"),),
        (Control(controls.ASSERTION, True, b""),),
        (Control(controls.PRE_READ, False, b"\x04\x00"),),
    ],
)
def test_controls_with_wrong_values_are_refused(wrong: tuple[Control, ...]) -> None:
    with pytest.raises(DirectoryError) as caught:
        read_request_controls(wrong)
    assert caught.value.result == ResultCode.PROTOCOL_ERROR


def test_the_answers_of_sorting_and_reading() -> None:
    for result in (SortResult(0), SortResult(16, "cn")):
        written = controls.write_sort_result(result)
        assert written.value is not None
        assert controls.read_sort_result(written.value) == result
    entry = SearchResultEntry("cn=x", (Attribute("cn", (b"x",)),))
    value = controls.write_entry_read(controls.POST_READ, entry).value
    assert value == bytes.fromhex("6413 0404 636e3d78 300b 3009 0402 636e 3103 0401 78".replace(" ", ""))


@pytest.mark.parametrize(
    "change",
    [
        PasswordModify(),
        PasswordModify("uid=x", b"old", b"new"),
        PasswordModify(new_password=b""),
        PasswordModify(old_password=b"o"),
    ],
)
def test_password_changes_are_read_back_and_do_not_show(change: PasswordModify) -> None:
    request = extended.write_password_modify(change)
    assert request.name == extended.PASSWORD_MODIFY
    assert extended.read_password_modify(request.value) == change
    assert "old" not in repr(change)


def test_wrong_password_changes_and_cancels_are_refused() -> None:
    with pytest.raises(DirectoryError, match="cannot be read"):
        extended.read_password_modify(b"\x30\x00\x00")
    with pytest.raises(DirectoryError, match="1024"):
        extended.read_password_modify(ber.sequence(ber.octets(bytes(1025), 0x82)))
    assert extended.read_cancel(b"\x30\x03\x02\x01\x05") == 5
    with pytest.raises(DirectoryError):
        extended.read_cancel(None)
