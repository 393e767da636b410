"""`holdfast shipping status`: which files hosts send each other, and how far they are."""

import asyncio

import uvloop
from cyclopts import App

from holdfast.agent.status_client import ask_host_at
from holdfast.cli.admin import endpoint_at, hosts_at
from holdfast.cli.output import Output, print_json, print_table, talk
from holdfast.cli.where import HERE, Target, Where
from holdfast.model.admin.hosts import HostInfo
from holdfast.model.errors import HoldfastError
from holdfast.model.ids import HostId
from holdfast.net import Address
from holdfast.node.messages import HostReport, ShippingReport
from holdfast.node.services.shipping_service import NAME
from holdfast.shipping.progress import FetchStatus

MIB = 1 << 20

app = App(name="shipping", help="Show the files that hosts send each other.")


@app.command
def status(*, at: Where = HERE, output: Output = "table") -> int:
    """Show what each host offers and fetches, and how far it is.

    Parameters
    ----------
    output
        `table` for people, `json` for machines.
    """
    found = uvloop.run(_reports(at.target))
    if output == "json":
        print_json(found)
        return 0
    print_table(
        ("host", "state", "address", "offers", "sent", "keeps", "fetches", "done", "waiting", ""),
        (_row(each) for each in found),
    )
    for each in found:
        if each.status is not None and each.status.fetching is not None and each.status.fetching.damage:
            talk.print(f"{each.host}: {each.status.fetching.damage}; it is fetched again", soft_wrap=True)
    return 0


async def _reports(target: Target) -> list[ShippingReport]:
    hosts = await hosts_at(target)
    endpoint = endpoint_at(target)

    async def of(host: HostInfo) -> ShippingReport:
        if not host.is_alive:
            return ShippingReport(host=host.host, state="gone")
        try:
            return shipping_in(await ask_host_at(Address.parse(host.address), endpoint))
        except HoldfastError as error:
            return ShippingReport(host=host.host, state="unknown", why=str(error))

    return list(await asyncio.gather(*map(of, hosts)))


def shipping_in(report: HostReport) -> ShippingReport:
    """A host's shipping, as the host itself reports it."""
    host = HostId(report.host)
    service = next((each for each in report.services if each.name == NAME), None)
    if service is None:
        return ShippingReport(host=host, state="does not run")
    address = report.details.get(NAME, "")
    return ShippingReport(
        host=host, state=service.state, why=service.why, address=address, status=report.shipping
    )


def _row(each: ShippingReport) -> tuple[object, ...]:
    found = each.status
    if found is None:
        return (each.host, each.state, each.address or "-", "-", "-", "-", "-", "-", "-", each.why)
    fetching = found.fetching
    return (
        each.host,
        each.state,
        each.address or "-",
        list(found.offered) or "-",
        _mib(found.sent_bytes),
        len(found.counting),
        f"{fetching.subject}: {fetching.phase}" if fetching is not None else "-",
        progress_of(fetching) if fetching is not None else "-",
        found.waiting,
        found.problem or (fetching.problem if fetching is not None else "") or each.why,
    )


def progress_of(fetch: FetchStatus) -> str:
    """How much of a fetch is here, in words: what was found here already counts."""
    here = min(fetch.found_bytes + fetch.received_bytes, fetch.total_bytes)
    percent = 100 if not fetch.total_bytes else 100 * here // fetch.total_bytes
    return f"{percent} % ({_mib(here)} of {_mib(fetch.total_bytes)})"


def _mib(count: int) -> str:
    return f"{count / MIB:.1f} MiB"
