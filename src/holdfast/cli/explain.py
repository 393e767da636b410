"""`holdfast explain` and `holdfast group history`: why a group is in its present state.

The first explains the present; the second shows the group's views, and why each replaced the one before.
"""

from datetime import UTC, datetime

import uvloop

from holdfast.cli.admin import give_at
from holdfast.cli.output import Output, print_json, print_table, talk
from holdfast.cli.where import HERE, Where
from holdfast.model.admin.groups import ExplainGroup, GroupExplained, GroupHistory, GroupInfo, ViewInfo
from holdfast.model.admin.upgrades import CodeChangeInfo
from holdfast.model.ids import SECOND


def explain(name: str, *, at: Where = HERE, output: Output = "table") -> int:
    """Say why a member is not in sync, why nobody serves the group, and what the manager waits for.

    For a suffix, such as dc=example,dc=com, say how the replica is whose files are in --dir: what it has,
    how far its changelog reaches, its clock and its conflicts.

    Parameters
    ----------
    name
        The group's name, or a directory's suffix.
    output
        `table` for people, `json` for machines.
    """
    if "=" in name:
        from holdfast.cli.directory.explaining import explained  # only here is a directory needed

        says = explained(at.dir, name)
        if output == "json":
            print_json({"suffix": name, "says": says})
        for line in () if output == "json" else says:
            talk.print(line, markup=False, soft_wrap=True)
        return 0
    found = uvloop.run(give_at(at.target, ExplainGroup(name=name), GroupExplained))
    if output == "json":
        print_json(found)
        return 0
    for line in lines_of(found):
        talk.print(line, markup=False, soft_wrap=True)
    return 0


def lines_of(found: GroupExplained) -> list[str]:
    """The explanation as lines for people."""
    group = found.group
    serves = f"is served by {group.primary}" if found.is_served else "is not served"
    lines = [f"{group.name} {serves}; in sync: {', '.join(group.in_sync)}; {group.min_in_sync} needed"]
    lines += [*found.group_says, *found.members, *found.code_says, *found.checkpoint_says]
    lines += [f"the manager: {each}" for each in found.manager_says]
    if found.manager_says:
        lines.append(f"the manager runs on {found.manager}" if found.manager else "nobody manages the domain")
    elif len(lines) == 1:
        lines.append("it is as wished for")
    return lines


_WORDS = {
    "created": "the group was created",
    "dead": "{host} died: its agent gave proof, {primary} claimed at once",
    "silent": "{host} was silent past its lease, {primary} claimed",
    "released": "{host} handed over to {primary}",
    "own": "{primary} took up the group of which it was primary last",
    "dropped": "{host} was dropped",
    "added": "{host} has caught up and is in sync",
    "removed": "{host} leaves: the group shall have no member there",
    "restarted": "restarted: all who held its state in memory were gone",
    "recovered": "recovered by force",
}


def print_history(history: GroupHistory) -> None:
    """Print the history as tables for people."""
    print_table(("epoch", "when (UTC)", "primary", "in sync", "why"), (_row(each) for each in history.views))
    if history.code_changes:
        print_code_changes(history)
    if history.poisoned:
        print_poisoned(history)


def print_codes(group: GroupInfo) -> None:
    """Print the group's code, whether or not anybody serves it now, and which hosts have other code."""
    from holdfast.app_code.known_code import code_says  # only here is code read

    if group.code is not None:
        talk.print(f"the code of {group.name} is {group.code.code}", markup=False, soft_wrap=True)
    for line in code_says(group):
        talk.print(line, style="yellow", markup=False, soft_wrap=True)


def print_code_changes(history: GroupHistory) -> None:
    """Print when the group continued with other code."""
    print_table(
        ("when (UTC)", "code"), ((_at(each.at_ns), change_in_words(each)) for each in history.code_changes)
    )


def change_in_words(change: CodeChangeInfo) -> str:
    return f"upgraded {change.from_code} to {change.to_code} at position {change.position}"


def print_poisoned(history: GroupHistory) -> None:
    """Print the calls that are not tried again, and why."""
    print_table(
        ("poisoned call", "when (UTC)", "processes ended", "request"),
        ((each.call, _at(each.at_ns), each.attempts, each.request) for each in history.poisoned),
    )


def print_unkept(history: GroupHistory) -> None:
    """Print the members whose last checkpoint failed, and why; the group serves until the log is full."""
    for each in history.checkpoints_failed:
        said = f"{each.host}: the last checkpoint failed ({_at(each.at_ns)} UTC), because {each.why}"
        talk.print(said, style="red", markup=False, soft_wrap=True)


def in_words(view: ViewInfo) -> str:
    """Why there is this view."""
    words = _WORDS.get(view.why, "nobody wrote down why").format(host=view.host, primary=view.primary)
    if view.why == "dropped" and view.text:
        return f"{words}: {view.text}"
    return f"{words}; {view.text}" if view.text else words


def _row(view: ViewInfo) -> tuple[object, ...]:
    why = [line for line in (in_words(view), steps_in_words(view)) if line]
    return (view.epoch, _at(view.at_ns), view.primary, " ".join(view.in_sync), why)


def _at(at_ns: int) -> str:
    return datetime.fromtimestamp(at_ns / SECOND, UTC).strftime("%H:%M:%S.%f")[:-3] if at_ns else "-"


def steps_in_words(view: ViewInfo) -> str:
    """How long the steps of a claim took; empty if nothing was measured."""
    steps = (("claimed", view.claimed_ms), ("committed", view.committed_ms), ("ready", view.ready_ms))
    taken = ", ".join(f"{step} after {took:.1f} ms" for step, took in steps if took is not None)
    if not view.replayed:
        return taken
    return f"{taken}; {view.replayed} operation{'s' if view.replayed > 1 else ''} replayed"
