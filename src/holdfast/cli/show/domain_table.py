"""A domain as a table of its hosts, with how to reach it, what is wrong and what was broken on purpose."""

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from holdfast.agent.status_client import reachable
from holdfast.authority.sessions import LOCATION
from holdfast.model.host_roles import GROUPS
from holdfast.node.door_table import DOORS
from holdfast.node.messages import ROLES, DomainStatus, HostReport, HostStatus


def picture(status: DomainStatus) -> RenderableType:
    """The domain as a table, with further information below it."""
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
    parts = (Text(line, style="dim", overflow="fold") for line in _services(status))
    said = (
        *_cuts(status),
        *_short_of_space(status),
        *_lacking(status),
        *_unkept(status),
        *_other_code(status),
        *_failed_parts(status),
    )
    warnings = (Text(line, style="yellow", overflow="fold") for line in said)
    told = (*([status.not_admitted] if status.not_admitted else []), *status.dangers)
    dangers = (Text(line, style="bold red", overflow="fold") for line in told)
    return Group(table, *_places(status), *_machines(status), reached, *doors, *parts, *warnings, *dangers)


def _places(status: DomainStatus) -> list[Text]:
    """Where hosts are, and what they are for, if anything was said of that."""
    lines = []
    for host in status.hosts:
        details = host.report.details if host.report is not None else {}
        location, roles = details.get(LOCATION, ""), details.get(ROLES, GROUPS)
        if location or roles != GROUPS:
            where = f" at {location}" if location else ""
            lines.append(Text(f"{host.id}{where}: for {roles}", style="dim", overflow="fold"))
    return lines


def _machines(status: DomainStatus) -> list[Text]:
    """The other machines of a domain on several, one line each."""
    lines = []
    for each in status.machines:
        if each.machine == status.machine:
            continue
        live = sum(host.alive for host in each.hosts)
        text = f"{each.machine} at {each.location}: {live} of {len(each.hosts)} hosts live"
        lines.append(Text(text, style="dim" if live == len(each.hosts) else "yellow", overflow="fold"))
    return lines


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
    """The URL that clients connect to; empty if no host is alive."""
    addresses = ",".join(reachable(status))
    return f"holdfast://{addresses}/{status.domain}" if addresses else ""


def _short_of_space(status: DomainStatus) -> list[str]:
    return [
        f"the disk of {report.host} is nearly full, and operations are refused: {report.lacks_space}"
        for report in _reports(status)
        if report.lacks_space
    ]


def _lacking(status: DomainStatus) -> list[str]:
    """Members without their object, as their hosts report."""
    return [
        f"{report.host} has no object of {group}: {why}"
        for report in _reports(status)
        for group, why in report.without_object
    ]


def _unkept(status: DomainStatus) -> list[str]:
    """Members whose last checkpoint failed; a reason shared by several hosts is given once."""
    hosts: dict[tuple[str, str], list[str]] = {}
    for report in _reports(status):
        for failed in report.checkpoints_failed:
            hosts.setdefault(failed, []).append(report.host)
    return [
        f"the last checkpoint of {group} failed on {', '.join(where)}: {why}"
        for (group, why), where in hosts.items()
    ]


def _doors(status: DomainStatus) -> list[str]:
    """The addresses of the doors, one line for each kind, and why one is closed that should be open."""
    lines = []
    for door in DOORS:
        found = [(each.host, each.details) for each in _reports(status)]
        at = [f"{host} {details[door.name]}" for host, details in found if door.name in details]
        lines += [f"{door.name}: {', '.join(at)}"] if at else []
        lines += [f"{host}: {details[door.problem]}" for host, details in found if door.problem in details]
    return lines


def _cuts(status: DomainStatus) -> list[str]:
    """The effects of `holdfast chaos cut`, one line for each host."""
    told = [host.report for host in status.hosts if host.report is not None and host.report.deaf_to]
    lines = [f"{each.host} hears nothing of {', '.join(each.deaf_to)}" for each in told]
    return [*lines, "`holdfast chaos heal` mends it"] if lines else []


def _other_code(status: DomainStatus) -> list[str]:
    """Hosts whose classes differ from the code that serves their groups."""
    return [f"{each.host}: {line}" for each in _reports(status) for line in each.other_code]


def _services(status: DomainStatus) -> list[str]:
    """Which services run where."""
    where: dict[str, list[str]] = {}
    for report in _reports(status):
        for each in report.services:
            if each.state == "runs":
                where.setdefault(each.name, []).append(report.host)
    runs = [f"{name} on {', '.join(hosts)}" for name, hosts in where.items()]
    return [f"services: {'; '.join(runs)}"] if runs else []


def _failed_parts(status: DomainStatus) -> list[str]:
    """Services that do not run where they should, and workers that had to be given up."""
    failed = [
        f"{report.host}: the service {each.name} has failed: {each.why}"
        for report in _reports(status)
        for each in report.services
        if each.state == "failed"
    ]
    ended = [
        f"{report.host}: {report.workers.ended} worker processes ended in the middle of a job, "
        f"{report.workers.refused} jobs were refused"
        for report in _reports(status)
        if report.workers.ended or report.workers.refused
    ]
    return [*failed, *ended]


def _reports(status: DomainStatus) -> list[HostReport]:
    return [host.report for host in status.hosts if host.alive and host.report is not None]


def one_line(status: DomainStatus) -> str:
    """The domain in one line, for outputs that cannot update a table."""
    hosts = ", ".join(f"{host.id} {host.state} (incarnation {host.incarnation})" for host in status.hosts)
    return f"authority {'alive' if status.authority.alive else 'DOWN'}; {hosts}"
