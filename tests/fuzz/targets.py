"""What is fuzzed: each target takes any bytes, and raises only when Holdfast is wrong.

Run by ``make fuzz`` for as long as one likes, guided by coverage; by ``test_fuzz_corpus.py`` for a moment.
"""

from collections.abc import Callable
from typing import Final

from holdfast.faults.events import InvalidEvent, Location, decode_events, encode_events
from holdfast.faults.filters import InvalidConstraint, evaluate, parse
from holdfast.faults.filters.tokens import CONSTRAINT_MAX
from holdfast.faults.filters.tree import written
from holdfast.faults.reports import FaultKind, FaultReport
from holdfast.model.errors import InvalidRequest
from holdfast.model.ids import Epoch, GroupId, Position
from holdfast.shipping.manifest import Contents, FileEntry, Manifest, decode_manifest, digest_of, file_digest

HERE: Final = Location.parse("hostC/procB", "hostname", "processname")
EVENTS: Final = (
    FaultReport(FaultKind.OBJECT_CRASH, "ftdom0", HERE, "type2", GroupId(1)).to_event(),
    FaultReport(FaultKind.OBJECT_CRASH, "ftdom0", Location.parse("hostC")).to_event(),
    FaultReport(
        FaultKind.HOST_CRASH, "d", HERE, details={"IsProven": True, "Incarnation": 3}, why="it"
    ).to_event(),
)
CONSTRAINTS: Final = (
    "$event_type.domain_name == ‘FT_CORBA’ and $FTDomainId == ‘ftdom0’ and $Location[0].id == ‘hostC’",
    "(not exists $ObjectGroupId or $ObjectGroupId == 'group1') and (not exists $TypeId)",
    '$.header.fixed_header.event_type.type_name != \'x\' or $.filterable_data(TypeId) == "y\\""',
    "1 + 2 * -3.5e2 / $ObjectGroupId - .5 >= $Location._length",
    "'host' ~ $Location[0].id == TRUE and not FALSE",
    r"'it\'s' in $hosts or default $x or exist $.0.1._type_id",
    r"$\and == '\\' and ((((1 < 2) == ($yes))))",
    "$curtime > 1 or $a.(1) == $._d",
    "true = && \0 \x80",
    "$a 'b\n'",
    "",
)


def filters(data: bytes) -> None:
    """Any text is a constraint that is read back as it is written, or refused with a place in it."""
    filter_text(data.decode("utf-8", "surrogateescape"))


def filter_text(text: str) -> None:
    try:
        tree = parse(text)
    except InvalidConstraint as error:
        if not 0 <= error.at <= len(text) or error.shown().count("\n") != 2:
            raise AssertionError(f"the mistake is nowhere in {text!r}") from error
        return
    again = written(tree)
    if len(again) <= CONSTRAINT_MAX:  # it has more spaces and escapes
        assert repr(parse(again)) == repr(tree)
    for event in EVENTS:
        evaluate(tree, event)


def events(data: bytes) -> None:
    """Any bytes are events, which are written and read back as they are, or refused."""
    try:
        found = decode_events(data)
    except InvalidEvent:
        return
    assert repr(decode_events(encode_events(found))) == repr(found)


def manifest_of(names: tuple[str, ...], chunk_bytes: int) -> Manifest:
    chunks = digest_of(b"c") * -(-700 // chunk_bytes)
    files = (FileEntry(name, 700, file_digest(700, chunks), chunks) for name in names)
    return Manifest(
        subject="s", epoch=Epoch(1), position=Position(2), chunk_bytes=chunk_bytes, files=tuple(files)
    )


MANIFESTS: Final = (
    Contents(manifest_of(("data.db", "segments/1"), 512)).encoded,
    Contents(manifest_of(("a",), 65536)).encoded,
    Contents(manifest_of((), 512)).encoded,
)


def manifests(data: bytes) -> None:
    """Any bytes are a manifest whose names lead nowhere else and whose chunks fill its files, or refused."""
    try:
        contents = decode_manifest(data)
    except InvalidRequest:
        return
    for file in contents.manifest.files:
        assert not file.name.startswith("/")
        assert ".." not in file.name.split("/")
    chunks = [contents.chunk(number) for number in range(contents.count)]
    assert sum(chunk.length for chunk in chunks) == contents.bytes
    assert all(0 < chunk.length <= contents.manifest.chunk_bytes for chunk in chunks)
    assert decode_manifest(contents.encoded).id == contents.id


TARGETS: Final[dict[str, tuple[Callable[[bytes], None], tuple[bytes, ...]]]] = {
    "filters": (filters, tuple(each.encode("utf-8", "surrogateescape") for each in CONSTRAINTS)),
    "events": (events, (encode_events(EVENTS), *(encode_events([each]) for each in EVENTS))),
    "manifests": (manifests, MANIFESTS),
}
"""Each with seeds to begin from."""
