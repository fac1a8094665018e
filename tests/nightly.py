"""Tests that run at night only, as all of them take too long for every change.

Those of `NIGHTLY` show once more, in many seconds of Spark or of a server, what a cheaper test or
another of their cases shows by day. Of files with many tests of one matter (`HALVED`) every other
one runs by day, always the same, drawn by its name. `make test-nightly` runs all, and so does a
phase alone (`make test-spark`): run that of what you have changed.
"""

from __future__ import annotations

from zlib import crc32

import pytest

NIGHTLY: dict[str, tuple[str, ...]] = {
    "tests/consumers/test_debezium.py": ("[customers-", "[notes-"),
    "tests/consumers/test_flink_captures.py": ("-customers]", "-notes]"),
    "tests/consumers/test_postgresql.py": ("[orders-", "[customers-debezium"),
    "tests/e2e/test_demo_dags.py": ("",),
    "tests/kafka/test_publish.py": (
        "publishers_that_take_over_from_each_other_again_and_again",
        "a_broker_that_is_away_for_a_while",
    ),
    "tests/kafka/test_publish_killed.py": ("a_batch_killed_and_followed_by_the_next",),
    "tests/kafka/test_reader.py": ("a_broker_that_restarts_in_mid_read",),
    "tests/kafka/test_snapshot.py": ("another_kind_of_source", "an_archive_from_before"),
    "tests/kafka/test_verify_published.py": ("sent_to_it[False]",),
    "tests/killed/test_campaign.py": ("",),
    "tests/killed/test_kill.py": ("followed_by_another[changes:append:after]",),
    "tests/spark/merge/test_dropped_merges.py": ("decimal(10,4)", "a_column_that_was_widened"),
    "tests/spark/merge/test_held_tables.py": (
        "what_waited_is_merged_by_its_own_size[False]",
        "the_same_tables_with_and_without_a_wait",
        "tombstones_outlast_a_wait",
    ),
    "tests/spark/merge/test_kept_aside.py": (
        "[90d]",
        "[None]",
        "no_tombstone[False]",
        "looked_at_again[False]",
        "that_are_gone[True]",
    ),
    "tests/spark/merge/test_late_columns.py": ("knew[10]", "own_batch[int8"),
    "tests/spark/merge/test_merge_bags.py": ("replay[anew-twice]", "replay[plain-once]"),
    "tests/spark/merge/test_merge_histories.py": ("where_columns_get_other_names",),
    "tests/spark/merge/test_merge_order.py": ("[drop", "source_time_may_be_set_later"),
    "tests/spark/merge/test_merge_stage.py": (
        "many_rows[False]",
        "one_transaction[batches1]",
        "one_transaction[batches2]",
        "left_behind_is_done_again",
    ),
    "tests/spark/merge/test_merge_transaction_histories.py": ("",),
    "tests/spark/merge/test_merge_transactions.py": (
        "a_begin_that_is_mended",
        "however_late_they_come_again",
        "stays_when_rows_start_anew",
        "forgets_no_transaction",
    ),
    "tests/spark/merge/test_rebuilt_keys.py": ("are_what_their_changes_make_of_them",),
    "tests/spark/merge/test_renames.py": (
        "back_again_and_in_turn",
        "full_rows_that_came_before_a_swap",
        "the_name_of_a_dropped_column",
        "upkeep_may_expire",
        "another_name_and_type",
    ),
    "tests/spark/merge/test_rewrites.py": (
        "a_change_of_another_program",
        "two_rewrites_in_one_batch",
        "a_table_without_key_and_a_reload",
    ),
    "tests/spark/merge/test_split_updates.py": ("",),
    "tests/spark/merge/test_statements_without_ids.py": (
        "come_back[drop]",
        "go_on[False]",
        "made_again_with_another_key",
        "older_than_a_new_column",
    ),
    "tests/spark/merge/test_unseen_defaults.py": (
        "changes[before]",
        "changes[after]",
        "default[two]",
        "default[four]",
        "changes[rows-last]",
    ),
    "tests/spark/merge/test_wide_tables.py": ("[3]",),
    "tests/spark/test_bootstrap.py": (
        "readers_of_every_format",
        "[b2]",
        "[partition]",
        "[debezium_mysql]",
        "[maxwell]",
        "targets_that_begin_once_again",
        "a_target_waits_while_the_gate_holds",
        "begins_with_each_of_its_rows",
    ),
    "tests/spark/test_captures.py": ("[debezium-mariadb",),
    "tests/spark/test_cli_commands.py": ("[spark]",),
    "tests/spark/test_convert.py": (
        "cursors_that_stand_at_a_compaction",
        "halves_put_aside",
        "two_tables[b1]",
        "two_updates_under_one_id",
    ),
    "tests/spark/test_data_files.py": ("noticed[False]", "makes[False]", "no_error[3]"),
    "tests/spark/test_decisions.py": (
        "another_batch_than_the_held_one",
        "a_drop_that_was_killed",
        "killed_half_way",
        "can_be_taken_back",
    ),
    "tests/spark/test_gate_faults.py": (
        "named[off]",
        "[a row of the batch, once more]",
        "[a row of before, as one of the batch]",
    ),
    "tests/spark/test_held_batches.py": (
        "a_full_run_drops",
        "decodes_its_refused_messages_again",
        "dropped[later batch]",
        "[before the verdict-",
        "holds_no_batch_that_refuses_it_again",
    ),
    "tests/spark/test_lake.py": ("same_moment[2]", "same_moment[3]", "same_moment[4]"),
    "tests/spark/test_mapping.py": (
        "not_called_the_same_at_a_target",
        "a_column_that_came_later",
        "replayed_rows_from_before",
    ),
    "tests/spark/test_publish_files.py": ("[1000-",),
    "tests/spark/test_replay.py": ("[full, mended]", "what_a_killed_full_run_left"),
    "tests/spark/test_row_suites.py": ("a_table_of_2000_columns",),
    "tests/spark/test_shards.py": ("twice[2]", "void[2]", "void[3]"),
    "tests/spark/test_stored_lake.py": ("[by a merge]",),
    "tests/spark/test_suite_cache.py": (
        "[rules1]",
        "[rules2]",
        "[expect_column_values_to_be_unique1]",
        "let_go[unexpected",
    ),
    "tests/spark/test_upkeep.py": (
        "stay[half]",
        "stay[whole]",
        "a_half_shown_batch_is_young",
        "takes_its_place",
        "whose_table_was_changed",
    ),
    "tests/stack/test_cluster.py": (
        "a_stage_that_is_submitted",
        "a_worker_dies_in_the_middle",
    ),
    "tests/verify/test_masks.py": ("a_masked_key[mask1]", "whose_values_have_several_texts"),
    "tests/verify/test_postgresql.py": (
        "stay_so_while_they_are_written",
        "by_the_longest_lag",
        "in_the_number_of_rows",
        "as_of_a_batch",
        "[distinct]",
        "other_names_masks_and_a_condition",
    ),
}
"""Parts of the names of such tests by their file; an empty part is in all of them."""

