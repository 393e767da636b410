"""A fetch gets what is lacking, nothing else, and believes only what it has hashed."""

import re
from typing import Any

import msgspec
import pytest
from shipped_files import CHUNK, CONFIG, Files, Pair, pattern

from holdfast.model.errors import InvalidRequest, Unavailable
from holdfast.model.ids import MICROSECOND, SECOND
from holdfast.shipping.manifest import Contents, FileEntry
from holdfast.shipping.progress import Phase
from holdfast.shipping.shelf import MANIFEST, PART, WANTED, Place, file_name

FILES = {"data.db": pattern(40 * CHUNK + 17), "empty": b"", "log/1": pattern(3 * CHUNK, salt=1)}


@pytest.fixture
def pair() -> Pair:
    return Pair()


def assert_whole(pair: Pair, contents: Contents, files: Files) -> None:
    on_disk = pair.on_disk()
    assert pair.c.shelf.holds(contents.id)
    assert {file.name: on_disk[file_name(file)] for file in contents.files} == files
    assert not [name for name in on_disk if name.endswith((PART, WANTED))]


def received(pair: Pair) -> int:
    return sum(len(each.data) for source in (pair.a, pair.b) for each in source.sent if hasattr(each, "data"))


def test_files_arrive_whole(pair: Pair) -> None:
    contents, _ = pair.offer(FILES)
    fetch = pair.fetch(contents)
    assert pair.c.ended == [None]
    assert_whole(pair, contents, FILES)
    assert (fetch.progress.phase, fetch.progress.received) == (Phase.DONE, contents.bytes)
    assert received(pair) == contents.bytes


def test_what_counts_survives_a_power_cut(pair: Pair) -> None:
    contents, _ = pair.offer(FILES)
    pair.fetch(contents)
    pair.restart(power_cut=True)
    assert_whole(pair, contents, FILES)


def test_a_later_version_is_fetched_in_what_changed(pair: Pair) -> None:
    """Chunks come from older files, at whatever place, and whole files are not even read (W6)."""
    first, _ = pair.offer(FILES)
    pair.fetch(first)
    changed = bytearray(FILES["data.db"])
    changed[5000] ^= 1
    later = {
        "data.db": bytes(changed),
        "moved": FILES["log/1"][CHUNK:],
        "log/2": FILES["log/1"],
        "log/3": pattern(CHUNK, salt=7),
    }
    second, _ = pair.offer(later, 2)
    fetch = pair.fetch(second)
    assert fetch.progress.received == 2 * CHUNK, "the chunk that changed, and log/3"
    assert fetch.progress.found == second.bytes - 2 * CHUNK
    assert pair.c.shelf.holds(first.id)
    assert pair.c.shelf.holds(second.id)
    pair.c.shelf.keep_only([second])
    assert_whole(pair, second, later)
    assert pair.c.shelf.complete() == [second.id]


def test_a_fetch_that_was_overtaken_was_not_for_nothing(pair: Pair) -> None:
    """Under a feed the files change while they are fetched: what is here of the older ones is used (W6)."""
    first, _ = pair.offer(FILES)
    pair.begin(first)
    while received(pair) < first.bytes // 2:
        pair.run(1)
    pair.a.offering.withdraw(first.id)
    pair.run(2000)
    assert isinstance(pair.c.ended[0], Unavailable)
    pair.restart()
    later = FILES | {"data.db": FILES["data.db"] + pattern(CHUNK, salt=4)}
    second, _ = pair.offer(later, 2)
    fetch = pair.fetch(second)
    assert fetch.progress.found > first.bytes // 3
    assert received(pair) <= second.bytes + CONFIG.window_bytes
    pair.c.shelf.keep_only([second])
    assert_whole(pair, second, later)


def test_a_chunk_that_is_there_twice_is_sent_once(pair: Pair) -> None:
    files = {"zeros": bytes(50 * CHUNK), "same": pattern(CHUNK) * 3}
    contents, _ = pair.offer(files)
    pair.fetch(contents)
    assert_whole(pair, contents, files)
    assert received(pair) == 2 * CHUNK


