"""Single keys of tables once more, from the archive: what a reload of keys decodes and replaces.

The rows of these keys are rebuilt from all changes that the archive has of them. A key that changes
gave the rows of another one, or the other way round, takes that one along
(`waybill.convert.linked_keys`). Such a group of keys is replaced only if that is provably right
(`waybill.convert.keys_brought_again`); otherwise the batch brings nothing of it, and its rows stay.
Statements of the tables (TRUNCATE, DROP, ALTER) are not changes of keys: they stay in the log as
they came, and count as before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple

from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from waybill.batches.kept_keys import KeptKeys
from waybill.convert.brought_again import NAME, QUALIFIED, ambiguous
from waybill.convert.keys_brought_again import (
    GROUP,
    GROUPS_DDL,
    counted_elsewhere,
    grouped,
    halves_alone,
    named,
    not_brought,
    unsettled,
)
from waybill.convert.linked_keys import crossed, groups
from waybill.counting import counted
from waybill.errors import Code, ConfigurationError, MissingColumnError
from waybill.full_load import TOPIC
from waybill.lake.local_rows import local_rows
from waybill.lake.newest_rows import newest_rows
from waybill.lake.replaced_changes import Replaced
from waybill.lake_columns import CHANGES, MESSAGE_PLACE, TABLE_PARTS
from waybill.spark_tasks.counters import Tally
from waybill.spark_tasks.errors import unwrapped
from waybill.spark_tasks.worker_startup import light
from waybill.spec.durations import seconds_of

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

    from waybill.convert.brought_again import MessageSpan
    from waybill.lake import Branch
    from waybill.report import StageReport
    from waybill.spark_tasks.worker_startup import Make
    from waybill.stage_context import StageContext

OTHERS = "of keys that are not reloaded"
"""Why rows of the tables are left out that the archive has beside those of the keys."""

KEYS = "reloaded keys"
"""The detail of a conversion's report that counts the keys of each table by what became of them."""

NO_MESSAGE = "that no message is about"
"""How that detail counts keys that no change has, before the reload or in it."""

MOST = 10_000
"""Keys of a table, with those that are linked to them; of more the whole table is rebuilt."""

_TAKEN = "outcome IN ('ok', 'waiting')"

_NOT_BROUGHT = "a message that they came from is not in the archive, or is not a change of them now"
_ELSEWHERE = "a message that is a change of theirs now was one of another row, which counts"
_CROSSED = "a change of the key links them now with keys that it did not link them with before"
_ALONE = "half of an update of theirs waits for the other half"
_UNSETTLED = "a change of theirs is of a transaction that has not ended, or that was rolled back"
_SEVERAL = "the archive has several different messages at a place that they came from"


class _Linked(NamedTuple):
    """Keys of the tables in groups.

    Attributes:
        numbers: the number of the group of each key, by table.
        asked: how many keys were asked for, by table.
    """

    numbers: Mapping[str, dict[str, int]]
    asked: Mapping[str, int]

    @property
    def keys(self) -> Iterator[tuple[str, str, int]]:
        """Table, key and group of each key."""
        for name, numbers in self.numbers.items():
            for key, number in numbers.items():
                yield name, key, number


