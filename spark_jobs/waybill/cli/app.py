"""The commands and their options. The work is done by modules that are imported when it begins."""

from __future__ import annotations

from typing import Annotated

import typer

from waybill.cli import begin_commands, file_commands, lake_commands, server_commands
from waybill.cli.arguments import AsJson, Specification
from waybill.cli.group import Commands
from waybill.errors import ConfigurationError

HELP = """
Migrates change-data-capture topics between the envelopes of replication tools.

A migration is one YAML file. [bold]init[/] drafts it from a sample of its source; [bold]check[/]
it, [bold]run[/] it, and look at the result with [bold]table[/], [bold]changes[/] and
[bold]quarantine[/]. Without a migration, [bold]convert[/] turns a file of messages into another
envelope, [bold]detect[/] finds the envelope of a file, and [bold]show[/] prints its messages.

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
            "--version", callback=_version, is_eager=True, help="Print the version and exit."
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
    reload: Annotated[
        list[str] | None,
        typer.Option(
            metavar="TABLE",
            help="Read no new messages: rebuild this table, or those of a pattern, from the "
            "archive. May be repeated.",
        ),
    ] = None,
    keys: Annotated[
        str,
        typer.Option(
            metavar="WHICH",
            help="With --reload: `differing` rebuilds only the rows that the last verification "
            "found to differ.",
        ),
    ] = "all",
    drop_held: Annotated[
        bool,
        typer.Option(
            "--drop-held", help="Drop the held batch; this batch merges its changes again."
        ),
    ] = False,
    until_time: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="Read topics up to this time at most (ISO, UTC)."),
    ] = None,
    json: AsJson = False,
) -> None:
    """Run all stages of a migration here, on local Spark, without Airflow.

    Prints the waybill: what came in, what went out, what was refused and why. Exits with 3 if the
    batch fails the quality gate; then nothing is published.

    [dim]Example:[/]  waybill run migrations/shop.yaml --until merge
    """
    from waybill.cli.run import Ways, run_command

    if full and reload:
        raise ConfigurationError("--full takes all tables, and --reload some: leave one out")
    mode = "full" if full else "reload" if reload else "incremental"
    ways = Ways(mode, drop_held, until_time, tuple(reload or ()), keys)
    run_command(migration, until, batch, ways, json)


@app.command()
def check(migration: Specification, json: AsJson = False) -> None:
    """Check everything that can be checked without moving data.

    Checks the file itself, the source and the lake, what each target cannot carry, and a sample of
    the messages. Exits with 2 if you have to fix something first.

    [dim]Example:[/]  waybill check migrations/shop.yaml
    """
    from waybill.cli.check import check_command

    check_command(migration, json)


@app.command()
def envelopes(
    name: Annotated[
        str | None, typer.Argument(help="One envelope, with its settings.", show_default=False)
    ] = None,
    json: AsJson = False,
) -> None:
    """List the envelopes and what each can carry, or describe one of them.

    [dim]Example:[/]  waybill envelopes canal
    """
    from waybill.cli.envelopes import envelopes_command

    envelopes_command(name, json)


for command in (
    begin_commands.init,
    *(file_commands.convert, file_commands.detect, file_commands.show),
    *(lake_commands.table, lake_commands.changes, lake_commands.status, lake_commands.report),
    *(lake_commands.upkeep, lake_commands.verify),
    server_commands.driver,
):
    app.command()(command)
# Its earlier name.
app.command("formats", hidden=True)(envelopes)
app.add_typer(lake_commands.quarantine, name="quarantine")
app.add_typer(lake_commands.gate, name="gate")
app.add_typer(lake_commands.suite, name="suite")
