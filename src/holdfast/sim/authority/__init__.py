"""The parts of scenario `authority`: the embedded authority on a simulated disk, and hosts that live by it.

:mod:`.truth` follows what the authority has committed and holds every revision to the rules of the protocol
(:mod:`.rules`); what clients were told is checked where they are told it (the modules of their activities).
"""
