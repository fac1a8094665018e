"""Rows that depend on other rows or on changes of long ago, found and settled, few on the driver.

Four kinds, all rare:

- a move whose image leaves out columns, which stand in the last row of the old key;
- an older change that arrives under a row whose image was put together from several changes;
- an older change that arrives with a column which the table did not know when the row was written;
- an image that leaves out a column whose default only a statement has named.

The first needs the stored rows and the increment, and the whole history only where a row in
between is gone from the table (a batch boundary between the delete of the old key and the move).
The others always need the history: they start over with every change of the keys concerned. Keys
that no key change touched can do so in Spark, however many they are.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from waybill.errors import Code, ConfigurationError
from waybill.lake.local_rows import local_rows
from waybill.lake.names import literal
from waybill.lake_columns import CHANGE_PLACE
from waybill.merge.exact_casts import misfit
from waybill.merge.position import TRIED
from waybill.merge.row_effects import effects, tombstones
from waybill.merge.rules import Change, Row, Rows, fold, showing
from waybill.merge.spark_rows import Stored, change_of, in_order, row_of, statements, stored_of
from waybill.order import sequence_of

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable, Mapping

    from pyspark.sql import DataFrame

    from waybill.merge.increment import Increment
    from waybill.merge.state import Default, TableState

Place = tuple[str, int, int, int]


def leaves_out(default: Default, image: str = "image") -> str:
    """SQL: an image does not say what a column has that a statement added with a default.

    Args:
        default: of the column.
        image: SQL of the image, or of other JSON that has its columns.
    """
    return f"(NOT array_contains(json_object_keys({image}), {literal(default.column)}))"


@dataclass(frozen=True)
class Resolver:
    """Settles single keys of one table.

    Attributes:
        qualified: the source table.
        state: its columns, defaults and TRUNCATE.
        increment: what the batch brings.
        stored: makes a frame of the table's rows (`multi_change_keys.stored_rows`).
    """

    qualified: str
    state: TableState
    increment: Increment
    stored: Callable[[], DataFrame]

    def complete(self, moves: list[Change]) -> tuple[dict[Place, Stored], list[Change]]:
        """The rows that moves make, with what their images leave out taken from the old keys.

        Also those of the batch that do not fit and of which these rows would show something.
        """
        keys = {key for move in moves for key in (move.key, move.old_key) if key}
        rows = self._stored(keys)
        changes, misfits = self._judged(self._read(self.increment.rows(), keys))
        # A row that rests on several changes starts over where the batch reaches below it.
        above = [
            Change(row.order, "insert" if row.live else "delete", key) for key, row in rows.items()
        ]
        gone = [m for m in moves if self._is_gone(m, rows.get(m.old_key or ""), changes)]
        if gone:
            self._check_whole(gone)
            changes, rows, above = self._history(keys)[0], {}, []
        odd = self._taken_along([*changes, *above], misfits, keys)
        wanted = {move.place for move in moves}
        found = {}
        for change in in_order([*changes, *statements(self.state)]):
            fold(rows, [change], self.state.known_names)
            if change.place in wanted:
                found[change.place] = stored_of(change.key, rows[change.key])
        return found, odd

    def _check_whole(self, moves: list[Change]) -> None:
        """See to it that the log has the rows that moves were made of.

        Raises:
            ConfigurationError: `retention` may have deleted one.
        """
        since = self.increment.lake.changes_since(self.qualified)
        if since is None:
            return
        known = self._read(self._taken_before(), {m.key for m in moves})
        for move in moves:
            if not any(_is_copy(move, one) for one in known):
                raise self._cut_off(move, since)

    def _check_moves(self, rows: Iterable[Row], changes: list[Change]) -> None:
        """See to it that the log has what rows took along when their keys changed.

        Args:
            rows: the rows that start over.
            changes: all changes of their keys, and of those that they came from.

        Raises:
            ConfigurationError: as `_check_whole`.
        """
        lake = self.increment.lake
        sources = {key for row in rows if row.live for key in row.sources or ()}
        cut = lake.cut_below(self.qualified) if sources else None
        if cut is None:
            return
        move = behind_delete(changes, sources, self.state.known_names, cut)
        if move is not None:
            raise self._cut_off(move, lake.changes_since(self.qualified))

    def _cut_off(self, move: Change, since: str | None) -> ConfigurationError:
        message = (
            f"{self.qualified}: the change {'/'.join(map(str, move.place))} gave the row "
            f"{move.old_key} the key {move.key} and leaves out columns, which are in earlier "
            "changes that retention may have deleted (of batches that ended before "
            f"{since}); nothing of this batch was merged: load the table from a dump with "
            "`as_of` under `full:` (docs/migrations.md)"
        )
        return ConfigurationError(message, code=Code.SNAPSHOT_EXPIRED)

    def _taken_before(self) -> DataFrame:
        """The changes of rows that the table has had since before this batch.

        From then on retention has let all changes of rows alone that got another key.
        """
        merges = self.increment.lake.read(self.increment.lake.log("merges"))
        tried = merges.where(F.col("kind").isin(*TRIED) & (F.col("table") == self.qualified))
        before = self.increment.pairs(self.qualified, before=True)
        return before.join(tried.select(*CHANGE_PLACE), list(CHANGE_PLACE), "left_anti")

    def _taken_along(
        self, taken: list[Change], misfits: list[Change], keys: Container[str]
    ) -> list[Change]:
        """Changes that do not fit and that a move above them would take to the row of another key.

        Args:
            taken: the changes that fit.
            misfits: those of the batch that do not.
            keys: keys of the rows that are made.
        """
        left: dict[str, str] = {}
        for move in taken:
            if move.old_key is not None:
                left[move.old_key] = max(move.order, left.get(move.old_key, ""))
        below = [c for c in misfits if c.old_key is None and c.order < left.get(c.key, "")]
        return showing(taken, below, self.state.known_names, keys) if below else []

    def _is_gone(self, move: Change, row: Row | None, changes: list[Change]) -> bool:
        """Whether the last row of the old key is neither in the table nor in the increment."""
        if row is None:
            return False
        own = [change.order for change in changes if change.key == move.old_key]
        if row.order > move.order or any(order <= row.order for order in own):
            return True
        came = any(
            change.key == move.old_key and change.image is not None and change.order < move.order
            for change in changes
        )
        return not row.live and not came

    def late(self, statements_from: str | None) -> DataFrame:
        """Keys whose stored row rests on several changes and that the batch reaches below.

        Also those above a new default that lack its column: when they were written nobody knew
        that an older value, the default, could show through.

        Args:
            statements_from: lowest order of the batch's new TRUNCATE and default, if there is one.
        """
        stored = self.stored()
        rows = stored.where("sources IS NOT NULL").select("key", "order", "sources")
        other = rows.select(
            "key", "order", F.explode(F.from_json("sources", "array<string>")).alias("source")
        )
        below = rows.select("key", "order", F.col("key").alias("source")).unionByName(other)
        changes = self.increment.rows().where(F.col("qualified") == self.qualified)
        moved = changes.where("old_key IS NOT NULL")
        came = effects(changes).unionByName(tombstones(moved))
        reached = below.alias("b").join(
            came.alias("c"),
            (F.col("b.source") == F.col("c.key")) & (F.col("c.order") < F.col("b.order")),
            "left_semi",
        )
        keys = reached.select("key")
        if statements_from is not None:
            keys = keys.union(rows.where(F.col("order") > statements_from).select("key"))
            for default in self.state.defaults:
                if default.order < statements_from:
                    continue
                above = stored.where(F.col("live") & (F.col("order") > default.order))
                lacking = above.where(leaves_out(default, "names")).select("key")
                self._check_default(default, lacking)
                keys = keys.union(lacking)
        return keys

    def _check_default(self, default: Default, keys: DataFrame) -> None:
        """See to it that the log tells which rows were there when a column was added.

        Raises:
            ConfigurationError: `retention` may have deleted what made them.
        """
        lake = self.increment.lake
        cut = lake.cut_below(self.qualified)
        if cut is None or default.order >= cut or keys.isEmpty():
            return
        message = (
            f"{self.qualified}: the statement that added {default.column} with the default "
            f"{default.text!r} came late, and it is unknown which rows existed by then, because "
            "retention has deleted changes of batches that ended before "
            f"{lake.changes_since(self.qualified)}; nothing of this batch was merged: load the "
            "table from a dump with `as_of` under `full:` (docs/migrations.md)"
        )
        raise ConfigurationError(message, code=Code.SNAPSHOT_EXPIRED)

    def moved_without_default(self, statements_from: str | None) -> DataFrame | None:
        """Keys that the batch moved rows to without a column that has a default.

        The row of the old key may have it from a statement alone, which its images do not show.
        Moves that leave out another column are completed already (`complete`), but a row of the
        old key that stands above a new statement does not have the default yet.

        Args:
            statements_from: as for `late`.
        """
        doubtful = [
            leaves_out(default)
            for default in self.state.defaults
            if default.column not in self.state.names
            or (statements_from is not None and default.order >= statements_from)
        ]
        if not doubtful:
            return None
        changes = self.increment.rows().where(F.col("qualified") == self.qualified)
        return changes.where("old_key IS NOT NULL").where(" OR ".join(doubtful)).select("key")

    def lacking(self, columns: Mapping[str, str]) -> DataFrame:
        """Keys whose stored row may lack a column that an older change of the batch has.

        Args:
            columns: columns that came up late, each with the highest order of a row by then.
        """
        limit = max(columns.values())
        changes = self.increment.rows().where(F.col("qualified") == self.qualified)
        given = F.col("old_key").isNotNull() & (F.col("order") < limit)
        for name, order in columns.items():
            has = F.array_contains(F.json_object_keys("image"), name)
            given = given | ((F.col("order") < order) & has)
        given = given & (F.col("order") > self.state.truncated)
        lowest = changes.where(given).groupBy("key").agg(F.min("order").alias("given"))
        newer = self.stored().join(lowest, "key").where(F.col("order") > F.col("given"))
        lacks = F.lit(False)
        for name in columns:
            lacks = lacks | ~F.array_contains(F.json_object_keys("names"), name)
        found = newer.where(F.col("live") & F.isnull("sources") & lacks).select("key")
        return found.union(self._among(self._moved_from(newer.select("key"), limit)))

    def _moved_from(self, keys: DataFrame, limit: str) -> set[str]:
        """The keys that rows of `keys` had after them, by moves with an order up to `limit`."""
        moves = self.increment.history(self.qualified).where(
            F.col("old_key").isNotNull() & (F.col("order") <= limit)
        )
        found: set[str] = set()
        while True:
            wanted = keys.withColumnRenamed("key", "old_key")
            went = moves.join(wanted, "old_key", "left_semi").select("key").distinct().collect()
            reached = {row.key for row in went} - found
            if not reached:
                return found
            found |= reached
            keys = self._among(reached)

    def moved(self, keys: DataFrame) -> set[str]:
        """Those of keys that a key change of the log touched, on either side."""
        moves = self.increment.history(self.qualified).where("old_key IS NOT NULL")
        ends = moves.select("key").union(moves.select("old_key"))
        return {row.key for row in keys.join(ends, "key", "left_semi").collect()}

    def every_effect(self, keys: DataFrame) -> DataFrame:
        """Every effect on keys that no key change touched."""
        return effects(self.increment.history(self.qualified)).join(keys, "key", "left_semi")

    def came(self, rows: DataFrame) -> DataFrame:
        """Those of rows with a place that the increment brought."""
        places = (
            self.increment.rows().where(F.col("qualified") == self.qualified).select(*CHANGE_PLACE)
        )
        return rows.join(places, list(CHANGE_PLACE), "left_semi")

    def replay(self, keys: set[str]) -> tuple[dict[str, Stored], list[Change]]:
        """The rows of keys as all changes of the log make them.

        Also those of the batch that do not fit and of which these rows would show something.

        Raises:
            ConfigurationError: `retention` may have deleted what one of them came from.
        """
        changes, known = self._history(keys)
        rows = fold({}, [*changes, *statements(self.state)], self.state.known_names)
        self._check_moves([rows[key] for key in keys if key in rows], changes)
        came = self.increment.rows().where("old_key IS NULL AND image IS NOT NULL")
        _, misfits = self._judged(self._read(came, known))
        own = [change for change in misfits if change.key in keys]
        others = [change for change in misfits if change.key not in keys]
        odd = showing(changes, own, self.state.known_names) + self._taken_along(
            changes, others, known
        )
        return {key: stored_of(key, rows[key]) for key in keys if key in rows}, odd

    def orders(self, keys: set[str]) -> dict[str, str]:
        """The orders that the table holds for keys."""
        return {key: row.order for key, row in self._stored(keys).items()}

    def _stored(self, keys: Iterable[str]) -> Rows:
        frame = self.stored().join(self._among(keys), "key", "left_semi")
        found = [Stored(*row) for row in frame.select(*Stored._fields).collect()]
        return {row.key: row_of(row) for row in found}

    def _read(self, rows: DataFrame, keys: Iterable[str]) -> list[Change]:
        """The changes of keys, of either side of a move, that no TRUNCATE took."""
        rows = rows.where(F.col("qualified") == self.qualified)
        wanted = F.broadcast(self._among(keys))
        moved = rows.where("old_key IS NOT NULL").join(
            wanted.withColumnRenamed("key", "old_key"), "old_key", "left_semi"
        )
        frame = rows.join(wanted, "key", "left_semi").unionByName(moved).distinct()
        changes = [change_of(row) for row in frame.collect()]
        return [change for change in changes if change.order > self.state.truncated]

    def _judged(self, changes: list[Change]) -> tuple[list[Change], list[Change]]:
        """Changes that fit the table's columns, and those that do not."""
        fitting: list[Change] = []
        misfits: list[Change] = []
        for change in changes:
            odd = change.image and misfit(change.image, self.state.columns)
            (misfits if odd else fitting).append(change)
        return fitting, misfits

    def _history(self, keys: set[str]) -> tuple[list[Change], frozenset[str]]:
        """Every change of keys and of the keys that their rows came from with columns missing.

        Also all of these keys.
        """
        wanted, known = set(keys), frozenset[str]()
        changes: list[Change] = []
        columns = frozenset(self.state.known_names)
        while wanted - known:
            known = frozenset(wanted)
            changes, _ = self._judged(self._read(self.increment.history(self.qualified), wanted))
            wanted |= {
                change.old_key
                for change in changes
                if change.old_key
                and change.key in known
                and not columns <= (change.image or {}).keys()
            }
        return changes, known

    def _among(self, keys: Iterable[str]) -> DataFrame:
        spark = self.increment.lake.spark
        return local_rows(spark, [(key,) for key in sorted(keys)], "key string")


