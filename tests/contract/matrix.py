"""The tables of `docs/formats.md`, from the declarations: `python -m tests.contract.matrix`."""

from __future__ import annotations

from pathlib import Path

from waybill.envelopes import registry
from waybill.envelopes.protocol import CAPABILITIES, Envelope

PAGE = Path(__file__).resolve().parents[2] / "docs" / "formats.md"
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
    return "\n".join(lines) + "\n"


def page() -> str:
    """The page with its tables made anew."""
    text = PAGE.read_text(encoding="utf-8")
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{tables()}\n{END}{after}"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