class KeysReload:
    """What a batch takes once more of single keys.

    Args:
        context: of the stage.
        branch: of `changes`.
        counting: the rows of `changes` that count, of some.

    Attributes:
        replaced: what counts no more, with a mark for each key that is rebuilt.
        names: the tables of these.
    """

    def __init__(
        self,
        context: StageContext,
        branch: Branch,
        counting: Callable[[DataFrame], DataFrame],
    ) -> None:
        self.context = context
        self.branch = branch
        self.replaced: list[Replaced] = []
        self.names: list[str] = []
        self._counting = counting

    def take(
        self,
        upto: int,
        settle: Callable[[Callable[[], None]], None],
        decode: Callable[[Tally], Make],
        columns: pa.Schema,
        report: StageReport,
        pairs: bool,
    ) -> int:
        """Decode the archive once more, and keep the changes of the keys that are asked for.

        Args:
            upto: as for `waybill.convert.reloading.BatchReload.take`, and so the rest.
            settle: see there.
            decode: see there.
            columns: see there.
            report: gets what became of the keys, and what was left out.
            pairs: see there.

        Returns:
            How many rows came, those that were left out among them.

        Raises:
            ConfigurationError: no key can be rebuilt; says what to do instead.
        """
        context, lake = self.context, self.context.lake
        archive = lake.log("archive")
        assert context.keys is not None, "whole tables are reloaded without it"
        asked = context.keys()
        report.warnings += asked.warnings
        self._check_archive(archive, asked.keys)
        log = lake.read(self.branch.table, self.branch.base)
        log = self._counting(log.where(_TAKEN).where(F.expr(QUALIFIED).isin([*asked.keys])))
        counts = named(log)
        linked = self._linked(counts, asked.keys)
        keys = local_rows(context.spark, linked.keys, GROUPS_DDL)
        old = grouped(counts, keys).persist()
        there = lake.read(archive, upto)
        # A full run brings a message again: one of them is taken, and if they differ, the last.
        every = newest_rows(there, MESSAGE_PLACE, lake.commits(archive)).select(*columns.names)
        found = _ArchivedChanges(every, old, linked)
        context.progress(
            "convert: the archive is decoded again for %s",
            counted(sum(map(len, linked.numbers.values())), "key"),
        )
        settle(lambda: found.decode(decode))
        own = grouped(named(found.rows.where(_TAKEN)), keys).persist()
        stay = self._stay(found, own, (counts, keys, there), linked, pairs, asked.unsettled)
        names = log.select("topic", *TABLE_PARTS).union(found.rows.select("topic", *TABLE_PARTS))
        self._replace(old, names, linked, stay)
        came = self._append(found, linked, stay, report)
        self._tell(linked, stay, old, own, report)
        for frame in (found.rows, own, old):
            frame.unpersist()
        return came

    def _check_archive(self, archive: str, names: Iterable[str]) -> None:
        since = self.context.lake.kept_since(archive)
        if since is not None:
            message = (
                f"the archive no longer has published messages of batches that ended before "
                f"{since}, so no row of {', '.join(sorted(names))} can be rebuilt: load a dump of "
                "the table with `as_of` under `full:`"
            )
            raise ConfigurationError(message, code=Code.OPTION)

    def _linked(self, log: DataFrame, asked: Mapping[str, frozenset[str]]) -> _Linked:
        """The keys that are asked for with those that changes link to them, in groups."""
        numbers: dict[str, dict[str, int]] = {}
        number = 0
        for name, keys in sorted(asked.items()):
            moves = self._moves_of(log.where(F.col(NAME) == name), name, keys)
            numbers[name] = {}
            for group in groups(keys, moves):
                numbers[name] |= dict.fromkeys(group, number)
                number += 1
        return _Linked(numbers, {name: len(keys) for name, keys in asked.items()})

    def _moves_of(
        self, log: DataFrame, name: str, keys: frozenset[str]
    ) -> frozenset[tuple[str, str]]:
        """The changes that gave rows other keys and that some keys are linked by, step by step."""
        moves = log.where("old_key IS NOT NULL").select("key", "old_key").distinct()
        sides = moves.withColumn("side", F.explode(F.array("key", "old_key"))).persist()
        known, new = set[str](), set(keys)
        found = set[tuple[str, str]]()
        while new:
            known |= new
            if len(known) > MOST:
                again = self.context.spec.command("run", "FILE", "--reload", name)
                message = (
                    f"updates of keys link the differing keys of {name} with more than {MOST} "
                    f"others: rebuild the whole table, `{again}`"
                )
                raise ConfigurationError(message, code=Code.OPTION)
            some = local_rows(self.context.spark, [(key,) for key in sorted(new)], "side string")
            rows = sides.join(F.broadcast(some), "side", "left_semi").collect()
            found |= {(row.key, row.old_key) for row in rows}
            new = {key for pair in found for key in pair} - known
        sides.unpersist()
        return frozenset(found)

    def _stay(
        self,
        found: _ArchivedChanges,
        own: DataFrame,
        frames: tuple[DataFrame, DataFrame, DataFrame],
        linked: _Linked,
        pairs: bool,
        transactions: str,
    ) -> dict[int, tuple[str, MessageSpan | None]]:
        """The groups whose rows stay, with why, and the messages that it is about.

        Args:
            found: what was decoded.
            own: the changes of the keys among it.
            frames: all changes of the tables that count, the keys, and the archive.
            linked: the keys.
            pairs: whether updates may come in two halves.
            transactions: see `waybill.stage_context.KeysToReload.unsettled`.
        """
        log, keys, archive = frames
        old, beside = found.old, named(found.rows.where("outcome IN ('refused', 'skipped')"))
        stay: dict[int, tuple[str, MessageSpan | None]] = {}
        moves = found.rows.where(_TAKEN).where("old_key IS NOT NULL")
        for name, key, old_key in (
            moves.select(F.expr(QUALIFIED), "key", "old_key").distinct().collect()
        ):
            for group in crossed(linked.numbers[name], [(key, old_key)]):
                stay[group] = _CROSSED, None
        rule = self.context.spec.halves
        at_once = rule.then == "take" and not seconds_of(rule.longest_wait)
        reasons = [
            (_NOT_BROUGHT, not_brought(old, own, beside)),
            (_ELSEWHERE, counted_elsewhere(own, log, keys)),
            (_UNSETTLED, unsettled(old, own, transactions)),
            (_SEVERAL, ambiguous(old, archive, GROUP)),
        ]
        if pairs:
            reasons.append((_ALONE, halves_alone(old, own, at_once)))
        for why, messages in reasons:
            for group, some in messages.items():
                stay.setdefault(group, (why, some))
        return stay

    def _append(
        self,
        found: _ArchivedChanges,
        linked: _Linked,
        stay: Mapping[int, object],
        report: StageReport,
    ) -> int:
        """Write what comes of the keys that are rebuilt; returns how many rows came in all."""
        spark, rows = self.context.spark, found.rows
        rebuilt = [(name, key) for name, key, group in linked.keys if group not in stay]
        begin = F.broadcast(local_rows(spark, rebuilt, f"{NAME} string, key string"))
        with_name = rows.withColumn(NAME, F.expr(QUALIFIED))
        taken = with_name.where(_TAKEN)
        own = taken.join(begin, [NAME, "key"], "left_semi")
        # What was refused before already is in quarantine.
        places = found.old.join(begin, [NAME, "key"], "left_semi").select(NAME, *MESSAGE_PLACE)
        refused = with_name.where("outcome = 'refused'").join(
            places.distinct(), [NAME, *MESSAGE_PLACE], "left_semi"
        )
        both = own.select(*CHANGES.names).unionByName(refused.select(*CHANGES.names))
        schemas = with_name.where("outcome = 'schema'").join(
            both.select("schema_id").distinct(), "schema_id", "left_semi"
        )
        came = both.count()
        if came:
            self.branch.append(both.unionByName(schemas.select(*CHANGES.names)))
        others: int = found.others + taken.count() - own.count()
        if others:
            report.skipped[OTHERS] = report.skipped.get(OTHERS, 0) + others
        return came + others

    def _replace(
        self, old: DataFrame, names: DataFrame, linked: _Linked, stay: Mapping[int, object]
    ) -> None:
        """Forget what earlier batches brought of the keys that are rebuilt.

        Args:
            old: their changes that count.
            names: how changes name their tables, with the topic of each.
            linked: the keys.
            stay: the groups whose rows stay.

        Raises:
            ConfigurationError: nobody knows what the changes of a table call it.
        """
        batch = self.context.batch
        begin = {(name, key) for name, key, group in linked.keys if group not in stay}
        is_dump = F.coalesce(F.col("topic").startswith(TOPIC), F.lit(True))
        parts = names.select(is_dump, F.expr(QUALIFIED), *TABLE_PARTS).distinct().collect()
        # The name in a dump may be split at other dots; what the table is called, messages say.
        dumps_first = sorted(parts, key=lambda row: (not row[0], str(row)))
        known = {row[1]: (row[2], row[3], row[4]) for row in dumps_first}
        brought = old.select(NAME, *TABLE_PARTS, "batch", "key").distinct().collect()
        self.names = sorted({name for name, _ in begin})
        for name in self.names:
            if name not in known:
                message = (
                    f"neither the log nor the archive has a change of {name} as the migration maps "
                    "it now: take the mapping back, or leave --keys out"
                )
                raise ConfigurationError(message, code=Code.OPTION)
        self.replaced = [Replaced(*known[name], batch, batch, key) for name, key in sorted(begin)]
        self.replaced += [
            Replaced(database, schema, table, earlier, batch, key)
            for name, database, schema, table, earlier, key in sorted(brought, key=str)
            if (name, key) in begin
        ]

    def _tell(
        self,
        linked: _Linked,
        stay: Mapping[int, tuple[str, MessageSpan | None]],
        old: DataFrame,
        own: DataFrame,
        report: StageReport,
    ) -> None:
        """Say what became of the keys."""
        both = old.unionByName(own).select(NAME, F.explode(F.array("key", "old_key")))
        known = {(row[0], row[1]) for row in both.distinct().collect()}
        details = report.details[KEYS] = {}
        for name, numbers in linked.numbers.items():
            staying = [group for group in numbers.values() if group in stay]
            beginning = [key for key, group in numbers.items() if group not in stay]
            unknown = sum((name, key) not in known for key in beginning)
            details[name] = {
                "that differ": linked.asked[name],
                "linked with them": len(numbers) - linked.asked[name],
                "rebuilt": len(beginning) - unknown,
                NO_MESSAGE: unknown,
                "left as they are": len(staying),
            }
            for why in dict.fromkeys(stay[group][0] for group in staying):
                report.warnings.append(self._sentence(name, why, staying, stay))
            if unknown:
                report.warnings.append(
                    f"no message is about {counted(unknown, 'key')} of {name} as the verification "
                    "writes keys: a row that the lake had under such a key is deleted, and one "
                    "that it lacks is not restored; load a dump of the table with `as_of` under "
                    "`full:` if the database has them"
                )
        done = sum(one["rebuilt"] for one in details.values())
        self.context.progress("convert: rebuilding the rows of %s", counted(done, "key"))

    def _sentence(
        self,
        name: str,
        why: str,
        staying: list[int],
        stay: Mapping[int, tuple[str, MessageSpan | None]],
    ) -> str:
        """A sentence on the rows of a table that stay for one reason, without their keys."""
        mine = [group for group in staying if stay[group][0] == why]
        messages = [some for group in {*mine} if (some := stay[group][1]) is not None]
        first = f" (the first at {min(messages, key=lambda m: m.first).place})" if messages else ""
        again = self.context.spec.command("run", "FILE", "--reload", name)
        rows = counted(len(mine), "key keeps its row", "keys keep their rows")
        way_out = f"rebuild the whole table, `{again}`"
        if why == _UNSETTLED:
            way_out = f"reload them again once it has ended, or {way_out}"
        elif why == _SEVERAL:
            way_out = (
                "load a dump of the table with `as_of` under `full:`, or continue under a new "
                "migration name"
            )
        return (
            f"{rows} of {name}, and nothing of them is sent, because {why}{first}: to replace "
            f"them, {way_out}"
        )


