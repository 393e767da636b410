"""Holdfast: fault tolerance for Python services."""

__version__ = "0.1.0"
