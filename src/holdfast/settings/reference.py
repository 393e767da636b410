"""The reference page of all settings (`docs/settings.md`) and the annotated example file, of the structs."""

from holdfast.model.errors import InvalidRequest
from holdfast.settings.sections import Section, Setting, sections

WIDTH = 110

MARK = "<!-- All below is made from the structs: `make settings`. -->\n"


def page(written: str) -> str:
    """The reference page: what people wrote above the mark, and the tables of all settings below it."""
    head, mark, _ = written.partition(MARK)
    if not mark:
        raise InvalidRequest(f"the page has no line {MARK.strip()!r}")
    return "\n".join((head + mark, *(_of_section(each) for each in sections())))


def example() -> str:
    """A file with every setting at its default, commented out."""
    lines = [
        "# Settings of a Holdfast domain. All values here are the defaults.",
        "# `holdfast config check` checks this file, `holdfast config apply` lets the hosts have it.",
    ]
    for section in sections():
        lines += ["", f"# {section.about}", f"[{section.name}]"]
        for setting in section.settings:
            lines += ["", *_wrapped(setting.about), f"# {setting.key} = {_written(setting)}"]
    return "\n".join(lines) + "\n"


def _of_section(section: Section) -> str:
    rows = [
        "| setting | default | | meaning |",
        "|---|---|---|---|",
        *(_row(each) for each in section.settings),
    ]
    return "\n".join((f"## [{section.name}]", "", section.about, "", *rows, ""))


def _row(setting: Setting) -> str:
    default = " ".join(setting.kind.shown(setting.default)).strip()
    live = "live" if setting.is_live else ""
    return f"| `{setting.key}` | {default} | {live} | {setting.about.replace('|', '/')} |"


def _written(setting: Setting) -> str:
    """The default as a file would say it."""
    number, unit = setting.kind.shown(setting.default)
    if setting.kind.name in ("number", "flag"):
        return number
    if setting.kind.name == "rate":
        return f'"{number} {unit.removesuffix("/s")}"'
    return f'"{number} {unit}"' if unit else f'"{number}"'


def _wrapped(text: str) -> list[str]:
    lines, line = [], "#"
    for word in text.split():
        if len(line) + 1 + len(word) > WIDTH:
            lines.append(line)
            line = "#"
        line += f" {word}"
    return [*lines, line]
