"""Commands that look into the lake of a migration, or keep it in shape."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from waybill.cli.arguments import AsJson, Specification
from waybill.cli.group import Commands

quarantine = typer.Typer(
    cls=Commands,
    no_args_is_help=True,
    help="""Show and replay refused messages, with the reason and their exact bytes.

[dim]Example:[/]  waybill quarantine list migrations/shop.yaml""",
)

gate = typer.Typer(
    cls=Commands,
    no_args_is_help=True,
    help="""Decide about the batch that the gate holds.

A batch that fails a critical rule is held: nothing of it is visible. Fix the cause, or decide here.
The lake keeps with the batch who decided, when, why and about which rules.

[dim]Example:[/]  waybill gate approve migrations/shop.yaml --reason "checked"
[dim]Example:[/]  waybill gate drop migrations/shop.yaml --reason "fixed\"""",
)

suite = typer.Typer(
    cls=Commands,
    no_args_is_help=True,
    help="""Write suites of expectations, which the gate runs over every batch.

[dim]Example:[/]  waybill suite init migrations/shop.yaml --table shop.orders""",
)


def table(
    migration: Specification,
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="DB.TABLE", help="Optional if there is only one.", show_default=False
        ),
    ] = None,
    output: Annotated[Path | None, typer.Option(help="Write the rows to this .jsonl file.")] = None,
    as_of: Annotated[
        str | None,
        typer.Option(
            metavar="BATCH|TIME", help="As it was after this batch, or at this time (ISO, UTC)."
        ),
    ] = None,
    held: Annotated[bool, typer.Option("--held", help="As the held batch would leave it.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Overwrite an existing output.")] = False,
    json: AsJson = False,
) -> None:
    """Print the rows of a merged table as exact text, sorted by key.

    [dim]Example:[/]  waybill table migrations/shop.yaml shop.orders --json
    [dim]Example:[/]  waybill table migrations/shop.yaml shop.orders --as-of 2026-11-20
    [dim]Example:[/]  waybill table migrations/shop.yaml shop.orders --held
    """
    from waybill.cli.tables import Output, table_command

    table_command(migration, name, Output(output, force, json), as_of, held)


def changes(
    migration: Specification,
    table: Annotated[str | None, typer.Option(metavar="DB.TABLE", help="Only this table.")] = None,
    key: Annotated[
        str | None,
        typer.Option(help="""Only this row: its key, e.g. 7 or '{"region": "eu", "no": "7"}'."""),
    ] = None,
    limit: Annotated[int, typer.Option(min=1, help="Print at most this many changes.")] = 1000,
    held: Annotated[
        bool,
        typer.Option(
            "--held",
            help="Only the changes of the held batch; with --key, all changes of the row "
            "and their outcomes in the held batch.",
        ),
    ] = False,
    json: AsJson = False,
) -> None:
    """Print the history of a row, a table or everything, in the order that the merge uses.

    [dim]Example:[/]  waybill changes migrations/shop.yaml --table shop.orders --key 7
    [dim]Example:[/]  waybill changes migrations/shop.yaml --table shop.orders --held
    """
    from waybill.cli.tables import ChangeFilter, changes_command

    changes_command(migration, ChangeFilter(table, key, limit, held), json)


@quarantine.command("list")
def quarantine_list(
    migration: Specification,
    batch: Annotated[str | None, typer.Option(help="Only this batch.")] = None,
    kind: Annotated[str | None, typer.Option(help="Only this class of reason.")] = None,
    table: Annotated[str | None, typer.Option(help="Only this table, e.g. shop.orders.")] = None,
    limit: Annotated[int, typer.Option(min=1, help="Print at most this many messages.")] = 100,
    json: AsJson = False,
) -> None:
    """List the refused messages: where they came from and why they were refused.

    [dim]Example:[/]  waybill quarantine list migrations/shop.yaml --kind value
    """
    from waybill.cli.quarantine import list_command

    list_command(migration, batch, kind, limit, json, table)


