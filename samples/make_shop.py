"""Makes the topic of a small shop: full rows, changes, and what goes wrong on the way.

    python samples/make_shop.py [FOLDER]

A simulated shop keeps two tables in plain dictionaries. Everything that happens to them is written
as OceanBase Migration Service would (its Default JSON form) into FOLDER/*.jsonl, and what is in the
dictionaries at the end into FOLDER/final.json. Nothing here uses the library, so that the library
can be held against it. The same run always writes the same bytes.
"""

from __future__ import annotations

import base64
import json
import random
import sys
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

SEED = 20240607
START = 1_700_000_000
"""Seconds since 1970 at which the stream begins."""

TABLES: dict[str, dict[str, Any]] = {
    "customers": {
        "key": ("region", "no"),
        "columns": {
            "region": "string",
            "no": "int32",
            "name": "string",
            "balance": "decimal(38,10)",
            "since": "date",
        },
    },
    "orders": {
        "key": ("id",),
        "columns": {
            "id": "uint64",
            "region": "string",
            "no": "int32",
            "title": "string",
            "total": "decimal(60,20)",
            "discount": "decimal(10,2)",
            "ratio": "float64",
            "paid": "int8",
            "placed": "timestamp",
            "updated": "timestamptz",
            "receipt": "bytes",
        },
    },
}

# Read as a double, the first two are one; as a signed 64-bit number, the last two do not exist.
STRANGE_IDS = (9007199254740992, 9007199254740993, 9223372036854775808, 18446744073709551615)
# Written one after the other without a separator, the first two are the same key.
STRANGE_CUSTOMERS = (("A1", 1), ("A", 11), ("日本", 7), ("", 0), ("São Paulo", -3), ("O'Brien", 2))
TEXTS = (
    "paper, A4",
    'a "quoted" word and it\'s one more',
    "back\\slash \\n not a line end",
    "tab\tand\nline end\r\n",
    "line\u2028separator, paragraph\u2029separator, next\u0085line",
    "the separator of keys: \u0001 here",
    "nul \u0000 inside",
    "🧾 👩‍👩‍👧 \U0001d54f\U0001d54e",
    "مرحبا, ｶﾅ, Ünïcödé, e\u0301",
    "",
    "null",
    " spaces around ",
    "</script><b>&amp;",
    "{'a': [1, 2]}",
    "1e400",
    "\ufffe\uffff",
)
TOTALS = (
    "9" * 40 + "." + "9" * 20,
    "-" + "9" * 40 + "." + "9" * 20,
    "1234567890123456789012345678901234567890.12345678901234567890",
    "0.00000000000000000001",
    "0.00000000000000000000",
    "1.10000000000000000000",
)
DISCOUNTS = ("1.10", "0.00", "-0.05", "99999999.99", "0.30")
RATIOS = ("-0.0", "0.1", "1.0E300", "5.0E-324", "0.30000000000000004", "1", "-2.5")

Row = dict[str, Any]


