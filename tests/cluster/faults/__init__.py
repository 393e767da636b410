"""Real faults for real processes.

=============  ==========================================================================================
``disk``       a file system whose power can be cut, whose syncs fail or hang, which fills up and rots
``preload``    one process whose n-th sync or write fails, or which dies at its n-th sync
``signals``    a process that is killed or stopped at any moment, and what it had acknowledged
``machine``    what this machine must offer for each; a test without it is skipped, loudly
=============  ==========================================================================================

The first runs as a process of its own (``disk_process``), told what to do over a socket. When the test ends,
however it ends, that socket closes and the process takes its mount away with it. Machines of one network,
with delay, loss, duplication, reordering and cuts, are :mod:`holdfast.demo.network`, made likewise. What they
promise is itself tested: ``test_fault_*.py``.
"""
