"""Migrations in every state that the pages know, with what their stages would have left."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from tests.unit.overview.made_lake import MadeLake
from tests.unit.validate.test_measured import rule, shares, spoken
from tests.unit.validate.test_page import checked, result
from waybill.overview.files import reports
from waybill.overview.writing import write_overview
from waybill.spec.file import load_migration
from waybill.validate.measured import trend_of
from waybill.validate.results import keep

if TYPE_CHECKING:
    from waybill.spec.migration import Migration

HOSTILE = "<script>alert('x')</script>\"'&{{7*7}}"
"""A name that would do something where it is not escaped."""

STEERING = "javascript:alert(2)//\u202e\u2066gnp.exe"
"""An address that would do something if it were a link's, with marks that turn text around."""

TEXT = """\
name: {name}
description: A migration of the tests.
source:
  files: {{path: {folder}/in/{name}, topic: shop}}
  envelope: oms-default
publish:
  - {{envelope: canal, files: {{path: {folder}/out/{name}}}}}
  - {{envelope: datahub-blob, files: {{path: {folder}/blob/{name}}}}}
lake: {{warehouse: {folder}/lake}}
{more}
"""

HOUR = 3_600_000

EARLIER = "20261125T230000.000-00000"
"""What ids of batches begin with that were before those of a showcase."""

HELD = "20261126T210000.000-held00"
"""The batch that the gate holds."""


class Showcase:
    """A folder of migrations and their lakes.

    Args:
        folder: of its own.
        now: in milliseconds since 1970.
    """

    def __init__(self, folder: Path, now: int | None = None) -> None:
        self.folder = folder
        self.migrations = folder / "migrations"
        self.migrations.mkdir(parents=True, exist_ok=True)
        self.now = now or int(time.time() * 1000)

    def file(self, name: str, more: str = "") -> Migration:
        """A migration without a lake yet."""
        path = self.migrations / f"{name}.yaml"
        path.write_text(TEXT.format(name=name, folder=self.folder, more=more))
        return load_migration(path)

    def with_lake(
        self,
        name: str,
        fill: Callable[[MadeLake], None],
        more: str = "",
        batches: int = 20,
        ago: int = 0,
        table: str = "shop.orders",
    ) -> MadeLake:
        """A migration with batches, the last of which ended so many milliseconds ago.

        Args:
            name: of the migration.
            fill: what happens after the batches that go through.
            more: further lines of the file.
            batches: how many go through.
            ago: see above.
            table: that changes.
        """
        spec = self.file(name, more)
        drawn = random.Random(name)
        # Seven commits a batch, and room for a dozen after them.
        step = HOUR // 8
        lake = MadeLake(name, self.now - ago - (7 * batches + 12) * step, step, table)
        for number in range(batches):
            volume = int(40_000 * (1 + drawn.random()))
            refused = volume // 900 if number % 7 == 3 else 0
            lake.run(f"20261126T{number:02d}0000.000-{number:06x}", volume, refused)
        fill(lake)
        write_overview(spec, lake)
        self.gate(spec, "20261126T000000.000-000000")
        return lake

    def gate(self, spec: Migration, batch: str, holds: bool = False) -> None:
        """What the gate would have kept of a batch: figures, a page, and what came before.

        Args:
            spec: the migration.
            batch: the batch.
            holds: whether rules are not met, which found hostile names.
        """
        before = [spoken(f"{EARLIER}{number}", 0.01 * number) for number in range(1, 7)]
        checks = [rule(), checked(True, arguments={"value_set": ["open", HOSTILE], "mostly": 0.9})]
        if holds:
            found = [{"where": HOSTILE, "value": 559_412.375}, {"where": "shop.people", "value": 2}]
            checks += [
                rule(False, look="waybill quarantine list FILE", observed=found),
                checked(severity="warning", arguments={"column": HOSTILE, "min_value": 0}),
                checked(error=f"there is no column {HOSTILE}"),
            ]
        rows = [{"table": HOSTILE, "rows": 5_594_120, "share": 0.000012}]
        profiles = {**shares(0.04), "tables": rows, "trends": []}
        outcome = "failed" if holds else "passed"
        now = result(batch=batch, checks=checks, profiles=profiles, outcome=outcome)
        if not holds:
            now.differences, now.accounts = [], []
        keep(spec, now, trend_of(now, before))

    def all_states(self) -> None:
        """A migration in every state."""

        def held(lake: MadeLake) -> None:
            lake.snapshot(HELD, 52_310)
            lake.convert(HELD, 7_901)
            branch = lake.merge(HELD)
            lake.validate(HELD, branch, passes=False)
            lake.snapshot("20261126T220000.000-behind", 48_000)
            lake.convert("20261126T220000.000-behind")

        def refusing(lake: MadeLake) -> None:
            lake.run("20261126T210000.000-refuse", 41_007, 12)

        def waiting(lake: MadeLake) -> None:
            why = "column price of shop.orders was decimal(10,2) and is varchar(20)"
            waits = {"since": "20261126T190000.000-000013", "time": 1, "why": why, "changes": 1200}
            other = {**waits, "why": "shop.people has a new column <b>mail</b>", "changes": 7}
            lake.tables_held = {"shop.orders": waits, "shop.people": other}
            lake.run("20261126T210000.000-waits0", 41_000)

        def killed(lake: MadeLake) -> None:
            lake.snapshot("20261126T210000.000-killed", 31_000)
            lake.run("20261126T220000.000-after0", 12_000)

        def nothing(_lake: MadeLake) -> None:
            pass

        self.with_lake("orders_held", held)
        self.gate(self.file("orders_held"), HELD, holds=True)
        self.with_lake("customers_refusing", refusing)
        self.with_lake("goods_waiting", waiting)
        self.with_lake("stock_fine", nothing, 'schedule: "@daily"')
        self.with_lake("invoices_taken", killed)
        self.with_lake("returns_late", nothing, 'schedule: "@hourly"', ago=30 * HOUR)
        self.with_lake("parcels_failing", nothing, batches=9)
        self.with_lake("names_hostile", held, table=HOSTILE, batches=3)
        self.gate(self.file("names_hostile"), HELD, holds=True)
        self.file("prices_new")
        (self.migrations / "torn.yaml").write_text("name: [\n")
        cloud = TEXT.format(name="cloud_unreachable", folder=self.folder, more="")
        cloud = cloud.replace(f"{self.folder}/lake", "s3://nobody_has_this@bucket/lake")
        (self.migrations / "cloud_unreachable.yaml").write_text(cloud)


def tampered(spec: Migration, **changes: object) -> None:
    """Change what the index of a migration says."""
    place = Path(reports(spec), "_index.json")
    place.write_text(json.dumps({**json.loads(place.read_text()), **changes}))
