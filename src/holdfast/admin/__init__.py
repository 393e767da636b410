"""The orders that clients and operators can give a domain, carried out by whichever host receives them.

`dispatch` passes each order to its handler after `permissions` has checked who may give it: `groups`,
`members`, `places`, `hosts`, `objects`, `properties`, `indexes`, `upgrade`, `recovery`, `explain`.
`control_plane` runs this host's part of the control plane, `proposals` brings a change to the coordinator,
`reconciler` carries out the plan, and `snapshot` is what the host knows of the domain.
"""
