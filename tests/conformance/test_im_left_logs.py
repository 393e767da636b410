"""A log that is left beside a newer context undoes nothing (IM-31 to IM-33, T3)."""

from control_stage import AUTHORITY, Sent, Stage

from holdfast.authority.contract import Delete, Txn
from holdfast.authority.wire import Ask
from holdfast.control.coordination.messages import Decided, Same, Whole
from holdfast.sim.engine.options import SECOND


def takes_off_the_list(sent: Sent) -> bool:
    match sent.message:
        case Ask(request=Txn(changes=changes)):
            return any(isinstance(each, Delete) and "members" in each.key for each in changes)
    return False


def test_a_log_that_was_committed_before_the_context_was_copied_is_not_made_the_context() -> None:
    """A replica has logged an update before it was told that it holds the coordinator's context, and has not
    heard how it ended. It is silent for a while, and the next update is made without it; then it gets the
    coordinator's copy. Whatever it does with the log, it holds the copy, as it has declared."""
    stage = Stage.settled("first", "second")
    coordinator, (replica, _) = stage.coordinator, stage.replicas
    is_mute = False

    def watch(sent: Sent) -> bool:
        if is_mute and ((sent.source == replica and sent.target != AUTHORITY) or takes_off_the_list(sent)):
            return False
        return sent.target != replica or not isinstance(sent.message, Same | Whole | Decided)

    stage.network.watch = watch
    stage.restart(replica)
    stage.until(lambda: replica in stage.replicas, "the replica's return")
    third = stage.wish("third")
    stage.until(lambda: third.outcome is not None and stage.archive(replica).log is not None)
    is_mute = True
    stage.run(2 * SECOND + SECOND // 2)
    fourth = stage.wish("fourth")
    stage.until(lambda: fourth.outcome is not None)
    stage.network.watch = lambda sent: True
    held = stage.manager(coordinator).context.cas
    stage.until(lambda: stage.archive(replica).context.cas >= held, "the coordinator's copy")

    def is_past_it() -> bool:
        assert stage.on_disk(replica)[0].cas >= held, "a committed context was undone"
        return stage.on_disk(replica)[0].cas > held

    stage.wish("fifth")
    stage.until(is_past_it, "the next update")
