"""Looking up what a migration declares about a table."""

from __future__ import annotations

from waybill.tables import NO_RULE, TableRule, TableRules


def test_exact_names_go_before_patterns() -> None:
    rules = TableRules(
        {
            "shop.*": TableRule(("any",)),
            "shop.orders": TableRule(("id",)),
            "*.public.users": TableRule(("uid",)),
        }
    )
    assert rules.find("shop", None, "orders").key == ("id",)
    assert rules.find("shop", None, "other").key == ("any",)
    assert rules.find("crm", "public", "users").key == ("uid",)
    assert rules.find("shop", "public", "orders").key == ("id",), "the schema may be left out"
    assert rules.find("crm", None, "users") is NO_RULE
    assert rules.find(None, None, "orders") is NO_RULE
