"""The command that a migration begins with."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from waybill.cli.arguments import AsJson  # noqa: TC001 (typer reads annotations)
from waybill.errors import ConfigurationError


def init(
    source: Annotated[
        str,
        typer.Argument(
            help="A file, a folder, a pattern, a URL of object storage, or kafka:TOPIC.",
            show_default=False,
        ),
    ],
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", help="The file to write; by default NAME.yaml in migrations/ or here."
        ),
    ] = None,
    name: Annotated[
        str | None, typer.Option(help="Name of the migration; by default the source's.")
    ] = None,
    envelope: Annotated[
        str | None,
        typer.Option(metavar="ENVELOPE", help="Envelope of the messages; by default detected."),
    ] = None,
    old_envelope: Annotated[
        str | None, typer.Option("--format", help="The earlier name of --envelope.", hidden=True)
    ] = None,
    to: Annotated[
        list[str] | None,
        typer.Option(
            "--to",
            metavar="ENVELOPE[=PLACE]",
            help="A target; its place is a folder or kafka:TOPIC. May be repeated.",
        ),
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="[SIDE.]KEY=VALUE",
            help="A setting of an envelope, from.… or to.…; see waybill envelopes NAME.",
        ),
    ] = None,
    schemas: Annotated[
        Path | None, typer.Option(help="JSON file or folder of schemas that messages lack.")
    ] = None,
    tables: Annotated[
        Path | None, typer.Option(help="YAML file of keys and column types that messages lack.")
    ] = None,
    key: Annotated[
        list[str] | None,
        typer.Option("--key", metavar="TABLE=COLUMNS", help="Key of a table, e.g. shop.orders=id."),
    ] = None,
    declare_types: Annotated[
        bool,
        typer.Option(
            "--declare-types",
            help="Declare the types that the sample suggests, not only propose them.",
        ),
    ] = False,
    layout: Annotated[
        str | None, typer.Option(help="lines, kcat, parquet or whole; by default detected.")
    ] = None,
    connection: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Connection to the brokers; kafka_default if not given."),
    ] = None,
    bootstrap: Annotated[
        str | None,
        typer.Option(
            metavar="HOST:PORT", help="Brokers without login, if there is no connection yet."
        ),
    ] = None,
    to_connection: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Connection of published topics; by default the same."),
    ] = None,
    sample: Annotated[
        int, typer.Option(min=2, max=1_000_000, help="How many messages to examine.")
    ] = 1000,
    force: Annotated[bool, typer.Option("--force", help="Replace the file if it exists.")] = False,
    no_input: Annotated[
        bool, typer.Option("--no-input", help="Ask nothing, not even on a terminal.")
    ] = False,
    json: AsJson = False,
) -> None:
    """Draft a migration's file from a sample of its source.

    Detects the envelope and lists the tables with keys, types, operations and order. On a terminal
    it asks what it cannot know; DECIDE: marks in the file what you have to decide. Then it checks
    the file as `waybill check` does. It moves no data, and replaces a file only with --force.

    [dim]Example:[/]  waybill init /data/orders --to debezium-json
    [dim]Example:[/]  waybill init kafka:orders --bootstrap localhost:9092 --to canal
    """
    from waybill.cli.init import InitOptions, init_command

    if None not in (envelope, old_envelope):
        raise ConfigurationError("--format is the earlier name of --envelope: leave one out")
    init_command(
        InitOptions(
            source=source,
            output=output,
            name=name,
            envelope=envelope if old_envelope is None else old_envelope,
            layout=layout,
            targets=to or [],
            settings=settings or [],
            schemas=schemas,
            tables=tables,
            keys=key or [],
            declare_types=declare_types,
            connection=connection,
            bootstrap=bootstrap,
            target_connection=to_connection,
            sample=sample,
            force=force,
            ask=not no_input,
            json=json,
        )
    )
