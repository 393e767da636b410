"""What may be ordered of a domain, carried out by whichever host is asked.

`dispatch` hands each request to its handler, after `permissions` has said who may: `groups`, `members`,
`hosts`, `objects`, `properties`, `indexes`, `upgrade`, `recovery`, `explain`. `control_plane` runs this
host's part of the control plane, `proposals` brings a change to whoever coordinates, `reconciler` carries out
what is planned, and `snapshot` is what the host knows of the domain.
"""
