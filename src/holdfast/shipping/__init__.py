"""Shipping: write-once files between hosts, by content.

A `manifest` says which files make up something at one position, with the hash of every chunk. The `offering`
of one host serves chunks; a fetch (`fetch`) of another finds what its `shelf` has already, asks for the
rest within a window and at a `rate`, and checks everything before the manifest counts (W5, W6). The two talk
in `messages` on connections of their own, so that no file ever stands before a group's records in a socket.

These are cores. `service` binds them to sockets and files, and `shipping_thread` runs that beside a host's
loop; `checkout` puts the files of a manifest that counts into a directory, under their own names. What the
files are of, and when an offer may end, is the owner's.
"""
