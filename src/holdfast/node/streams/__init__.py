"""The streams of a host: `door` is where sources send to, `intake` hands messages to the members of groups,
`bindings` follows which streams there are, `deciders` asks groups that decide about the losses of others,
`message_log` records what comes and gives it back (`log_files`: in a directory), `loss_reports` tells the
notifier of losses, `outputs` serves those who take what groups give out.

What is decided of a datagram is decided in :mod:`holdfast.streams.reception`; what becomes of a message, in
its group's :mod:`holdfast.streams.annex`.
"""