def behind_delete(
    changes: Iterable[Change], sources: Container[str], columns: Iterable[str], cut: str
) -> Change | None:
    """A move that takes columns along from a row as it was before a DELETE; None if none does.

    `retention` may have expired an INSERT from before the DELETE. It has hidden what older
    changes say of columns that came up since, and now they would show through.

    Args:
        changes: all that are left of the keys.
        sources: the keys that rows rest on which others have now.
        columns: of the table.
        cut: the order up to which changes of the table may be gone.
    """
    known, own = frozenset(columns), defaultdict[str, list[Change]](list)
    moves = []
    for change in in_order(changes):
        for key in {change.key, change.old_key or change.key}:
            own[key].append(change)
        lacks = not known <= (change.image or {}).keys()
        if change.old_key is not None and change.old_key in sources and lacks:
            moves.append((change.old_key, change))
    for old_key, move in moves:
        others = [one for one in own[old_key] if not _is_copy(move, one)]
        if any(one.order <= cut for one in _ends(move, others)):
            return move
    return None


def _ends(move: Change, row: list[Change]) -> list[Change]:
    """By what a row was gone already when it moved, and its DELETEs from after that.

    Args:
        move: the change that gave it another key.
        row: the changes of its old key, from the lowest order to the highest.
    """
    found = [one for one in row if one.order > move.order and one.operation == "delete"]
    for one in reversed([one for one in row if one.order < move.order]):
        if one.operation != "delete" and one.old_key != move.old_key:
            break
        found.append(one)
    return found


def _is_copy(move: Change, other: Change) -> bool:
    """Whether a move is delivered once more, and another one is what came before."""
    if (other.key, other.old_key) != (move.key, move.old_key):
        return False
    number = sequence_of(move.order)
    if number:
        return sequence_of(other.order) == number
    # What has no number is the same change only at the same place.
    return (other.place, other.order) == (move.place, move.order)
