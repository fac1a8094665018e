"""What is wrong with one table is its result, and takes nothing from the others."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.verify.live import run
from tests.verify.postgres_feed import PostgresFeed
from waybill.errors import Code, ConfigurationError, DifferenceError
from waybill.verify.newest import FAILED, SKIPPED, VERIFIED, last_results
from waybill.verify.outcomes import check_equal
from waybill.verify.run import VerifyRequest, run_verify

KEY = {"tables": {"*": {"key": ["id"]}}}
TABLES = ("typed_gone", "typed_secret", "typed_wrong", "typed_zoo")


@pytest.fixture
def feeds(postgres, connect, tmp_path: Path) -> Iterator[dict[str, PostgresFeed]]:
    """Tables that are read by a user who may read all but `typed_secret`."""
    made = {name: PostgresFeed(postgres, tmp_path / "in", table=name) for name in TABLES}
    session = made["typed_zoo"].session
    session.execute("CREATE ROLE reader LOGIN PASSWORD 'reader'")
    for name in TABLES:
        if name != "typed_secret":
            session.execute(f"GRANT SELECT ON {name} TO reader")
    session.commit()
    connect("postgres", postgres, login="reader", password="reader")
    yield made
    for feed in made.values():
        feed.session.rollback()
        feed.session.execute(f"DROP TABLE IF EXISTS {feed.table}")
        feed.session.commit()
    session.execute("DROP OWNED BY reader")
    session.execute("DROP ROLE reader")
    session.commit()
    for feed in made.values():
        feed.close()


def test_the_others_are_verified_all_the_same(spark, migration, feeds):
    for feed in feeds.values():
        feed.insert(1, 2)
        feed.flush()
    spec = migration("debezium-json", **KEY, verify={"lag": "0s"})
    lake = run(spark, spec, feeds["typed_zoo"])
    gone, wrong, zoo = (feeds[name] for name in ("typed_gone", "typed_wrong", "typed_zoo"))
    gone.session.execute("DROP TABLE typed_gone")
    wrong.session.execute("ALTER TABLE typed_wrong RENAME id TO number")
    for feed in (gone, wrong):
        feed.session.commit()
    results = {result.table.rpartition(".")[2]: result for result in run_verify(spec, lake)}
    assert {name: (r.outcome, r.in_lake, r.undecided) for name, r in results.items()} == {
        "typed_gone": (FAILED, 2, 2),
        "typed_secret": (FAILED, 2, 2),
        "typed_wrong": (FAILED, 2, 2),
        "typed_zoo": (VERIFIED, 2, 0),
    }
    assert "the database has no such table" in results["typed_gone"].sentence
    assert "permission denied for table typed_secret" in results["typed_secret"].sentence
    assert str(Code.DATABASE_REFUSED) in results["typed_secret"].sentence
    assert "the key column id" in results["typed_wrong"].sentence
    with pytest.raises(ConfigurationError, match="3 of 4 tables were not verified") as error:
        check_equal(spec, [*results.values()])
    assert (error.value.exit_code, error.value.code) == (2, Code.DATABASE_TABLE)
    kept = {one["table"].rpartition(".")[2]: one["outcome"] for one in last_results(lake)}
    assert kept == {name: result.outcome for name, result in results.items()}
    # What differs counts for more, and the error names the others as well.
    zoo.update(2, silent=True, title="'x'")
    run_verify(spec, lake)
    found = run_verify(spec, run(spark, spec, zoo))
    with pytest.raises(DifferenceError, match=r"typed_zoo by 1.*3 of 4 tables") as differs:
        check_equal(spec, found)
    assert differs.value.exit_code == 3


def test_an_empty_table_that_the_database_does_not_show_is_skipped(spark, migration, feeds):
    gone = feeds["typed_gone"]
    gone.insert(1, 2)
    gone.truncate()
    spec = migration("debezium-json", **KEY)
    lake = run(spark, spec, gone)
    # PostgreSQL's messages tell of no DROP: the user may as well have lost the right to see it.
    gone.session.execute("DROP TABLE typed_gone")
    gone.session.commit()
    (result,) = run_verify(spec, lake)
    assert (result.outcome, result.in_lake, result.undecided) == (SKIPPED, 0, 0)
    assert "the database has no such table" in result.sentence
    check_equal(spec, [result])


def test_what_was_found_before_a_verification_ended_early_is_kept(spark, migration, feeds):
    for name in ("typed_gone", "typed_zoo"):
        feeds[name].insert(1, 2, 3)
        feeds[name].flush()
    spec = migration("debezium-json", **KEY, verify={"method": "changed"})
    lake = run(spark, spec, feeds["typed_zoo"])

    def end(message: str, *parts: object) -> None:
        if message.startswith("verify: "):
            raise KeyboardInterrupt(parts)

    with pytest.raises(KeyboardInterrupt):
        run_verify(spec, lake, progress=end)
    (kept,) = last_results(lake)
    assert (kept["table"], kept["in_database"]) == ("waybill.public.typed_gone", 3)
    found = [(result.table[-4:], result.method) for result in run_verify(spec, lake)]
    assert found == [("gone", "changed"), ("gone", "counts"), ("_zoo", "full")]


def test_a_table_whose_query_is_cancelled_does_not_keep_others_from_being_verified(
    spark, migration, feeds
):
    for name in ("typed_gone", "typed_zoo"):
        feeds[name].insert(1)
        feeds[name].flush()
    spec = migration("debezium-json", **KEY)
    lake = run(spark, spec, feeds["typed_zoo"])
    session = feeds["typed_gone"].session
    # Whoever reads the table waits for this one, and gives up.
    session.execute("LOCK TABLE typed_gone IN ACCESS EXCLUSIVE MODE")
    other = feeds["typed_zoo"].session
    other.execute("ALTER ROLE reader SET lock_timeout = '200ms'")
    other.commit()
    locked, zoo = run_verify(spec, lake)
    assert locked.outcome == FAILED
    assert "lock timeout" in locked.sentence
    assert (zoo.outcome, zoo.in_database, zoo.differing) == (VERIFIED, 1, 0)


def test_a_batch_that_is_not_there_cannot_be_asked_for(spark, migration, feeds):
    feeds["typed_zoo"].insert(1)
    spec = migration("debezium-json", **KEY)
    lake = run(spark, spec, feeds["typed_zoo"])
    with pytest.raises(ConfigurationError, match="no visible merge of batch never"):
        run_verify(spec, lake, VerifyRequest(as_of="never"))