HALVED = frozenset(
    {
        "tests/browser/test_states.py",
        "tests/consumers/test_flink_events.py",
        "tests/consumers/test_flink_shop.py",
        "tests/kafka/test_client.py",
        "tests/kafka/test_publish.py",
        "tests/kafka/test_publish_stage.py",
        "tests/kafka/test_reader.py",
        "tests/s3/test_object_store.py",
        "tests/s3/test_outages.py",
        "tests/spark/merge/test_dropped_merges.py",
        "tests/spark/merge/test_held_tables.py",
        "tests/spark/merge/test_kept_aside.py",
        "tests/spark/merge/test_mapped_transactions.py",
        "tests/spark/merge/test_merge_bags.py",
        "tests/spark/merge/test_merge_order.py",
        "tests/spark/merge/test_merge_stage.py",
        "tests/spark/merge/test_merge_transactions.py",
        "tests/spark/merge/test_old_changes.py",
        "tests/spark/merge/test_renames.py",
        "tests/spark/merge/test_rewrites.py",
        "tests/spark/merge/test_statements_without_ids.py",
        "tests/spark/merge/test_unseen_defaults.py",
        "tests/spark/test_bootstrap.py",
        "tests/spark/test_convert.py",
        "tests/spark/test_data_files.py",
        "tests/spark/test_decisions.py",
        "tests/spark/test_driver.py",
        "tests/spark/test_gate_and_publish.py",
        "tests/spark/test_held_batches.py",
        "tests/spark/test_lake.py",
        "tests/spark/test_publish_files.py",
        "tests/spark/test_reload.py",
        "tests/spark/test_replay.py",
        "tests/spark/test_retention.py",
        "tests/spark/test_row_suites.py",
        "tests/spark/test_shards.py",
        "tests/spark/test_upkeep.py",
        "tests/verify/test_postgresql.py",
    }
)


def mark(items: list[pytest.Item], root: str) -> None:
    """Mark those of some tests that run at night only.

    Args:
        items: the tests.
        root: the project's folder.
    """
    for item in items:
        file = item.path.as_posix().removeprefix(f"{root}/")
        drawn = file in HALVED and crc32(item.name.encode()) % 2 == 1
        if drawn or any(part in item.name for part in NIGHTLY.get(file, ())):
            item.add_marker(pytest.mark.nightly)
