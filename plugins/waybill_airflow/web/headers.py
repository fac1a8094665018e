"""What answers tell the browser: what a page may load, run and be shown in."""

from __future__ import annotations

HEADERS = {
    "X-Frame-Options": "SAMEORIGIN",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
    # Names and texts come out of other people's messages: nothing in them may run or load.
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'self'"
    ),
}
REPORT_HEADERS = {
    # A report is one file with its style inside, and runs nothing at all.
    "Content-Security-Policy": (
        "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; "
        "form-action 'none'; frame-ancestors 'self'; sandbox"
    ),
}
WITH_A_FORM = {
    "Content-Security-Policy": HEADERS["Content-Security-Policy"].replace(
        "form-action 'none'", "form-action 'self'"
    )
}
"""Of pages with a form, which asks for another such page."""
