"""`holdfast index create | drop | list`: the indexes of a domain, and where their partitions are."""

import uvloop
from cyclopts import App

from holdfast.cli.admin import give_at
from holdfast.cli.output import Output, print_json, print_table, talk
from holdfast.cli.where import HERE, Where
from holdfast.model.admin.domain import (
    PARTITIONS_DEFAULT,
    REPLICAS_OF_PARTITION_DEFAULT,
    CreateIndex,
    DropIndexes,
    IndexList,
    ListIndexes,
)

app = App(name="index", help="Create, drop and list indexes.")


@app.command
def create(
    name: str,
    *on: str,
    bucket: str,
    using: str = "tree",
    language: str = "json-pointer",
    partitions: int = PARTITIONS_DEFAULT,
    replicas: int = REPLICAS_OF_PARTITION_DEFAULT,
    at: Where = HERE,
    output: Output = "table",
) -> int:
    """Create an index, on all hosts or on none.

    Parameters
    ----------
    name
        Its name, unique in the bucket.
    on
        The indexed expressions; none for the primary index of the bucket.
    bucket
        The bucket that it indexes.
    using
        The kind of index.
    language
        The language of the expressions.
    partitions
        The number of partitions.
    replicas
        Replicas of each partition besides its master, each on a host of its own.
    output
        `table` for people, `json` for machines.
    """
    order = CreateIndex(
        name=name,
        bucket=bucket,
        using=using,
        expressions=on,
        language=language,
        partitions=partitions,
        replicas=replicas,
    )
    (made,) = uvloop.run(give_at(at.target, order, IndexList)).indexes
    if output == "json":
        print_json(made)
    else:
        talk.print(f"index {made.id}: {name} of {bucket}, on {', '.join(made.hosts)}", markup=False)
    return 0


@app.command
def drop(*ids: int, at: Where = HERE, output: Output = "table") -> int:
    """Drop indexes: all that are named, or none if one of them does not exist.

    Parameters
    ----------
    ids
        Their numbers, as `holdfast index list` shows them.
    output
        `table` for people, `json` for machines.
    """
    gone = uvloop.run(give_at(at.target, DropIndexes(ids=ids), IndexList))
    if output == "json":
        print_json(gone)
    else:
        talk.print(f"dropped: {', '.join(each.name for each in gone.indexes)}", markup=False)
    return 0


@app.command(name="list")
def list_indexes(*, at: Where = HERE, output: Output = "table") -> int:
    """Show the indexes of the domain.

    Parameters
    ----------
    output
        `table` for people, `json` for machines.
    """
    found = uvloop.run(give_at(at.target, ListIndexes(), IndexList))
    if output == "json":
        print_json(found)
        return 0
    print_table(
        ("id", "bucket", "name", "using", "on", "active", "partitions", "replicas", "hosts"),
        (
            (
                each.id,
                each.bucket,
                each.name,
                each.using,
                ", ".join(each.expressions) or "(primary)",
                "yes" if each.is_active else "no",
                each.partitions,
                each.replicas,
                ", ".join(each.hosts),
            )
            for each in found.indexes
        ),
    )
    return 0
