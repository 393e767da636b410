"""The metrics that operators alert on, in Prometheus' text form.

They are gathered when asked for, except for those that must be counted as events happen.
"""

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.registry import Collector

from holdfast.faults.backlog import Backlog
from holdfast.groups.hosted_group import HostedGroup
from holdfast.model.errors import Unavailable
from holdfast.model.host_roles import DIRECTORY
from holdfast.model.ids import SECOND
from holdfast.node.gateway import HostContext
from holdfast.node.messages import HostReport
from holdfast.node.services.directory_service import DirectoryService
from holdfast.sequence.role import Role
from holdfast.web.settings import GROUPS_SHOWN_MAX

MEDIA: Final = CONTENT_TYPE_LATEST
LATE_S: Final = (0.001, 0.005, 0.02, 0.1, 0.5, 2.0)
TOOK_S: Final = (0.001, 0.005, 0.02, 0.1, 0.5, 2.0, 10.0, 60.0)


class Metrics:
    """The metrics of one host."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry(auto_describe=False)
        self._late = Histogram(
            "holdfast_loop_late_seconds",
            "By how much the host's loop turned later than it meant to",
            buckets=LATE_S,
            registry=self._registry,
        )
        self._took = Histogram(
            "holdfast_http_seconds",
            "How long requests took, by endpoint",
            ("endpoint",),
            buckets=TOOK_S,
            registry=self._registry,
        )
        self._answered = Counter(
            "holdfast_http_requests",
            "Requests by endpoint and status",
            ("endpoint", "status"),
            registry=self._registry,
        )

        self._failover = Histogram(
            "holdfast_failover_seconds",
            "From the ground for a failover to this host until it had won, had committed, and served",
            ("until",),
            buckets=TOOK_S,
            registry=self._registry,
        )
        self._phase = Histogram(
            "holdfast_failover_phase_seconds",
            "The same one by one: noticed (since the old primary's host was last heard), claimed, committed, "
            "ready, answered (the first call after it)",
            ("phase",),
            buckets=TOOK_S,
            registry=self._registry,
        )
        self._detection = Histogram(
            "holdfast_detection_seconds",
            "How long nothing had been heard of a process that was proven dead, of a host or of a member, "
            "when that was taken for a fault",
            ("of",),
            buckets=TOOK_S,
            registry=self._registry,
        )
        self._wrongly = Counter(
            "holdfast_false_suspicions",
            "Hosts that were suspected and heard again: they live, and may have been paused",
            registry=self._registry,
        )

        self._losses = Counter(
            "holdfast_stream_losses",
            "Losses of streams that were decided, by stream and by what was done first",
            ("stream", "action"),
            registry=self._registry,
        )

    def watch(self, host_context: HostContext) -> None:
        """Include *host_context*, which serves from now on, in what is gathered."""
        self._registry.register(_Host(host_context))
        host_context.listeners.append(self.on_note)

    def on_note(self, kind: str, fields: Mapping[str, object]) -> None:
        """Record the events noted by the host's groups that carry a duration which operators watch."""
        match kind, fields:
            case "failed_over", _:
                self._on_failed_over(fields)
            case "first_answer", {"after_ns": int(after_ns)}:
                self._phase.labels("answered").observe(after_ns / SECOND)
            case "death_proven", {"silent_ns": int(silent_ns)}:
                self._detection.labels("process").observe(silent_ns / SECOND)
            case "heard_again", _:
                self._wrongly.inc()
            case "decided", {"stream": str(stream), "action": str(action)}:
                self._losses.labels(stream, action.partition(" ")[0].partition("(")[0]).inc()
            case "promise_lapsed", {"silent_ns": int(silent_ns)}:
                self._detection.labels("host").observe(silent_ns / SECOND)
            case "member_suspected", {"waited_ns": int(waited_ns), "is_new": True} if waited_ns:
                self._detection.labels("member").observe(waited_ns / SECOND)

    def _on_failed_over(self, fields: Mapping[str, object]) -> None:
        """Record a failover. Its steps count from its cause, a phase from the end of the one before."""
        silent_ns = fields.get("silent_ns")
        if isinstance(silent_ns, int):
            self._phase.labels("noticed").observe(silent_ns / SECOND)
        before_ns = 0
        for until in ("claimed", "committed", "ready"):
            took_ns = fields.get(f"{until}_ns")
            if isinstance(took_ns, int):
                self._failover.labels(until).observe(took_ns / SECOND)
                self._phase.labels(until).observe((took_ns - before_ns) / SECOND)
                before_ns = took_ns

    def on_turn(self, late_ns: int) -> None:
        self._late.observe(late_ns / SECOND)

    def on_answered(self, endpoint: str, status: int, took_s: float) -> None:
        self._answered.labels(endpoint, str(status)).inc()
        self._took.labels(endpoint).observe(took_s)

    def text(self) -> bytes:
        return generate_latest(self._registry)


