"""A host that outlived its lease resumes its session, unless a later process has taken its place."""

from holdfast.authority.recipe import InDoubt, Seen
from holdfast.authority.sessions import NoSession, read_session, resume_session
from holdfast.model.ids import HostId
from recipe_bench import Bench

A = HostId("a")


def test_a_living_process_keeps_its_incarnation(bench: Bench) -> None:
    session = bench.session("a")
    bench.end(session)
    lease = bench.lease()
    resumed = bench.run(resume_session(session, lease=lease))
    assert isinstance(resumed, Seen)
    assert (resumed.value, resumed.lease) == (session, lease)
    assert bench.session("a").incarnation == session.incarnation + 1


def test_a_process_that_was_replaced_is_told_so(bench: Bench) -> None:
    """A later process is the host now; the earlier one must not come back beside it (V2)."""
    first = bench.session("a")
    second = bench.session("a")
    assert bench.run(resume_session(first, lease=bench.lease())) == NoSession(A, first.incarnation)
    assert isinstance(bench.run(read_session(A, second.incarnation)), Seen)


def test_a_resumption_in_doubt_is_settled_by_asking_again(bench: Bench) -> None:
    session, lease = bench.session("a"), bench.lease()
    bench.end(session)
    assert isinstance(bench.run(resume_session(session, lease=lease), bench.lose_answer), InDoubt)
    settled = bench.run(resume_session(session, lease=lease))
    assert isinstance(settled, Seen)
    assert settled.lease == lease