@pytest.mark.parametrize("power_cut", [False, True])
def test_a_restart_goes_on_where_it_was(pair: Pair, power_cut: bool) -> None:
    """Nothing is sent again but what was not synced yet: less than a window (W6)."""
    contents, _ = pair.offer(FILES)
    lives = 0
    while not pair.c.shelf.holds(contents.id):
        pair.begin(contents)
        pair.run(4)
        pair.restart(power_cut=power_cut)
        lives += 1
    assert lives > 2
    assert_whole(pair, contents, FILES)
    assert received(pair) <= contents.bytes + lives * CONFIG.window_bytes
    if not power_cut:
        in_flight = lives * CONFIG.window_bytes // 2
        assert received(pair) <= contents.bytes + in_flight, "what a killed process wrote is found again"


def test_what_an_earlier_process_wrote_is_written_again(pair: Pair) -> None:
    """Its bytes and names may be in memory only, where a failed sync left them (D1)."""
    contents, _ = pair.offer({"f": pattern(4 * CHUNK), "g": b""})
    for turn in range(40):  # what a failed sync has left behind is a matter of chance
        pair.node.disk.wipe()
        pair.restart()
        pair.begin(contents)
        pair.world.run_until(pair.world.now + turn * 50 * MICROSECOND)
        pair.node.disk.failing_syncs = 1
        pair.run(200)
        assert pair.c.failures or pair.c.ended == [None]
        pair.node.disk.failing_syncs = 0
        pair.restart()
        pair.fetch(contents)
        pair.restart(power_cut=True)
        assert_whole(pair, contents, {"f": pattern(4 * CHUNK), "g": b""})


def test_what_counts_after_a_restart_keeps_counting(pair: Pair) -> None:
    """Also if the sync of its name failed: then the name is given again before it counts (D1)."""
    contents, _ = pair.offer({"f": pattern(CHUNK)})
    counted = 0
    for turn in range(40):
        pair.node.disk.wipe()
        pair.restart()
        fetch = pair.begin(contents)
        while fetch.progress.phase is not Phase.NAMING:
            pair.world.run_until(pair.world.now + 10_000)
        pair.world.run_until(pair.world.now + turn * 25 * MICROSECOND)
        pair.node.disk.failing_syncs = 1
        pair.run(200)
        pair.node.disk.failing_syncs = 0
        pair.restart()
        if pair.c.shelf.holds(contents.id):
            pair.restart(power_cut=True)
            assert pair.c.shelf.holds(contents.id)
            counted += 1
    assert counted > 5


def test_a_damaged_chunk_on_the_way_is_fetched_again(pair: Pair) -> None:
    contents, _ = pair.offer(FILES, by=("a", "b"))
    pair.a.garbles = 2
    fetch = pair.fetch(contents, "a", "b")
    assert_whole(pair, contents, FILES)
    assert fetch.progress.damaged == 2
    damage = [fields["damage"] for kind, fields in pair.c.notes if kind == "shipping-damage"]
    assert re.match(r"a chunk from a: data.db at byte \d+: expected \w+, found ", str(damage[0]))


def test_damage_on_the_disk_is_noticed_before_it_counts(pair: Pair) -> None:
    """It is named with file and offset, and fetched again."""
    contents, _ = pair.offer(FILES)
    fetch = pair.begin(contents)
    part = file_name(contents.files[0]) + PART
    while (
        pair.node.disk.durable("shelf", part)[3 * CHUNK : 4 * CHUNK]
        != FILES["data.db"][3 * CHUNK : 4 * CHUNK]
    ):
        pair.run(1)
    pair.damage(part, 3 * CHUNK + 100)
    pair.run(1000)
    assert_whole(pair, contents, FILES)
    assert fetch.progress.damaged == 1
    assert f"a chunk on this disk: data.db at byte {3 * CHUNK}: " in fetch.progress.damage
    assert received(pair) == contents.bytes + CHUNK


def test_what_counts_can_be_checked_and_mended(pair: Pair) -> None:
    """Rot at rest: the manifest stops counting when it is found, and counts again when it is mended."""
    contents, _ = pair.offer(FILES)
    pair.fetch(contents)
    pair.damage(file_name(contents.files[2]), 2 * CHUNK)
    fetch = pair.begin(contents)
    while not fetch.progress.damaged:
        pair.world.run_until(pair.world.now + 10_000)
    assert not pair.c.shelf.holds(contents.id)
    pair.run(1000)
    assert_whole(pair, contents, FILES)
    assert fetch.progress.received == CHUNK


