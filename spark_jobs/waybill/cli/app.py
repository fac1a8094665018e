"""The commands and their options. The work is done by modules that are imported when it begins."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from waybill.cli.group import Commands

HELP = """
Moves change-data-capture topics between the envelopes that replication tools write.

A migration is one YAML file. [bold]check[/] it, [bold]run[/] it, look at what it made with
[bold]table[/], [bold]changes[/] and [bold]quarantine[/]. [bold]convert[/] turns a file of messages
into another envelope without any of that; [bold]detect[/] says which envelope a file is in and
[bold]show[/] what stands in it.

[dim]Example:[/]  waybill run migrations/shop.yaml

Add --debug to any command to see a traceback when it fails.
"""

app = typer.Typer(
    name="waybill",
    cls=Commands,
    help=HELP,
    no_args_is_help=True,
    rich_markup_mode="rich",
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
quarantine = typer.Typer(
    no_args_is_help=True,
    help="""The messages that were refused, with the reason and their exact bytes.

[dim]Example:[/]  waybill quarantine list migrations/shop.yaml""",
)
app.add_typer(quarantine, name="quarantine")

Specification = Annotated[
    Path, typer.Argument(metavar="MIGRATION.yaml", help="The migration's file.", show_default=False)
]
AsJson = Annotated[bool, typer.Option("--json", help="One JSON object a line, not a table.")]


def _version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        typer.echo(f"waybill {version('waybill')}")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_version, is_eager=True, help="Print the version and end."
        ),
    ] = False,
) -> None:
    """Options of every command."""


@app.command()
def run(
    migration: Specification,
    until: Annotated[
        str | None,
        typer.Option(help="Stop after this stage: snapshot, convert, merge, validate, publish."),
    ] = None,
    batch: Annotated[
        str | None,
        typer.Option(help="Id of the batch; the id of a finished batch changes nothing."),
    ] = None,
    full: Annotated[
        bool, typer.Option("--full", help="Read the source again from its beginning.")
    ] = False,
    drop_held: Annotated[
        bool,
        typer.Option(
            "--drop-held", help="Drop what a failed gate holds; this batch merges it again."
        ),
    ] = False,
    json: AsJson = False,
) -> None:
    """Run all stages of a migration here, on local Spark, without Airflow.

    Prints the waybill: what came in, what went out, what was refused and why. Ends with 3 if the
    quality gate said no; nothing is published then.

    [dim]Example:[/]  waybill run migrations/shop.yaml --until merge
    """
    from waybill.cli.run import Ways, run_command

    mode = "full" if full else "incremental"
    run_command(migration, until, batch, Ways(mode, drop_held), json)


@app.command()
def convert(
    source: Annotated[str, typer.Option("--from", metavar="ENVELOPE", help="What is read.")],
    target: Annotated[str, typer.Option("--to", metavar="ENVELOPE", help="What is written.")],
    input_file: Annotated[
        str,
        typer.Argument(
            metavar="INPUT", help=".jsonl, .json, .txt (also .gz), .parquet, or - for a pipe."
        ),
    ],
    output_file: Annotated[
        str, typer.Argument(metavar="OUTPUT", help="The same; appears when it is whole.")
    ],
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="SIDE.KEY=VALUE",
            help="A setting of an envelope: from.… or to.…; see waybill formats NAME.",
        ),
    ] = None,
    tables: Annotated[
        Path | None, typer.Option(help="YAML file of keys and column types the input leaves out.")
    ] = None,
    schemas: Annotated[
        Path | None,
        typer.Option(help="JSON file or folder of schemas that are not in the messages."),
    ] = None,
    quarantine_file: Annotated[
        str | None, typer.Option("--quarantine", help="Write refused messages to this .jsonl file.")
    ] = None,
    report: Annotated[Path | None, typer.Option(help="Write the counts to this JSON file.")] = None,
    processes: Annotated[
        int, typer.Option(min=1, max=256, help="Work on a file of lines in several processes.")
    ] = 1,
    strict: Annotated[
        bool, typer.Option("--strict", help="End with 4 if anything was refused or lost.")
    ] = False,
) -> None:
    """Convert a file of messages from one envelope into another, without Spark.

    Lines hold one message value each and end at a line feed; Parquet has Kafka's columns. Works in
    bounded memory whatever the size. Refused messages are counted and, with --quarantine, kept.

    [dim]Example:[/]  waybill convert --from canal --to debezium-json in.jsonl out.jsonl
    [dim]Example:[/]  zcat in.gz | waybill convert --from canal --to oms-default - - | head
    """
    from waybill.cli.convert import Conversion, convert_command

    convert_command(
        Conversion(
            source=source,
            target=target,
            input=input_file,
            output=output_file,
            settings=settings or [],
            tables=tables,
            schemas=schemas,
            quarantine=quarantine_file,
            report=report,
            processes=processes,
            strict=strict,
        )
    )


Settings = Annotated[
    list[str] | None,
    typer.Option(
        "--set", metavar="KEY=VALUE", help="A setting of the envelope; see waybill formats NAME."
    ),
]
Schemas = Annotated[
    Path | None, typer.Option(help="JSON file or folder of schemas that are not in the messages.")
]
Tables = Annotated[
    Path | None, typer.Option(help="YAML file of keys and column types the messages leave out.")
]
LayoutName = Annotated[
    str | None,
    typer.Option(help="lines, kcat, parquet or whole; found out if it is not told."),
]
InputFile = Annotated[
    str, typer.Argument(metavar="FILE", help="A file of messages, or - for a pipe.")
]


@app.command()
def detect(
    input_file: InputFile,
    layout: LayoutName = None,
    settings: Settings = None,
    schemas: Schemas = None,
    tables: Tables = None,
    messages: Annotated[int, typer.Option(min=1, help="Look at so many messages.")] = 200,
    json: AsJson = False,
) -> None:
    """Say which envelope the messages of a file are in, and why.

    Every decoder tries the first messages; what speaks for the answer and against the others is
    told. Ends with 2 if nothing fits.

    [dim]Example:[/]  waybill detect topic.jsonl.gz
    """
    from waybill.cli.detect import Detection, detect_command

    detect_command(Detection(input_file, layout, settings or [], schemas, tables, messages, json))


@app.command()
def show(
    input_file: InputFile,
    source: Annotated[
        str | None,
        typer.Option("--from", metavar="ENVELOPE", help="Found out if it is not told."),
    ] = None,
    layout: LayoutName = None,
    settings: Settings = None,
    schemas: Schemas = None,
    tables: Tables = None,
    table: Annotated[
        str | None, typer.Option(metavar="DB.TABLE", help="Only this table; may hold *.")
    ] = None,
    only: Annotated[str | None, typer.Option(help="Only changes, refused or skipped.")] = None,
    offset: Annotated[
        str | None, typer.Option(help="Only these offsets: 7, 7-9, 7- or -9.")
    ] = None,
    limit: Annotated[int, typer.Option(min=0, help="At most so many; 0 for all.")] = 20,
    full: Annotated[bool, typer.Option("--full", help="Do not cut long values.")] = False,
    json: AsJson = False,
) -> None:
    """Print messages readably: table, operation, order, the row before and after side by side.

    A changed column is marked with *, a column of the key with k, and with ? what cannot be
    compared because one side was not sent. What is refused is shown with the reason and its bytes.

    [dim]Example:[/]  waybill show topic.jsonl.gz --only refused
    [dim]Example:[/]  waybill show --from canal topic.jsonl --table shop.orders --offset 100-200
    """
    from waybill.cli.show import Showing, show_command

    show_command(
        Showing(
            input=input_file,
            source=source,
            layout=layout,
            settings=settings or [],
            schemas=schemas,
            tables=tables,
            table=table,
            only=only,
            offsets=offset,
            limit=limit,
            full=full,
            json=json,
        )
    )


@app.command()
def check(migration: Specification, json: AsJson = False) -> None:
    """Check everything that can be checked without moving data.

    The file itself, the source and the lake, what each target cannot carry, and a sample of the
    messages. Ends with 2 if something has to be mended first.

    [dim]Example:[/]  waybill check migrations/shop.yaml
    """
    from waybill.cli.check import check_command

    check_command(migration, json)


@app.command()
def formats(
    name: Annotated[
        str | None, typer.Argument(help="One envelope, with its settings.", show_default=False)
    ] = None,
    json: AsJson = False,
) -> None:
    """List the envelopes and what each can carry, or describe one of them.

    [dim]Example:[/]  waybill formats canal
    """
    from waybill.cli.formats import formats_command

    formats_command(name, json)


@app.command()
def table(
    migration: Specification,
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="DB.TABLE", help="May be left out where there is only one.", show_default=False
        ),
    ] = None,
    output: Annotated[Path | None, typer.Option(help="Write the rows to this .jsonl file.")] = None,
    as_of: Annotated[
        str | None,
        typer.Option(
            metavar="BATCH|TIME", help="As it was after this batch, or at this time (ISO, UTC)."
        ),
    ] = None,
    json: AsJson = False,
) -> None:
    """Print the rows of a merged table as exact text, sorted by key.

    [dim]Example:[/]  waybill table migrations/shop.yaml shop.orders --json
    [dim]Example:[/]  waybill table migrations/shop.yaml shop.orders --as-of 2026-11-20T06:00
    """
    from waybill.cli.tables import table_command

    table_command(migration, name, output, as_of, json)


@app.command()
def changes(
    migration: Specification,
    table: Annotated[str | None, typer.Option(metavar="DB.TABLE", help="Only this table.")] = None,
    key: Annotated[
        str | None,
        typer.Option(help="""Only this row: its key, as 7 or '{"region": "eu", "no": "7"}'."""),
    ] = None,
    limit: Annotated[int, typer.Option(min=1, help="At most so many changes.")] = 1000,
    json: AsJson = False,
) -> None:
    """Print the history of a row, a table or everything, in the order that the merge uses.

    [dim]Example:[/]  waybill changes migrations/shop.yaml --table shop.orders --key 7
    """
    from waybill.cli.tables import changes_command

    changes_command(migration, table, key, limit, json)


@quarantine.command("list")
def quarantine_list(
    migration: Specification,
    batch: Annotated[str | None, typer.Option(help="Only this batch.")] = None,
    kind: Annotated[str | None, typer.Option(help="Only this class of reason.")] = None,
    limit: Annotated[int, typer.Option(min=1, help="At most so many messages.")] = 100,
    json: AsJson = False,
) -> None:
    """List the refused messages: where they came from and why they were refused.

    [dim]Example:[/]  waybill quarantine list migrations/shop.yaml --kind value
    """
    from waybill.cli.quarantine import list_command

    list_command(migration, batch, kind, limit, json)


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

    [dim]Example:[/]  waybill quarantine show migrations/shop.yaml shop/0/42 --raw > message
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
    json: AsJson = False,
) -> None:
    """Take everything that was refused once more, as a batch of its own, through all stages.

    Run it after the cause was mended: a type declared, a column widened, Waybill updated. Reads
    nothing new. Each change keeps its place in the order, so an old one does not undo newer ones;
    what is refused again stays in quarantine.

    [dim]Example:[/]  waybill quarantine replay migrations/shop.yaml
    """
    from waybill.cli.run import Ways, run_command

    run_command(migration, None, batch, Ways("replay"), json)


@app.command()
def status(migration: Specification, json: AsJson = False) -> None:
    """Say how far a migration is: cursors, lag, counts and the last word of the gate.

    [dim]Example:[/]  waybill status migrations/shop.yaml
    """
    from waybill.cli.status import status_command

    status_command(migration, json)


@app.command()
def upkeep(
    migration: Specification,
    snapshots: Annotated[
        str, typer.Option(metavar="LENGTH", help="Keep snapshots so long, e.g. 12h or 30d.")
    ] = "30d",
    json: AsJson = False,
) -> None:
    """Keep the lake in shape: join small files, let old snapshots and tombstones go.

    Run it once a day or a week, also while batches run: a table that is being written is left for
    the next time. Snapshots that a stage has not read yet are kept whatever their age, tombstones
    as long as the migration's tombstones.keep says.

    [dim]Example:[/]  waybill upkeep migrations/shop.yaml --snapshots 7d
    """
    from waybill.cli.upkeep import upkeep_command

    upkeep_command(migration, snapshots, json)
