"""Pages that are made here; everything that comes from outside is escaped."""

from __future__ import annotations

from html import escape

_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>{title}</title>
<style>
body {{ font: 16px/1.5 system-ui, sans-serif; margin: 4rem auto; max-width: 42rem; padding: 0 1rem;
  color: CanvasText; background: Canvas; color-scheme: light dark }}
code {{ font-family: ui-monospace, monospace }}
</style></head><body><h1>{title}</h1>{body}</body></html>
"""


def no_report(dag_id: str, batch: str) -> str:
    """The page for a batch that the gate has not looked at."""
    body = (
        f"<p>There is no gate report of batch <code>{escape(batch)}</code> of migration "
        f"<code>{escape(dag_id)}</code>. Either the gate has not run, or the lake no longer keeps "
        "it; the log of the validate task says more.</p>"
    )
    return _PAGE.format(title="No gate report", body=body)


def unreadable(dag_id: str, batch: str, sentence: str) -> str:
    """The page for a report that cannot be looked for, with the reason."""
    body = (
        f"<p>The gate report of batch <code>{escape(batch)}</code> of migration "
        f"<code>{escape(dag_id)}</code> cannot be read by this web server.</p>"
        f"<p>{escape(sentence)}</p>"
    )
    return _PAGE.format(title="The gate report cannot be read", body=body)
