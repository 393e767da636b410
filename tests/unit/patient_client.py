"""The settings of a client that waits for everything."""

from holdfast.calling.config import ClientConfig
from holdfast.model.ids import HOUR

PATIENT = ClientConfig(patience_ns=HOUR, heartbeat_interval_ns=HOUR, heartbeat_timeout_ns=2 * HOUR)
"""A slow machine is no reason to send anything again."""
