"""Holdfast: fault tolerance for Python services."""

from holdfast.styles.context import context
from holdfast.styles.interface import query

__version__ = "0.1.0"

__all__ = ["__version__", "context", "query"]