@quarantine.command("show")
def quarantine_show(
    migration: Specification,
    position: Annotated[
        str,
        typer.Argument(
            metavar="TOPIC/PARTITION/OFFSET",
            help="As quarantine list prints it.",
            show_default=False,
        ),
    ],
    raw: Annotated[
        bool, typer.Option("--raw", help="Write the exact bytes of the value and nothing else.")
    ] = False,
    json: AsJson = False,
) -> None:
    """Show one refused message with its reason and its bytes.

    [dim]Example:[/]  waybill quarantine show migrations/shop.yaml shop/0/42 --raw > m
    """
    from waybill.cli.quarantine import show_command

    show_command(migration, position, raw, json)


@quarantine.command("replay")
def quarantine_replay(
    migration: Specification,
    batch: Annotated[
        str | None,
        typer.Option(help="Id of the batch; the id of a finished batch changes nothing."),
    ] = None,
    drop_held: Annotated[
        bool,
        typer.Option("--drop-held", help="Drop the held batch and merge its changes again too."),
    ] = False,
    json: AsJson = False,
) -> None:
    """Replay every refused message, as a batch of its own, through all stages.

    Run it once the cause is fixed: a type declared, a column widened, Waybill updated. Reads no new
    messages. Each change keeps its place in the order, so an old one does not undo newer ones.
    Messages that are refused again stay in quarantine.

    [dim]Example:[/]  waybill quarantine replay migrations/shop.yaml
    [dim]Example:[/]  waybill quarantine replay migrations/shop.yaml --drop-held
    """
    from waybill.cli.run import Ways, run_command

    run_command(migration, None, batch, Ways("replay", drop_held), json)


def status(migration: Specification, json: AsJson = False) -> None:
    """Show how far a migration is: cursors, lag, counts and the last result of the gate.

    [dim]Example:[/]  waybill status migrations/shop.yaml
    """
    from waybill.cli.status import status_command

    status_command(migration, json)


def report(
    migration: Specification,
    site: Annotated[
        str,
        typer.Option(
            metavar="DIR",
            help="The folder of the site, also in object storage (s3://…).",
            show_default=False,
        ),
    ],
    json: AsJson = False,
) -> None:
    """Build Data Docs, Great Expectations' own site, of all results of the gate.

    One page for every suite of every batch, and an index. Reads the results from the lake, also in
    object storage; needs neither Spark nor the catalog. Run it again to add later batches:
    existing pages stay as they are.

    [dim]Example:[/]  waybill report migrations/shop.yaml --site build/gate
    """
    from waybill.cli.site import site_command

    site_command(migration, site, json)


def upkeep(
    migration: Specification,
    snapshots: Annotated[
        str | None,
        typer.Option(
            metavar="LENGTH",
            help="How long to keep snapshots, e.g. 12h or 30d; by default upkeep.snapshots of the "
            "migration, else 30d.",
            show_default=False,
        ),
    ] = None,
    json: AsJson = False,
) -> None:
    """Maintain the lake: join small files, expire old snapshots and tombstones.

    Run it once a day or a week, also while batches run: it leaves a table that is being written for
    the next time. It keeps snapshots that a stage has not read yet whatever their age, and
    tombstones as long as the migration's tombstones.keep says.

    [dim]Example:[/]  waybill upkeep migrations/shop.yaml --snapshots 7d
    """
    from waybill.cli.upkeep import upkeep_command

    upkeep_command(migration, snapshots, json)


def verify(
    migration: Specification,
    table: Annotated[str | None, typer.Option(metavar="DB.TABLE", help="Only this table.")] = None,
    method: Annotated[
        str | None,
        typer.Option(
            metavar="counts|changed|full",
            help="Row counts, the rows that changed since the last verification and the counts, or "
            "all rows; by default verify.method of the migration.",
        ),
    ] = None,
    as_of: Annotated[
        str | None,
        typer.Option(metavar="BATCH", help="Compare the tables as they were after this batch."),
    ] = None,
    wait: Annotated[
        str | None,
        typer.Option(
            metavar="LENGTH",
            help="How long to wait for a batch that settles rows that differ, e.g. 10m; by "
            "default verify.wait of the migration.",
        ),
    ] = None,
    against_topic: Annotated[
        bool,
        typer.Option(
            "--against-topic",
            help="Instead, compare the targets with the record of what was sent to them; needs no "
            "database.",
        ),
    ] = False,
    json: AsJson = False,
) -> None:
    """Compare the merged tables with the database that they come from.

    Compares every row as exact text, while the database is written and batches run. A row whose
    change may still be on its way is left to the next verification. Prints each difference, column
    by column, with the history of the row, and exits with 3 if there is any. Only reads the
    database.

    [dim]Example:[/]  waybill verify migrations/shop.yaml --method full --wait 10m
    [dim]Example:[/]  waybill verify migrations/shop.yaml --table shop.orders
    [dim]Example:[/]  waybill verify migrations/shop.yaml --against-topic
    """
    from waybill.cli.verify import published_command, seconds_to_wait, verify_command
    from waybill.verify.run import VerifyRequest, checked_method

    if against_topic:
        others = (("table", table), ("method", method), ("as-of", as_of), ("wait", wait))
        published_command(migration, [name for name, given in others if given], json)
        return
    chosen: Any = checked_method(method)
    verify_command(migration, VerifyRequest(table, chosen, as_of, seconds_to_wait(wait)), json)