class _ArchivedChanges:
    """What the archive has of some keys and of their tables, decoded.

    Args:
        archive: its messages, one for each place.
        old: changes that count of these keys.
        linked: the keys.

    Attributes:
        old: as given.
        rows: rows of `changes`: those of the keys, what tells schemas, and what is refused or left
            out at places that the old changes came from.
        others: how many other rows the tables have.
    """

    def __init__(self, archive: DataFrame, old: DataFrame, linked: _Linked) -> None:
        self.old = old
        self.rows = local_rows(archive.sparkSession, [], from_arrow_schema(CHANGES))
        self.others = 0
        self._archive = archive
        self._keys = {name: frozenset(numbers) for name, numbers in linked.numbers.items()}

    def decode(self, decode: Callable[[Tally], Make]) -> None:
        """Decode it.

        Args:
            decode: makes what decodes, in tasks.

        Raises:
            MissingColumnError: a condition needs the statements of the log.
        """
        spark = self._archive.sparkSession
        tally, counts = Tally(spark.sparkContext), Tally(spark.sparkContext)
        make, keys = decode(tally), self._keys

        def chosen(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            kept = KeptKeys(keys)
            yield from kept.of(make(batches))
            counts.add_of_task(others=kept.others)

        made = self._archive.mapInArrow(light(chosen), from_arrow_schema(CHANGES))
        places = self.old.select(*MESSAGE_PLACE).distinct().withColumn("_was", F.lit(True))
        rows = made.join(places, [*MESSAGE_PLACE], "left")
        rows = rows.where(f"{_TAKEN} OR outcome = 'schema' OR _was").select(*CHANGES.names)
        rows = rows.persist()
        try:
            with unwrapped():
                rows.count()
        except MissingColumnError:
            rows.unpersist()
            raise
        self.rows, self.others = rows, counts.totals["others"]
