"""The command line: `waybill COMMAND`. What a command needs is imported when it runs."""

from __future__ import annotations

import sys

DEBUG = "--debug"


def main(arguments: list[str] | None = None) -> None:
    """Run the command line and leave the process with its exit code.

    0 done, 1 failed, 2 wrong use or configuration, 3 the quality gate said no or tables differ from
    their database, 4 every message was refused or, under `--strict`, any was, or anything was lost.
    """
    words = list(sys.argv[1:] if arguments is None else arguments)
    debug = DEBUG in words
    words = [word for word in words if word != DEBUG]
    code = _run(words, debug)
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        from waybill.cli.group import forget_output

        forget_output()
    sys.exit(code)


def _run(words: list[str], debug: bool) -> int:
    from waybill.cli.app import app
    from waybill.errors import WaybillError

    try:
        result = app(words, prog_name="waybill", standalone_mode=True)
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    except WaybillError as error:
        if debug:
            raise
        sys.stderr.write(f"waybill: {error}\n")
        return error.exit_code
    except Exception as error:
        if debug:
            raise
        text = " ".join(str(error).split())[:400]
        sys.stderr.write(
            f"waybill: {type(error).__name__}: {text}; add --debug to see where it came from\n"
        )
        return 1
    return result if isinstance(result, int) else 0
