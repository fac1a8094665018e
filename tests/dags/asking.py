"""What tests of the pages share: who asks, what is asked for, and what a browser would find."""

from __future__ import annotations

import time
from html.parser import HTMLParser
from typing import TYPE_CHECKING

from airflow.api_fastapi.core_api import security

from waybill_airflow.web.airflow_runs import RunFacts

if TYPE_CHECKING:
    from waybill_airflow.web.asking_behind import AskingBehind

HELD = "20261126T210000.000-held00"
RUN = "manual__2026-11-26T16:00:00+00:00"
FAILED = RunFacts(RUN, "failed", "20261126T080000.000-000008")


PAGES = (
    "/migrations",
    "/dags/orders_held",
    f"/batches/orders_held/{HELD}",
    f"/runs/orders_held/{RUN}",
    "/gate/orders_held/20261126T000000.000-000000",
)
ABOUT_ONE = PAGES[1:]


class Manager:
    """An auth manager that lets through what it is told to.

    Attributes:
        reads: DAGs that may be read; all where it is None.
        runs: DAGs whose runs may be seen; all where it is None.
        files: whether broken files may be seen.
        triggers: whether runs may be started.
    """

    def __init__(self) -> None:
        self.reads: set[str] | None = None
        self.runs: set[str] | None = None
        self.files = True
        self.triggers = True
        self.known: set[str] = set()

    def get_authorized_dag_ids(self, *, user, method):
        assert (user.name, method) == ("ann", "GET")
        return self.known if self.reads is None else self.reads

    def is_authorized_dag(self, *, method, user, access_entity=None, details=None):
        kinds = security.DagAccessEntity
        entities = (kinds.RUN, kinds.CODE, kinds.TASK_LOGS)
        assert user.name == "ann"
        assert access_entity in entities
        if method == "POST":
            return self.triggers
        assert method == "GET"
        return self.runs is None or details.id in self.runs

    def is_authorized_view(self, *, access_view, user):
        return self.files


class NoToken:
    """An auth manager that knows no token."""

    @staticmethod
    async def get_user_from_token(_token):
        raise security.InvalidTokenError


class Read(HTMLParser):
    """What a browser would find on a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data):
        self.words.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())

    def attributes(self, name: str) -> list[str]:
        return [attrs[name] for _, attrs in self.tags if attrs.get(name)]


def read(client, path, status=200) -> Read:
    answer = client.get(path)
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"].startswith("text/html")
    return Read(answer.text)


def figures_of(page: Read) -> tuple[list[str], list[str]]:
    words = [word.strip() for word in page.words if word.strip()]
    start = words.index("Migrations", 1) + 1
    start = next(i for i in range(start, len(words)) if words[i].startswith("of "))
    return words[start : start + 8 : 2], words[start + 1 : start + 9 : 2]


def until_idle(behind: AskingBehind) -> None:
    limit = time.monotonic() + 30
    while not behind.is_idle:
        assert time.monotonic() < limit
        time.sleep(0.001)


def held(lake) -> None:
    lake.snapshot(HELD, 10)
    lake.convert(HELD)
    lake.validate(HELD, lake.merge(HELD), passes=False)
