"""A domain as people see it: its hosts in a table, how to reach it, what was broken on purpose."""

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from holdfast.node.messages import DomainStatus, HostStatus


def picture(status: DomainStatus) -> RenderableType:
    """The domain as a table, with what else a person may want to know below it."""
    table = Table(
        *("host", "state", "incarnation", "pid", "restarts", "up", "address", "hears", "last exit"),
        title=_title(status),
        title_justify="left",
        title_style="bold",
        box=None,
        pad_edge=False,
        header_style="dim",
    )
    for host in status.hosts:
        table.add_row(*_row(host))
    reached = Text(url_in(status), style="dim", overflow="fold")
    doors = (Text(line, style="dim", overflow="fold") for line in _doors(status))
    said = (*_cuts(status), *_lacking(status), *_unkept(status), *_other_code(status))
    warnings = (Text(line, style="yellow", overflow="fold") for line in said)
    return Group(table, reached, *doors, *warnings)


def _title(status: DomainStatus) -> Text:
    authority = status.authority
    state, why = ("alive", "") if authority.alive else ("DOWN", authority.last_exit or "")
    return Text.assemble(
        f"{status.domain}   authority: {authority.kind} at {authority.address} ",
        (state, "green" if authority.alive else "red"),
        f" ({why})" if why else "",
    )


def _row(host: HostStatus) -> list[str | Text]:
    heard = [peer for peer in host.report.peers if not peer.silent] if host.report else []
    known = len(host.report.peers) if host.report else 0
    return [
        host.id,
        Text(host.state, style="green" if host.alive else "yellow" if host.pid else "red"),
        str(host.incarnation or "-"),
        str(host.pid or "-"),
        str(host.restarts),
        f"{host.uptime_s:.0f} s" if host.uptime_s is not None else "-",
        host.address or "-",
        f"{len(heard)} of {known}",
        host.last_exit or "-",
    ]


def url_in(status: DomainStatus) -> str:
    """What clients connect to; nothing, when no host lives."""
    addresses = ",".join(host.address for host in status.hosts if host.alive and host.address)
    return f"holdfast://{addresses}/{status.domain}" if addresses else ""


def _lacking(status: DomainStatus) -> list[str]:
    """Members without their object, by their hosts' own word."""
    reports = [host.report for host in status.hosts if host.alive and host.report is not None]
    return [
        f"{report.host} has no object of {group}: {why}"
        for report in reports
        for group, why in report.without_object
    ]


def _unkept(status: DomainStatus) -> list[str]:
    """Members whose last checkpoint failed; the same reason of several hosts once."""
    reports = [host.report for host in status.hosts if host.alive and host.report is not None]
    hosts: dict[tuple[str, str], list[str]] = {}
    for report in reports:
        for failed in report.checkpoints_failed:
            hosts.setdefault(failed, []).append(report.host)
    return [
        f"the last checkpoint of {group} failed on {', '.join(where)}: {why}"
        for (group, why), where in hosts.items()
    ]


def _doors(status: DomainStatus) -> list[str]:
    """Where HTTP is spoken; and why not, where it should be."""
    told = [host.report for host in status.hosts if host.alive and host.report is not None]
    open_doors = [f"{each.host} {each.details['http']}" for each in told if "http" in each.details]
    shut = [f"{each.host}: {each.details['http_problem']}" for each in told if "http_problem" in each.details]
    return [*([f"http: {', '.join(open_doors)}"] if open_doors else []), *shut]


def _cuts(status: DomainStatus) -> list[str]:
    """What `holdfast chaos cut` has done, one line for each host that was told."""
    told = [host.report for host in status.hosts if host.report is not None and host.report.deaf_to]
    lines = [f"{each.host} hears nothing of {', '.join(each.deaf_to)}" for each in told]
    return [*lines, "`holdfast chaos heal` mends it"] if lines else []


def _other_code(status: DomainStatus) -> list[str]:
    """Hosts whose classes are others than their groups are served by."""
    told = [host.report for host in status.hosts if host.alive and host.report is not None]
    return [f"{each.host}: {line}" for each in told for line in each.other_code]


def one_line(status: DomainStatus) -> str:
    """The domain in a line, for where no table can be kept up to date."""
    hosts = ", ".join(f"{host.id} {host.state} (incarnation {host.incarnation})" for host in status.hosts)
    return f"authority {'alive' if status.authority.alive else 'DOWN'}; {hosts}"
