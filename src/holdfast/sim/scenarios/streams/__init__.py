"""Streams under loss, leader changes and kills: one order, and loss that the application decides about."""
