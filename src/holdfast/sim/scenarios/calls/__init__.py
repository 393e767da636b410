"""Clients on the production core call a group whose primary moves and whose members and links fail."""
