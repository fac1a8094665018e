"""The profile `changes`: nothing that was found is left out for want of a row."""

from __future__ import annotations

from collections import Counter

from waybill.validate.expectations import run_suites
from waybill.validate.profiles import NO_TOPIC, changes_profile
from waybill.validate.rereading import Reread
from waybill.validate.suites import load_suite
from waybill.validate.trends import NO_AGES, trends_profile


def unmet(profile: list[dict]) -> dict[str, list[dict]]:
    """Columns of rules that are not met, with what was found."""
    checks = run_suites([load_suite("changes")], {"changes": profile}, {"max_refused_share": 0.5})
    return {c.arguments["column"]: c.observed for c in checks if not c.success}


def test_messages_that_a_replay_wrote_again_are_judged_though_their_topic_had_no_changes():
    found = Reread(Counter(shop=3), Counter(shop=1), Counter(shop=2))
    for counted in ([], [("billing", "ok", 5, 5, 0)]):
        profile = changes_profile(counted, {}, {}, found, 0, [])
        assert unmet(profile) == {
            "outbox_undecodable": [{"where": "shop", "value": 1}],
            "outbox_different": [{"where": "shop", "value": 2}],
        }


def test_stages_that_disagree_are_held_though_no_topic_has_anything():
    profile = changes_profile([], {}, {}, Reread(), 2, [])
    assert unmet(profile) == {"stage_differences": [{"where": NO_TOPIC, "value": 2}]}
    assert changes_profile([], {}, {}, Reread(), 0, []) == []


def test_a_message_that_only_the_merge_refused_counts():
    profile = changes_profile([], {"shop": 1}, {}, Reread(), 0, [])
    assert unmet(profile) == {"refused_share": [{"where": "shop", "value": 1.0}]}


def test_a_topic_of_which_only_messages_were_written_again_has_no_volume():
    profile = changes_profile([], {}, {}, Reread(Counter(shop=3)), 0, [])
    assert [row["messages"] for row in profile] == [0]
    assert trends_profile(profile, [], NO_AGES, []) == []
    # A source without any new message has one.
    quiet = changes_profile([], {}, {}, Reread(), 0, ["shop"])
    assert [row["name"] for row in trends_profile(quiet, [], NO_AGES, [])] == ["shop"]
