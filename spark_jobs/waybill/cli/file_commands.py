"""Commands about files of messages; none of them needs Spark."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from waybill.cli.arguments import AsJson  # noqa: TC001 (typer reads annotations)
from waybill.tables import MAX_COLUMNS


def convert(
    source: Annotated[
        str, typer.Option("--from", metavar="ENVELOPE", help="Envelope of the input.")
    ],
    target: Annotated[
        str, typer.Option("--to", metavar="ENVELOPE", help="Envelope of the output.")
    ],
    input_file: Annotated[
        str,
        typer.Argument(
            metavar="INPUT", help=".jsonl, .json, .txt (also .gz), .parquet, or - for a pipe."
        ),
    ],
    output_file: Annotated[
        str,
        typer.Argument(
            metavar="OUTPUT", help="The same kinds; the file appears when it is complete."
        ),
    ],
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="SIDE.KEY=VALUE",
            help="A setting of an envelope: from.… or to.…; see waybill envelopes NAME.",
        ),
    ] = None,
    tables: Annotated[
        Path | None, typer.Option(help="YAML file of keys and column types that the input lacks.")
    ] = None,
    mapping: Annotated[
        Path | None,
        typer.Option(
            metavar="MIGRATION",
            help="Apply tables, select and map of a migration's file and of its target.",
        ),
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
        int, typer.Option(min=1, max=256, help="Convert a file of lines in several processes.")
    ] = 1,
    max_columns: Annotated[
        int,
        typer.Option(min=1, max=1_000_000, help="Refuse a message that describes more columns."),
    ] = MAX_COLUMNS,
    strict: Annotated[
        bool, typer.Option("--strict", help="Exit with 4 if anything was refused or lost.")
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="Overwrite existing files.")] = False,
) -> None:
    """Convert a file of messages from one envelope into another, without Spark.

    Each line holds one message value and ends with a line feed; Parquet has Kafka's columns. Works
    in bounded memory whatever the size. Counts refused messages and, with --quarantine, keeps them;
    exits with 4 if it refuses all. Lines cannot hold headers: those that carry more than the value
    are counted as lost.

    With --mapping, it maps changes as the migration does: first for the lake, then for the target
    that has the output's envelope.

    [dim]Example:[/]  waybill convert --from canal --to debezium-json in.jsonl out.jsonl
    [dim]Example:[/]  zcat in.gz | waybill convert --from canal --to ogg - - | head
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
            max_columns=max_columns,
            force=force,
            mapping=mapping,
        )
    )


Settings = Annotated[
    list[str] | None,
    typer.Option(
        "--set", metavar="KEY=VALUE", help="A setting of the envelope; see waybill envelopes NAME."
    ),
]
Schemas = Annotated[
    Path | None, typer.Option(help="JSON file or folder of schemas that are not in the messages.")
]
Tables = Annotated[
    Path | None, typer.Option(help="YAML file of keys and column types that the messages lack.")
]
LayoutName = Annotated[
    str | None,
    typer.Option(help="lines, kcat, parquet or whole; by default detected."),
]
InputFile = Annotated[
    str, typer.Argument(metavar="FILE", help="A file of messages, or - for a pipe.")
]


def detect(
    input_file: InputFile,
    layout: LayoutName = None,
    settings: Settings = None,
    schemas: Schemas = None,
    tables: Tables = None,
    messages: Annotated[int, typer.Option(min=1, help="How many messages to examine.")] = 200,
    json: AsJson = False,
) -> None:
    """Say which envelope the messages of a file are in, and why.

    Every decoder tries the first messages; the answer lists the evidence for it and against the
    others. Exits with 2 if nothing fits.

    [dim]Example:[/]  waybill detect topic.jsonl.gz
    """
    from waybill.cli.detect import Detection, detect_command

    detect_command(Detection(input_file, layout, settings or [], schemas, tables, messages, json))


def show(
    input_file: InputFile,
    source: Annotated[
        str | None,
        typer.Option("--from", metavar="ENVELOPE", help="By default detected."),
    ] = None,
    layout: LayoutName = None,
    settings: Settings = None,
    schemas: Schemas = None,
    tables: Tables = None,
    table: Annotated[
        str | None, typer.Option(metavar="DB.TABLE", help="Only this table; may contain *.")
    ] = None,
    only: Annotated[str | None, typer.Option(help="Only changes, refused or skipped.")] = None,
    offset: Annotated[
        str | None, typer.Option(help="Only these offsets: 7, 7-9, 7- or -9.")
    ] = None,
    limit: Annotated[
        int, typer.Option(min=0, help="Print at most this many messages; 0 prints all.")
    ] = 20,
    full: Annotated[bool, typer.Option("--full", help="Print long values in full.")] = False,
    json: AsJson = False,
) -> None:
    """Print messages in readable form: table, operation, order, rows before and after.

    Marks a changed column with *, a column of the key with k, and with ? a column that cannot be
    compared because one side was not sent. Shows refused messages with the reason and their bytes.

    [dim]Example:[/]  waybill show topic.jsonl.gz --only refused
    [dim]Example:[/]  waybill show topic.jsonl --table shop.orders --offset 100-200
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