class _Host(Collector):
    def __init__(self, host_context: HostContext) -> None:
        self._host_context = host_context

    def collect(self) -> Iterator[Metric]:
        yield from self._about_host(self._host_context.report())
        yield from self._about_groups(list(self._host_context.groups.hosted.values()))
        yield from self._about_streams()
        notes = CounterMetricFamily(
            "holdfast_notes",
            "What members have noted: claim, won (a failover to this host), drop, add, halted, "
            "member_suspected, promise_lapsed (a host was suspected), heard_again (wrongly, then), ...",
            labels=("kind",),
        )
        for kind, count in sorted(self._host_context.notes.items()):
            notes.add_metric((kind,), count)
        yield notes
        yield from self._about_faults(self._host_context.reports)
        yield from self._about_directory()

    def _about_directory(self) -> Iterator[Metric]:
        """Of a host that has a replica; times in seconds, as measured."""
        try:
            service = self._host_context.services.running(DIRECTORY)
        except Unavailable:
            return
        if not isinstance(service, DirectoryService):
            return
        clients = service.count_clients()
        yield _gauge("ldap_clients", "Connected to the LDAP door", clients.connections)
        yield _gauge("ldap_searches", "Under way at the LDAP door", clients.searches)
        yield CounterMetricFamily(
            "holdfast_ldap_operations",
            "What LDAP clients have asked since the replica began to serve",
            value=clients.operations,
        )
        named = {
            name: GaugeMetricFamily(f"holdfast_directory_{name}", text, labels=labels)
            for per, labels in ((_PER_SUFFIX, ("suffix",)), (_PER_LINK, ("suffix", "peer")))
            for name, text in per.items()
        }
        for info in service.shown():
            of = (info.suffix,)
            named["serving"].add_metric(of, info.state == "serving")
            named["may_write"].add_metric(of, info.may_write)
            named["pending"].add_metric(of, info.pending)
            named["conflicts"].add_metric(of, info.conflicts)
            named["needs_initialisation"].add_metric(of, len(info.needs_initialisation))
            for link in info.links:
                label = (info.suffix, link.peer)
                named["link_open"].add_metric(label, link.state == "open")
                named["link_refused"].add_metric(label, bool(link.problem) and link.state != "open")
                named["behind_seconds"].add_metric(label, link.behind_ms / 1000)
                for name, measured in (
                    ("lag_p50_seconds", link.lag_p50_ms),
                    ("lag_p99_seconds", link.lag_p99_ms),
                ):
                    if measured is not None:
                        named[name].add_metric(label, measured / 1000)
        yield from named.values()

    def _about_streams(self) -> Iterator[Metric]:
        local = self._host_context.admin_dispatch.streams.local
        if local is None:
            return
        found = local.inspected("", "")
        counts = CounterMetricFamily(
            "holdfast_stream_counts",
            "Messages and datagrams of a stream at this host, by what became of them: messages (received), "
            "delivered, dropped, ignored, recovered, repeated, late, losses, failed (in calls that raised), "
            "or why datagrams were refused",
            labels=("stream", "outcome"),
        )
        delivered = GaugeMetricFamily(
            "holdfast_stream_delivered",
            "The number up to which a stream was delivered or passed over here",
            labels=("stream",),
        )
        for each in found.streams[:GROUPS_SHOWN_MAX]:
            delivered.add_metric((each.name,), each.delivered)
            for outcome, count in sorted(each.counts.items()):
                counts.add_metric((each.name, outcome), count)
        yield from (counts, delivered)
        dropped = "Datagrams of streams that came and found the kernel's buffer full"
        yield CounterMetricFamily("holdfast_stream_kernel_drops", dropped, value=found.kernel_drops)

    def _about_faults(self, reports: Backlog) -> Iterator[Metric]:
        made = CounterMetricFamily(
            "holdfast_fault_reports", "Faults that this host has reported, by kind", labels=("kind",)
        )
        for kind, count in reports.filed.items():
            made.add_metric((kind.value,), count)
        yield made
        dropped = "Reports that were dropped because the notifier did not answer for too long"
        yield CounterMetricFamily("holdfast_fault_reports_dropped", dropped, value=reports.dropped)
        yield _gauge("fault_reports_waiting", "On their way to the fault notifier", len(reports))

    def _about_host(self, report: HostReport) -> Iterator[Metric]:
        info = GaugeMetricFamily("holdfast_host", "This host, always 1", labels=("domain", "host"))
        info.add_metric((self._host_context.domain, report.host), 1)
        yield info
        yield _gauge("incarnation", "Of this process: grows with every start", report.incarnation)
        yield _gauge("in_session", "Whether the authority holds the host's session", report.in_session)
        yield _gauge("log_bytes", "Of the write-ahead log on disk", report.log_bytes)
        yield _gauge("hosts", "In session at the authority", len(self._host_context.groups.catalog.sessions))
        silent = GaugeMetricFamily("holdfast_peer_silent", "Whether a peer is not heard", labels=("peer",))
        for peer in report.peers:
            silent.add_metric((peer.host,), peer.silent)
        yield silent

    def _about_groups(self, hosted: list[HostedGroup]) -> Iterator[Metric]:
        yield _gauge("groups", "With a member here", len(hosted))
        yield _gauge("groups_primary", "Whose primary is here", sum(each.is_primary for each in hosted))
        yield _gauge("groups_ready", "That take calls here", sum(each.is_ready for each in hosted))
        halted = sum(each.member.role is Role.HALTED for each in hosted)
        yield _gauge("groups_halted", "Whose member here has stopped for good", halted)
        without = sum(each.style.fitness().is_without for each in hosted)
        yield _gauge("groups_without_object", "Whose member here holds no object, and cannot serve", without)
        short = sum(each.is_primary and _in_sync(each) < each.record.min_in_sync for each in hosted)
        yield _gauge("groups_short", "Whose primary is here, with fewer in sync than min_in_sync", short)
        named = {name: _per_group(name, text) for name, text in _PER_GROUP.items()}
        for each in islice(hosted, GROUPS_SHOWN_MAX):
            label = (each.record.name,)
            named["epoch"].add_metric(label, each.member.epoch)
            named["in_sync"].add_metric(label, _in_sync(each))
            named["min_in_sync"].add_metric(label, each.record.min_in_sync)
            named["primary"].add_metric(label, each.is_primary)
            named["committed"].add_metric(label, each.member.committed)
            named["checkpoint_failed"].add_metric(label, bool(each.why_no_checkpoint))
            named["without_object"].add_metric(label, each.style.fitness().is_without)
        yield from named.values()