Reason = Annotated[
    str,
    typer.Option(
        metavar="TEXT", help="The reason; the lake keeps it with the batch.", show_default=False
    ),
]
HeldBatch = Annotated[
    str | None,
    typer.Option(metavar="ID", help="Decide only if this batch is held.", show_default=False),
]


@gate.command("approve")
def gate_approve(
    migration: Specification, reason: Reason, batch: HeldBatch = None, json: AsJson = False
) -> None:
    """Approve the held batch for publishing as it is, although it fails a rule.

    Read its gate report first (waybill status names it). The next run, or waybill run with --batch
    and its id, judges the batch once more and publishes it. The approval covers this batch with the
    rules and figures that the report shows: if the gate finds anything else, the batch stays held.
    Until the batch is visible, gate drop revokes the approval.

    Nobody may waive some rules: counts of the stages that do not reconcile, a message that cannot
    be decoded again, a duplicate key. Then this command says so and changes nothing. Running it
    twice is the same as running it once.

    [dim]Example:[/]  waybill gate approve migrations/shop.yaml --reason "checked"
    """
    from waybill.cli.gate import decide_command

    decide_command(migration, "approved", reason, batch, json)


@gate.command("drop")
def gate_drop(
    migration: Specification, reason: Reason, batch: HeldBatch = None, json: AsJson = False
) -> None:
    """Drop the held batch: the next one merges its changes again.

    Use it once the cause is fixed: a type declared, a limit raised, Waybill updated. Nothing is
    lost. The next run merges the changes of the held batch together with new ones, and tries its
    refused messages again, as waybill run --drop-held does; this command also keeps the reason.
    A dropped batch cannot be approved any more. Running it twice is the same as running it once.

    [dim]Example:[/]  waybill gate drop migrations/shop.yaml --reason "fixed"
    """
    from waybill.cli.gate import decide_command

    decide_command(migration, "dropped", reason, batch, json)


@suite.command("init")
def suite_init(
    migration: Specification,
    table: Annotated[str, typer.Option(metavar="DB.TABLE", help="A merged table that has rows.")],
    output: Annotated[
        Path | None,
        typer.Option(help="The file to write; by default TABLE.suite.json beside the migration."),
    ] = None,
    whole: Annotated[
        bool,
        typer.Option("--whole", help="Judge all rows of the table, not those that a batch wrote."),
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="Overwrite an existing file.")] = False,
) -> None:
    """Write a suite of expectations that the rows of a merged table meet, for you to edit.

    Looks at every column: whether it is ever null, the range of numbers, the lengths of texts,
    texts that are one of a few or look like an e-mail address, a UUID, a date; and values that
    never repeat. Every expectation is a warning, which the gate reports without holding the batch:
    remove those that are true by chance, make those "critical" that must hold, and add your own,
    such as SQL that finds wrong rows.

    Then name the file under quality.suites of the migration and run waybill check. The report shows
    the keys of rows that fail an expectation; the suite's meta.show_values names columns whose
    values it may show too.

    [dim]Example:[/]  waybill suite init migrations/shop.yaml --table shop.orders
    [dim]Example:[/]  waybill suite init shop.yaml --table db.orders --output my.json
    """
    from waybill.cli.suite import init_command

    init_command(migration, table, output, whole, force)