@dataclass
class Shop:
    """Two tables and the record of all that happened to them."""

    chance: random.Random
    tables: dict[str, dict[tuple[Any, ...], Row]] = field(
        default_factory=lambda: {name: {} for name in TABLES}
    )
    messages: list[str] = field(default_factory=list)
    about: list[tuple[str, str, tuple[Any, ...]]] = field(default_factory=list)
    """Operation, table and key of each message."""
    seconds: int = START
    step: int = 0
    next_id: int = 1000

    def tell(self, operation: str, table: str, before: Row | None, after: Row | None) -> None:
        """Write down one change, with the number that orders it."""
        if self.chance.random() < 0.3:
            self.seconds += self.chance.randrange(1, 90)
            self.step = 0
        self.step += 1
        sequence = self.seconds * 100_000 + self.step
        self.messages.append(
            message(operation, table, before, after, sequence, self.seconds, self.chance)
        )
        self.about.append((operation, table, key_of(table, after or before or {})))

    def insert(self, table: str, row: Row, silent: bool = False) -> None:
        """A row comes; `silent` before anybody listens."""
        self.tables[table][key_of(table, row)] = row
        if not silent:
            self.tell("INSERT", table, None, row)

    def update(self, table: str, key: tuple[Any, ...], changed: Row) -> None:
        """A row changes, perhaps its key too."""
        before = self.tables[table].pop(key)
        after = {**before, **changed}
        self.tables[table][key_of(table, after)] = after
        self.tell("UPDATE", table, before, after)

    def delete(self, table: str, key: tuple[Any, ...]) -> Row:
        """A row goes."""
        before = self.tables[table].pop(key)
        self.tell("DELETE", table, before, None)
        return before

    def heartbeat(self) -> None:
        """A sign of life."""
        self.messages.append(
            message("HEARTBEAT", None, None, None, None, self.seconds, self.chance)
        )
        self.about.append(("HEARTBEAT", "", ()))

    def any_key(self, table: str) -> tuple[Any, ...]:
        """Key of a row that is there."""
        return self.chance.choice(sorted(self.tables[table]))

    def new_customer(self, key: tuple[str, int] | None = None) -> Row:
        """A customer nobody has seen."""
        taken = self.tables["customers"]
        while key is None or key in taken:
            key = (self.chance.choice(("EU", "US", "日本", "A")), self.chance.randrange(1, 500))
        return {"region": key[0], "no": key[1], **self.customer_values()}

    def customer_values(self) -> Row:
        """What may change about a customer."""
        c = self.chance
        day = date(2015, 1, 1) + timedelta(days=c.randrange(3000))
        return {
            "name": c.choice((None, "Ada", "Grace", *TEXTS)),
            "balance": f"{c.randrange(-(10**12), 10**12)}.{c.randrange(10**10):010d}",
            "since": c.choice((None, day.isoformat(), day.isoformat())),
        }

    def new_order(self, number: int | None = None) -> Row:
        """An order nobody has seen."""
        if number is None:
            self.next_id += 1
            number = self.next_id
        return {"id": number, **self.order_values()}

    def order_values(self) -> Row:
        """What may change about an order."""
        c = self.chance
        region, no = self.any_key("customers")
        moment = self.seconds - c.randrange(10**7)
        fraction = c.choice(("", ".5", ".012345", ".999999", ".1"))
        return {
            "region": region,
            "no": no,
            "title": c.choice((*TEXTS, *TEXTS, None)),
            "total": c.choice((*TOTALS, f"{c.randrange(10**6)}.{c.randrange(10**20):020d}", None)),
            "discount": c.choice((*DISCOUNTS, None)),
            "ratio": c.choice((*RATIOS, None)),
            "paid": c.choice((0, 1, None)),
            "placed": c.choice((None, clock(moment) + fraction)),
            "updated": f"{moment}{fraction}",
            "receipt": c.choice((None, b"", b"\x00\xff\xfe", c.randbytes(12))),
        }

    def fresh(self, table: str) -> Row:
        """A new row for a table."""
        return self.new_customer() if table == "customers" else self.new_order()

    def values(self, table: str) -> Row:
        """New values for some columns of a row."""
        values = self.customer_values() if table == "customers" else self.order_values()
        names = self.chance.sample(sorted(values), self.chance.randrange(1, len(values) + 1))
        return {name: values[name] for name in sorted(names)}


def clock(seconds: int) -> str:
    """A wall-clock time as the source writes it."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S")


def key_of(table: str, row: Row) -> tuple[Any, ...]:
    """The values of a row's key columns."""
    return tuple(row[name] for name in TABLES[table]["key"])


def text(value: str, chance: random.Random) -> str:
    """A JSON string, sometimes with its characters escaped and sometimes as they are."""
    return json.dumps(value, ensure_ascii=chance.random() < 0.5)


def literal(kind: str, value: Any, chance: random.Random) -> str:
    """One value as JSON: numbers bare with every digit, bytes in Base64, everything else text."""
    if value is None:
        return "null"
    if kind == "bytes":
        return json.dumps(base64.b64encode(value).decode())
    if kind in ("string", "date", "timestamp", "timestamptz"):
        return text(value, chance)
    return str(value)


def struct(table: str | None, row: Row | None, chance: random.Random) -> str:
    """One image of a row as JSON."""
    if row is None or table is None:
        return "null"
    kinds = TABLES[table]["columns"]
    pairs = (f"{json.dumps(name)}:{literal(kinds[name], row[name], chance)}" for name in kinds)
    return "{" + ",".join(pairs) + "}"


def message(
    operation: str,
    table: str | None,
    before: Row | None,
    after: Row | None,
    sequence: int | None,
    seconds: int,
    chance: random.Random,
) -> str:
    """One message. Full rows have no sequence; a heartbeat has no row."""
    row = after or before
    names = TABLES[table]["key"] if table else ()
    value = "\u0001".join(str(row[name]) for name in names) if row else None
    full = operation == "ROW"
    meta: dict[str, Any] = {
        "checkpoint": value if full else str(seconds),
        "record_primary_key": "\u0001".join(names) or None,
        "source_identity": "0-0" if full else "subtopic-0",
        "record_primary_value": value,
        "dbType": "OB_MYSQL",
        "table_name": table,
        "db": "shop" if table else None,
        "timestamp": None if full else str(seconds),
    }
    if sequence is not None:
        meta |= {"storeDataSequence": sequence, "uniqueId": f"tx-{sequence}"}
    return (
        f'{{"allMetaData":{json.dumps(meta, ensure_ascii=chance.random() < 0.5)},'
        f'"prevStruct":{struct(table, before, chance)},"recordType":{json.dumps(operation)},'
        f'"postStruct":{struct(table, after, chance)}}}'
    )


def something(shop: Shop) -> None:
    """One more thing that happens in the shop."""
    table = shop.chance.choice(("customers", "orders", "orders"))
    key = shop.any_key(table)

    def gone_and_back() -> None:
        row = shop.delete(table, key)
        shop.insert(table, {**row, **shop.values(table)})

    def another_key() -> None:
        row = shop.fresh(table)
        names = TABLES[table]["key"]
        shop.update(table, key, {**shop.values(table), **{name: row[name] for name in names}})

    happenings: list[tuple[int, Callable[[], Any]]] = [
        (5, lambda: shop.update(table, key, shop.values(table))),
        (3, lambda: shop.insert(table, shop.fresh(table))),
        (2, lambda: shop.delete(table, key)),
        (1, gone_and_back),
        (1, another_key),
        (1, shop.heartbeat),
    ]
    weights = [weight for weight, _ in happenings]
    shop.chance.choices([happening for _, happening in happenings], weights)[0]()


