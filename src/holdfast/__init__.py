"""Holdfast: fault tolerance for Python services."""

from holdfast.client.domain import connect
from holdfast.client.sync import connect_sync
from holdfast.styles.context import context
from holdfast.styles.interface import query

__version__ = "0.1.0"

__all__ = ["__version__", "connect", "connect_sync", "context", "query"]
