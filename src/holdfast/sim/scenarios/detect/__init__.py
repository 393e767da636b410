"""Detectors under load: healthy hosts are not taken for gone, and sick members are found and get well."""
