"""Clients on the production core call a group whose primary moves, whose members die and whose links
break."""
