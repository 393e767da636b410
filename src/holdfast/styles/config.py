"""What may be set about how a group executes."""

from msgspec import Struct

from holdfast.model.ids import MILLISECOND, SECOND


class StyleConfig(Struct, frozen=True, kw_only=True):
    """One group. Members may differ without harm."""

    checkpoint_interval_ns: int = 60 * SECOND
    """CheckpointInterval (FTC-306): between two checkpoints of a group in which something happened. Shorter:
    less to replay after a restart and a shorter log, more capturing."""
    checkpoint_bytes: int = 16 * 1024 * 1024
    """A checkpoint is also due when the records since the last one are so many bytes. Two are kept, and the
    log back to the older one: it holds up to three times as much."""
    checkpoint_bytes_least: int = 1024 * 1024
    """Also when they are so many bytes and some times as many as the state itself. Smaller: a host that was
    started again has less to replay before it can take over, and small states are written oftener."""
    long_log_bytes: int = 64 * 1024 * 1024
    """A log so long makes the next checkpoint due at once: after a restart only two of the new process let it
    go."""
    log_bytes_max: int = 80 * 1024 * 1024
    """A primary whose log is longer refuses calls as Overloaded (D4). Below what a log takes of one group by
    more than two ``checkpoint_bytes``: what was ordered, and what brings about checkpoints, must find room on
    every member, or nothing ever commits again."""
    scan_bytes: int = 4 * 1024 * 1024
    """A passive backup also looks for states and updates when its log has grown by so much."""
    replay_budget_ns: int = 50 * MILLISECOND
    """A warm backup may lack so much execution time (E5): about what a failover adds. It looks for steps of
    the primary as often, while anything is committed."""
    record_bytes: int = 512 * 1024
    """Of calls and their outcomes in one record, unless a single one is longer: more go as several records.
    And of an update: instead of a longer one, warm backups replay."""
    sent_state_bytes_max: int = 64 * 1024
    """A state up to this size is sent to warm backups whole; beyond, they replay instead."""
    inline_state_bytes_max: int = 256 * 1024
    """A state up to this size is captured and read back between two calls, which it stops for some
    milliseconds; beyond, by a copy of the process. Smaller: more copies, each of which costs the host's page
    tables."""
    inline_capture_ns_max: int = 10 * MILLISECOND
    """One for which that took longer is left to copies for a while, however small it is."""
    copy_retry_ns: int = 1 * SECOND
    """The pause after a copy failed, doubled each time; and after an object had no state to give."""
    copy_retry_most_ns: int = 60 * SECOND
    object_retry_ns: int = 1 * SECOND
    """A primary whose object could not be made hands its group over at once, and if it comes back to it not
    before this; doubled each time. Shorter: views change oftener while no member can make it."""
    object_retry_most_ns: int = 10 * SECOND
    slice_ns: int = 5 * MILLISECOND
    """Loading and replaying pause after so much time, for whatever else the host has to do. Longer: an object
    is ready sooner, and calls of other groups wait longer."""
    uncommitted_max: int = 50_000
    """Positions that a passive primary executes ahead of what is committed. Below the sequence's own bound,
    so that nothing is executed that cannot be ordered."""
    in_line_max: int = 10_000
    """Calls that stand in line behind one that waits for another group; beyond, calls are refused as
    Overloaded. They are in every checkpoint."""
    gate_ns: int = 10 * SECOND
    """How long interleaved operations begin no more while a checkpoint waits for those that wait. Shorter: a
    group that calls slow ones captures no state, and its log grows until calls are refused (E12)."""
    gate_pause_ns: int = 30 * SECOND
    """After which that is tried again."""
    gate_again_ns: int = 100 * MILLISECOND
    """After which what could not be ordered about it is ordered again."""
    query_wait_ns: int = 5 * SECOND
    """How long a query waits that would see half an operation and has no copy of the state before it; then it
    is refused, unexecuted. Longer: its client knows less for longer."""
    slow_ns: int = 100 * MILLISECOND
    """Calls that ran for so long, alone or with those of their frame, leave a line in the host's log: as long
    it did nothing else."""
    timers_per_turn_max: int = 100
    """Timers ordered in one turn when many fall due: calls are not held up behind them."""
    scan_positions: int = 512
    """A warm backup looks for states and updates whenever so many more positions are committed."""

    def validate(self) -> list[str]:
        """Every problem with these values, in words."""
        problems = [
            f"{name} is {getattr(self, name)}; it must be at least 1"
            for name in self.__struct_fields__
            if getattr(self, name) < 1
        ]
        if not 3 * self.checkpoint_bytes < self.long_log_bytes < self.log_bytes_max:
            problems.append("long_log_bytes lies between three checkpoint_bytes and log_bytes_max")
        if self.sent_state_bytes_max * 2 > self.checkpoint_bytes:
            # Else a state that was sent makes the next one due by itself.
            problems.append("sent_state_bytes_max is at most half of checkpoint_bytes")
        return problems
