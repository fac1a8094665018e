"""The tables of pages that come from the code; `make docs` writes them."""

from __future__ import annotations

from pathlib import Path

from tests.contract import reference
from waybill.envelopes import registry
from waybill.envelopes.sequence.written import SIGNED, UNSIGNED
from waybill.protocol import CAPABILITIES, Envelope
from waybill.sequence_layout import POSITION_DIGITS, SequenceLayout

DOCS = Path(__file__).resolve().parents[2] / "docs"
BEGIN, END = "<!-- made from the declarations -->\n", "<!-- end -->\n"


def cell(envelope: Envelope, capability: str) -> str:
    if capability in envelope.partly:
        return "in part"
    return "yes" if capability in envelope.carries else "no"


def tables() -> str:
    """Who carries what, and the limits in words."""
    envelopes = registry.all_envelopes()
    lines = ["| can carry | " + " | ".join(f"`{e.name}`" for e in envelopes) + " |"]
    lines.append("|---" * (len(envelopes) + 1) + "|")
    for name, meaning in CAPABILITIES.items():
        cells = " | ".join(cell(envelope, name) for envelope in envelopes)
        lines.append(f"| `{name}`: {meaning} | {cells} |")
    for envelope in envelopes:
        lines += ["", f"**`{envelope.name}`** ({envelope.title}). Order: {envelope.sequence}."]
        lines += [f"Message key: {envelope.key_by}.", ""]
        lines += [f"- `{name}` in part: {limit}." for name, limit in envelope.partly.items()]
        lines += [f"- `{name}` is read and not written." for name in sorted(envelope.brings)]
        lines += [
            f"- `{limit.capability}` in part with `{limit.under}`: {limit.sentence}."
            for limit in envelope.limits
        ]
        names = [f"`{name}` ({becomes})" for name, becomes in envelope.not_written.items()]
        lines += ["", f"Not written: {'; '.join(names)}."] if names else []
    return "\n".join(lines) + "\n"


def orders() -> str:
    """How each format is ordered, and what its ids become where there is room for one number."""
    lines = ["| envelope | what orders its messages | as one number |", "|---|---|---|"]
    for envelope in registry.all_envelopes():
        layouts = "; ".join(map(layout_text, envelope.layouts)) or "made from the position"
        lines.append(f"| `{envelope.name}` | {envelope.sequence} | {layouts} |")
    return "\n".join(lines) + "\n"


def layout_text(layout: SequenceLayout) -> str:
    """A layout in words."""
    first, *rest = layout.parts
    parts = [first]
    for place, width in enumerate(layout.digits):
        name = rest[place] if place < len(rest) else f"part {place + 2}"
        if width:
            parts.append(f"{name} ({width})")
    if layout.shared:
        parts.append(f"position ({POSITION_DIGITS})")
    text = " + ".join(parts) if len(parts) > 1 else "as it is"
    room = layout.fits(UNSIGNED), layout.fits(SIGNED)
    bits = {(True, True): "", (True, False): ", 64 bits without sign"}.get(room, ", wide")
    return f"{', '.join(layout.connector)}{': ' if layout.connector else ''}{text}{bits}"


PAGES = {
    DOCS / "envelopes.md": tables,
    DOCS / "order.md": orders,
    DOCS / "migrations.md": reference.fields,
    DOCS / "runbook.md": reference.codes,
}
"""The pages, and what makes their tables."""


def page(path: Path) -> str:
    """A page with its tables made anew."""
    text = path.read_text(encoding="utf-8")
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{PAGES[path]()}\n{END}{after}"


if __name__ == "__main__":
    for path in PAGES:
        path.write_text(page(path), encoding="utf-8")
