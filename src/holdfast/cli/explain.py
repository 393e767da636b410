"""`holdfast explain`: why a group is as it is."""

import uvloop

from holdfast.cli.domain import Dir
from holdfast.cli.ordering import give_at
from holdfast.cli.output import Output, print_json, talk
from holdfast.model.orders import ExplainGroup, GroupExplained
from holdfast.node.layout import DIRECTORY_DEFAULT, Layout


def explain(name: str, *, dir: Dir = DIRECTORY_DEFAULT, output: Output = "table") -> int:
    """Say why a member is not in sync, why nobody serves the group, and what the manager waits for.

    Parameters
    ----------
    name
        The group's name.
    output
        `table` for people, `json` for machines.
    """
    found = uvloop.run(give_at(Layout(dir), ExplainGroup(name=name), GroupExplained))
    if output == "json":
        print_json(found)
        return 0
    for line in lines_of(found):
        talk.print(line, markup=False, soft_wrap=True)
    return 0


def lines_of(found: GroupExplained) -> list[str]:
    """For people."""
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
