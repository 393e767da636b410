"""What a host says of itself: to its agent once a second, and to whoever asks for its status."""

import os
from collections.abc import Callable
from itertools import islice
from typing import Final

from holdfast.admin.fault_injection import PartitionFilter
from holdfast.app_code.known_code import other_code
from holdfast.authority.sessions import Session
from holdfast.groups.host_groups import HostGroups
from holdfast.groups.hosted_group import without_checkpoint, without_object
from holdfast.machine.workers import Workers
from holdfast.model.errors import Unavailable
from holdfast.model.ids import MILLISECOND
from holdfast.node.heartbeat_thread import HeartbeatThread, LoopPulse
from holdfast.node.messages import ROLES, DeathHeard, HostReport, peer_report
from holdfast.node.services.running import HostServices
from holdfast.node.services.shipping_service import NAME, ShippingService
from holdfast.node.session import SessionKeeper
from holdfast.node.store import HostStore
from holdfast.shipping.progress import ShippingStatus

OTHER_CODE_MAX: Final = 5
"""The host reports at most so many groups to its agent whose code differs from its own."""


class HostReporter:
    """Makes the report of one host. It never waits, whatever the disk and the services do."""

    def __init__(
        self,
        session: Session,
        keeper: SessionKeeper,
        store: HostStore,
        groups: HostGroups,
        heartbeat_thread: HeartbeatThread,
        partition: PartitionFilter,
        services: HostServices,
        workers: Workers,
        pulse: LoopPulse,
        *,
        deaths: Callable[[], tuple[DeathHeard, ...]],
    ) -> None:
        self._session = session
        self._keeper = keeper
        self._store = store
        self._groups = groups
        self._heartbeat_thread = heartbeat_thread
        self._partition = partition
        self._services = services
        self._workers = workers
        self._pulse = pulse
        self._deaths = deaths

    def report(self) -> HostReport:
        session, store, hosted = self._session, self._store, self._groups.hosted.values()
        return HostReport(
            host=session.host,
            incarnation=session.incarnation,
            pid=os.getpid(),
            address=session.address,
            store=store.id,
            opening=store.opening,
            log_bytes=store.log_bytes,
            in_session=self._keeper.is_held,
            peers=tuple(peer_report(each) for each in self._heartbeat_thread.heard),
            deaths=self._deaths(),
            deaf_to=self._partition.to,
            without_object=without_object(hosted),
            checkpoints_failed=without_checkpoint(hosted),
            details={**session.details, ROLES: ",".join(session.roles)},
            other_code=self._other_code(),
            loop_late_ms=round(self._pulse.late_p99_ns() / MILLISECOND, 3),
            services=self._services.status,
            workers=self._workers.status,
            shipping=self._shipping(),
            lacks_space=self._groups.space.why(),
        )

    def _shipping(self) -> ShippingStatus | None:
        try:
            found = self._services.running(NAME)
        except Unavailable:
            return None
        return found.thread.latest if isinstance(found, ShippingService) else None

    def _other_code(self) -> tuple[str, ...]:
        records, codes = self._groups.catalog.records, self._keeper.session.codes
        found = islice(other_code(records, codes, self._session.host), OTHER_CODE_MAX)
        return tuple(
            f"the code of {each.name} is {each.code}; here is {codes[each.class_name]}" for each in found
        )