_PER_GROUP: Final = {
    "epoch": "Of the view that the member here knows: grows with every change",
    "in_sync": "Members in sync, in that view",
    "min_in_sync": "Members that must hold an operation before it is acknowledged",
    "primary": "Whether the primary is here",
    "checkpoint_failed": "Whether the last checkpoint here failed: `group show` says why",
    "without_object": "Whether the member here holds no object and cannot serve; `holdfast explain` says why",
    "committed": "The last position of its sequence known here to be final: operations so far",
}


_PER_SUFFIX: Final = {
    "serving": "Whether the replica here serves",
    "may_write": "Whether clients may write at it",
    "pending": "Transactions on their way to its disk",
    "conflicts": "That nobody has resolved",
    "needs_initialisation": (
        "Replicas that lack what is kept nowhere any more: `holdfast directory initialise`"
    ),
}

_PER_LINK: Final = {
    "link_open": "Whether this master replicates with that peer",
    "link_refused": "Whether one of the two refuses the other; `holdfast directory status` says why",
    "lag_p50_seconds": "From a commit here until that peer said that it is on its disk, the median lately",
    "lag_p99_seconds": "The same of the slowest hundredth",
    "behind_seconds": "The age of the oldest change from here that the peer is not known to have",
}


def _gauge(name: str, text: str, value: float) -> Metric:
    return GaugeMetricFamily(f"holdfast_{name}", text, value=value)


def _per_group(name: str, text: str) -> GaugeMetricFamily:
    return GaugeMetricFamily(f"holdfast_group_{name}", text, labels=("group",))


def _in_sync(hosted: HostedGroup) -> int:
    return len(hosted.view.members) if hosted.view is not None else 0