def test_a_source_that_is_damaged_is_left_for_another(pair: Pair) -> None:
    contents, _ = pair.offer(FILES, by=("a",))
    held = pair.a.offering.offers[contents.id].source
    assert hasattr(held, "files")
    held.files["data.db"] = b"?" + FILES["data.db"][1:]
    pair.offer(FILES, by=("b",))
    fetch = pair.fetch(contents, "a", "b")
    assert_whole(pair, contents, FILES)
    assert fetch.progress.damaged == 0, "the source noticed it"
    ((manifest, damage),) = pair.a.damage
    assert (manifest, damage.file, damage.offset) == (contents.id, "data.db", 0)


def test_a_source_is_not_silent_before_it_was_asked(pair: Pair) -> None:
    """A pause may be longer than the silence after which a source is left: the silence begins after it."""
    contents, _ = pair.offer(FILES, by=("b",))
    paused = msgspec.structs.replace(CONFIG, pause_first_ns=2 * CONFIG.silence_ns, pause_most_ns=SECOND)
    pair.fetch(contents, "a", "b", config=paused)
    assert pair.c.ended == [None]
    assert [kind for kind, _ in pair.c.notes].count("shipping-source-left") == 1, "a, which offers nothing"


def count_reads(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> list[Place]:
    """The places of the shelf that are read from now on."""
    reads: list[Place] = []
    read = pair.c.shelf.read

    def counted(place: Place) -> bytes:
        reads.append(place)
        return read(place)

    monkeypatch.setattr(pair.c.shelf, "read", counted)
    return reads


def test_a_later_version_takes_the_place_of_one_that_was_given_up(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    """W5. Only what changed is written and read, in the file that is there; after a restart all of it is read
    and written again."""
    first, _ = pair.offer({"data.db": pattern(40 * CHUNK)})
    pair.fetch(first)
    for position, is_restarted in ((2, False), (3, True)):
        changed = bytearray(pattern((40 + position) * CHUNK))
        changed[5 * CHUNK] ^= position
        later, _ = pair.offer({"data.db": bytes(changed)}, position)
        if is_restarted:
            pair.restart()
        reads = count_reads(pair, monkeypatch)
        fetch = pair.c.begin(later, ("a",), CONFIG, instead_of=first)
        pair.run(10_000)
        assert pair.c.ended[-1] is None
        assert_whole(pair, later, {"data.db": bytes(changed)})
        assert not pair.c.shelf.holds(first.id)
        new = 3 if position == 2 else 2
        assert fetch.progress.received == new * CHUNK
        assert (len(reads) > 40) == is_restarted, reads
        first = later


def test_a_silent_source_is_left_for_another(pair: Pair) -> None:
    contents, _ = pair.offer(FILES, by=("a", "b"))
    pair.a.is_mute = True
    fetch = pair.fetch(contents, "a", "b")
    assert_whole(pair, contents, FILES)
    assert "nothing came from a" in fetch.progress.problem


def test_a_fetch_nobody_serves_is_given_up(pair: Pair) -> None:
    """With the reason; what is here stays for the next one."""
    contents, _ = pair.offer(FILES)
    pair.begin(contents)
    pair.run(5)
    pair.a.offering.withdraw(contents.id)
    pair.run(2000)
    (error,) = pair.c.ended
    assert isinstance(error, Unavailable)
    assert "not offered here" in str(error)
    assert not pair.c.shelf.holds(contents.id)
    before = received(pair)
    assert before > 0
    pair.offer(FILES)
    pair.fetch(contents)
    assert_whole(pair, contents, FILES)
    assert received(pair) == contents.bytes


def test_a_lost_connection_is_not_waited_for(pair: Pair) -> None:
    contents, _ = pair.offer(FILES, by=("a", "b"))
    pair.a.is_mute = True
    fetch = pair.begin(contents, "a", "b")
    pair.run(10)
    fetch.on_lost("a")
    pair.run(60)
    assert fetch.progress.received > 0, "less than the time after which a silent source is left"


def test_the_window_is_kept(pair: Pair) -> None:
    """Both ends hold a window's bytes at most, whatever comes and however slow the disk is (W6)."""
    contents, _ = pair.offer(FILES, by=("a", "b"))
    pair.node.disk.slow_factor = 30
    fetch = pair.begin(contents, "a", "b")
    most = 0
    while not pair.c.ended:
        pair.run(1)
        most = max(most, fetch.held_up_bytes)
    assert 0 < most <= CONFIG.window_bytes


@pytest.mark.parametrize("window_bytes", [1, CHUNK - 1, CHUNK, CHUNK + 40])
def test_the_smallest_window_suffices(pair: Pair, window_bytes: int) -> None:
    """One chunk at a time; also when a small one has left no room for a large one."""
    files = {"a": pattern(30), "b": pattern(3 * CHUNK), "c": pattern(60, salt=1), "d": pattern(CHUNK, salt=2)}
    contents, _ = pair.offer(files)
    pair.fetch(contents, config=msgspec.structs.replace(CONFIG, window_bytes=window_bytes))
    assert_whole(pair, contents, files)


def test_the_rate_is_kept(pair: Pair) -> None:
    contents, _ = pair.offer(FILES)
    rate = contents.bytes // 2
    began = pair.world.now
    pair.begin(contents, config=msgspec.structs.replace(CONFIG, bytes_per_s=rate))
    while not pair.c.ended:
        pair.run(10)
    assert 1.8 * SECOND <= pair.world.now - began <= 2.5 * SECOND


def test_a_source_keeps_its_rate() -> None:
    """And those who ask wait, without asking again."""
    pair = Pair(bytes_per_s=40 * CHUNK)
    contents, _ = pair.offer(FILES)
    began = pair.world.now
    pair.begin(contents)
    while not pair.c.ended:
        pair.run(10)
    assert 0.9 * SECOND <= pair.world.now - began <= 1.5 * SECOND
    assert received(pair) == contents.bytes


def test_a_manifest_that_contradicts_itself_is_refused(pair: Pair) -> None:
    """Its chunks are right, its whole is not: whoever made it made a mistake."""
    contents, _ = pair.offer({"f": pattern(3 * CHUNK)})
    (file,) = contents.files
    wrong = FileEntry(file.name, file.size, bytes(32), file.chunks)
    with pytest.raises(InvalidRequest, match="the digest of 'f' is not that of its chunks"):
        Contents(msgspec.structs.replace(contents.manifest, files=(wrong,)))


def test_a_disk_that_damages_everything_is_given_up(pair: Pair) -> None:
    contents, _ = pair.offer({"f": pattern(2 * CHUNK)})
    handle: Any = pair.c.shelf
    read = handle.read
    handle.read = lambda place: b"?" + read(place)[1:]
    pair.fetch(contents)
    (error,) = pair.c.ended
    assert isinstance(error, Unavailable)
    assert "f at byte 512" in str(error)


def test_a_fetch_without_sources_fails_at_once(pair: Pair) -> None:
    contents, _ = pair.offer(FILES)
    pair.c.begin(contents, (), CONFIG)
    pair.run(100)
    assert isinstance(pair.c.ended[0], InvalidRequest)


def test_a_damaged_manifest_on_the_shelf_does_not_count(pair: Pair) -> None:
    contents, _ = pair.offer(FILES)
    pair.fetch(contents)
    pair.damage(contents.id.hex() + MANIFEST, 30)
    pair.restart()
    assert pair.c.shelf.complete() == []
    assert [kind for kind, _ in pair.c.notes] == ["shipping-manifest-damaged"]
    fetch = pair.fetch(contents)
    assert pair.c.shelf.holds(contents.id)
    assert fetch.progress.received == 0, "its files are whole"


def test_answers_of_other_fetches_change_nothing(pair: Pair) -> None:
    """Late answers, of an earlier manifest or to an earlier question, are no harm."""
    first, _ = pair.offer(FILES)
    pair.fetch(first)
    late = [each for each in pair.a.sent if hasattr(each, "data")]
    later = FILES | {"log/2": pattern(9 * CHUNK, salt=3)}
    second, _ = pair.offer(later, 2)
    fetch = pair.begin(second)
    for _ in range(30):
        for each in late:
            fetch.on_chunk("a", each)
            fetch.on_chunk("a", type(each)(bytes(second.id), each.number, each.data))
        pair.run(1)
    pair.run(2000)
    pair.c.shelf.keep_only([second])
    assert_whole(pair, second, later)
