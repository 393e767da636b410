"""What `holdfast group upgrade` makes of a trial (E7)."""

from holdfast.cli.group.upgrade import why_not
from holdfast.model.admin.upgrades import CodeInfo, UpgradeTried
from holdfast.model.code import UNKNOWN, Code

OLD, NEW, OTHER = (Code(each, each * 32) for each in "123")


def trial(code: Code, refused: str = "") -> UpgradeTried:
    return UpgradeTried(
        code=CodeInfo.of(code), from_code=CodeInfo.of(OLD), position=7, refused=refused, says=()
    )


def test_a_trial_that_failed_gives_its_own_reason() -> None:
    """Only a trial of another code means that somebody edits the class."""
    assert why_not(trial(NEW), NEW, "m:C") == ""
    assert why_not(trial(NEW, "it lacks x"), NEW, "m:C") == "it lacks x"
    assert why_not(trial(UNKNOWN, "it took too long"), NEW, "m:C") == "it took too long"
    assert why_not(trial(OTHER), NEW, "m:C").startswith("m:C is being edited")
