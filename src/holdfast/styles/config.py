"""The settings of how a group executes."""

from msgspec import Struct

from holdfast.model.ids import MILLISECOND, SECOND
from holdfast.model.validation import Problem, below


class StyleConfig(Struct, frozen=True, kw_only=True):
    """The settings of one group. Members may safely have different ones."""

    checkpoint_interval_ns: int = 60 * SECOND
    """CheckpointInterval (FTC-306): the time between two checkpoints of a group in which something happened.
    Shorter: less to replay after a restart and a shorter log, but more captures."""
    checkpoint_bytes: int = 16 * 1024 * 1024
    """A checkpoint is also due when the records since the last one have this many bytes. Two checkpoints are
    kept, and the log back to the older one, so the log holds up to three times as much."""
    checkpoint_bytes_least: int = 1024 * 1024
    """A checkpoint is also due when the records have this many bytes and several times the size of the state.
    Smaller: a restarted host has less to replay before it can take over, but small states are written more
    often."""
    long_log_bytes: int = 64 * 1024 * 1024
    """A log of this length makes the next checkpoint due at once: after a restart it can be pruned only after
    two checkpoints of the new process."""
    log_bytes_max: int = 80 * 1024 * 1024
    """A primary with a longer log refuses calls as Overloaded (D4). This is below the limit for the log of a
    group by more than two ``checkpoint_bytes``: what was ordered, and the records that lead to checkpoints,
    must fit on every member, or nothing ever commits again."""
    scan_bytes: int = 4 * 1024 * 1024
    """A passive backup also looks for states and updates when its log has grown by this much."""
    replay_budget_ns: int = 50 * MILLISECOND
    """The execution time that a warm backup may be behind (E5), which is about what a failover adds. The
    backup looks for steps of the primary this often while anything is committed."""
    record_bytes: int = 512 * 1024
    """The size of the calls and outcomes in one record, unless a single call is longer; more are split into
    several records. Also the limit of an update: instead of a longer one, warm backups replay."""
    sent_state_bytes_max: int = 64 * 1024
    """A state up to this size is sent whole to warm backups; for a larger one they replay instead."""
    inline_state_bytes_max: int = 256 * 1024
    """A state up to this size is captured and read back between two calls, which takes some milliseconds; a
    larger one is captured in a copy of the process. Smaller: more copies, each of which copies the host's
    page tables."""
    inline_capture_ns_max: int = 10 * MILLISECOND
    """A state whose capture took longer than this is left to copies for a while, however small it is."""
    copy_retry_ns: int = 1 * SECOND
    """The pause after a failed copy, doubled each time; also the pause after an object had no state
    available."""
    copy_retry_most_ns: int = 60 * SECOND
    """The longest that this pause becomes."""
    object_retry_ns: int = 1 * SECOND
    """A primary whose object could not be made hands its group over at once. If it gets the group back, it
    waits this long before it hands over again, doubled each time. Shorter: views change more often while no
    member can make the object."""
    object_retry_most_ns: int = 10 * SECOND
    """The longest that this pause becomes."""
    slice_ns: int = 5 * MILLISECOND
    """Loading and replaying pause after this time for other work of the host. Longer: an object is ready
    sooner, but calls of other groups wait longer."""
    uncommitted_max: int = 50_000
    """How many positions a passive primary executes ahead of what is committed. Below the sequence's own
    limit, so that nothing is executed that cannot be ordered."""
    in_line_max: int = 10_000
    """How many calls may be queued behind a call that waits for another group; more are refused as
    Overloaded. They are in every checkpoint."""
    keyed_bytes_max: int = 256 * 1024 * 1024
    """How much is kept for calls under idempotency keys, of all callers together; beyond it new keys are
    refused as Overloaded (X2). More: longer checkpoints, and more memory on every member."""
    keyed_caller_bytes_max: int = 64 * 1024 * 1024
    """The same for one caller, so that one alone does not keep the others out."""
    gate_ns: int = 10 * SECOND
    """How long interleaved operations do not start while a checkpoint waits for the object to be at rest.
    Shorter: a group that calls slow ones captures no state, and its log grows until calls are refused
    (E12)."""
    gate_pause_ns: int = 30 * SECOND
    """The pause before the gate is closed again after that took too long."""
    gate_again_ns: int = 100 * MILLISECOND
    """The pause before a gate record that could not be ordered is ordered again."""
    query_wait_ns: int = 5 * SECOND
    """How long a query waits if it would see an operation half done and there is no copy of the state before
    it; then it is refused without being executed. Longer: its client learns later that it was refused."""
    slow_ns: int = 100 * MILLISECOND
    """Calls that ran this long, alone or with the others of their frame, leave a line in the host's log,
    because the host did nothing else meanwhile."""
    timers_per_turn_max: int = 100
    """How many timers are ordered in one turn if many fall due, so that calls are not delayed behind them."""
    scan_positions: int = 512
    """A warm backup looks for states and updates whenever this many more positions are committed."""

    def validate(self) -> list[Problem]:
        problems = below(self, 1, self.__struct_fields__)
        if not 3 * self.checkpoint_bytes < self.long_log_bytes < self.log_bytes_max:
            problems.append(("long_log_bytes", "must lie between three checkpoint_bytes and log_bytes_max"))
        if self.sent_state_bytes_max * 2 > self.checkpoint_bytes:
            # Otherwise a state that was sent makes the next one due by itself.
            problems.append(("sent_state_bytes_max", "must be at most half of checkpoint_bytes"))
        return problems