def open_shop() -> Shop:
    """The shop as it was before anybody listened."""
    shop = Shop(random.Random(SEED))
    for key in STRANGE_CUSTOMERS:
        shop.insert("customers", shop.new_customer(key), silent=True)
    for _ in range(24):
        shop.insert("customers", shop.new_customer(), silent=True)
    for number in STRANGE_IDS:
        shop.insert("orders", shop.new_order(number), silent=True)
    for _ in range(46):
        shop.insert("orders", shop.new_order(), silent=True)
    return shop


def full_rows(shop: Shop) -> list[str]:
    """Every row as it is now, as a full synchronisation reads it."""
    return [
        message("ROW", table, None, shop.tables[table][key], None, shop.seconds, shop.chance)
        for table in TABLES
        for key in sorted(shop.tables[table])
    ]


def unsettle(shop: Shop, changes: list[str], about: list[tuple[str, str, tuple[Any, ...]]]) -> None:
    """Bring the order of the messages into disorder, without changing one of them.

    Some come late: among them an update that arrives after its row was deleted, and a row that
    arrives after its own deletion. Some come twice, as after a restart of the tool.
    """
    deleted = [at for at, (operation, _, _) in enumerate(about) if operation == "DELETE"]
    earlier = []
    for at in deleted:
        of_row = [i for i in range(at) if about[i][1:] == about[at][1:]]
        earlier += of_row[-1:]
    wanderers = {*earlier[::4], *shop.chance.sample(range(len(changes)), 12)}
    late = []
    for at in sorted(wanderers, reverse=True):
        late.append(changes.pop(at))
    for change in reversed(late):
        changes.insert(shop.chance.randrange(len(changes) // 2, len(changes) + 1), change)
    restart = shop.chance.randrange(len(changes) // 3, len(changes) // 2)
    changes[restart + 20 : restart + 20] = changes[restart : restart + 20]
    for at in sorted(shop.chance.sample(range(len(changes)), 6), reverse=True):
        changes.insert(at, changes[at])


def spoil(shop: Shop, changes: list[str]) -> None:
    """Put in the three messages that nobody can take."""
    row = shop.new_order(77)
    torn = message("INSERT", "orders", None, row, 1, shop.seconds, shop.chance)
    merged = message("MERGE", "orders", None, row, 2, shop.seconds, shop.chance)
    typed = message("INSERT", "orders", None, row, 3, shop.seconds, shop.chance)
    wrong = typed.replace('"id":77,', '"id":"seventy-seven",')
    for bad in (torn[: len(torn) * 2 // 3], merged, wrong):
        changes.insert(shop.chance.randrange(len(changes)), bad)


def image(kind: str, value: Any) -> str | None:
    """The exact text of a value."""
    if value is None:
        return None
    if kind == "bytes":
        return base64.b64encode(value).decode()
    if kind == "timestamp":
        return str(value).replace(" ", "T")
    if kind == "timestamptz":
        seconds, dot, fraction = value.partition(".")
        return clock(int(seconds)).replace(" ", "T") + dot + fraction + "Z"
    if kind == "float64":
        return repr(float(value))
    return str(value)


def final_state(shop: Shop) -> dict[str, Any]:
    """Both tables as the shop itself knows them, every value as text."""
    return {
        f"shop.{table}": {
            "key": list(TABLES[table]["key"]),
            "columns": TABLES[table]["columns"],
            "rows": [
                {name: image(kind, row[name]) for name, kind in TABLES[table]["columns"].items()}
                for _, row in sorted(rows.items())
            ],
        }
        for table, rows in shop.tables.items()
    }


def make(folder: Path) -> None:
    """Write the topic and the final state into a folder."""
    shop = open_shop()
    for _ in range(30):
        something(shop)
    full = full_rows(shop)
    for _ in range(190):
        something(shop)
    changes, truth = list(shop.messages), deepcopy(shop.tables)
    unsettle(shop, changes, shop.about)
    spoil(shop, changes)
    if shop.tables != truth:
        message = "what was written after the end has changed the tables"
        raise AssertionError(message)
    middle = len(changes) // 2
    folder.mkdir(parents=True, exist_ok=True)
    parts = {"0001-full": full, "0002-changes": changes[:middle], "0003-changes": changes[middle:]}
    for name, lines in parts.items():
        content = "".join(f"{line}\n" for line in lines)
        (folder / f"{name}.jsonl").write_bytes(content.encode())
    final = json.dumps(final_state(shop), ensure_ascii=True, indent=1)
    (folder / "final.json").write_bytes(f"{final}\n".encode())


if __name__ == "__main__":
    make(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent / "shop")
