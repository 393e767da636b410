"""Fault detectors under load: healthy hosts are not suspected, and sick members are found and recover."""
