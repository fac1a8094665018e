"""URLs of object storage, and what their connections say."""

from __future__ import annotations

import json
import os

import pytest

from waybill.errors import ConfigurationError
from waybill.spec.migration import Migration
from waybill.storage.objects.places import Access, ObjectPlace, access_to, is_object_url, place_of


@pytest.fixture
def connect(monkeypatch: pytest.MonkeyPatch):
    for name in [name for name in os.environ if name.startswith("AIRFLOW_CONN_")]:
        monkeypatch.delenv(name)

    def set_connection(name: str, **fields) -> None:
        monkeypatch.setenv(f"AIRFLOW_CONN_{name.upper()}", json.dumps(fields))

    return set_connection


@pytest.mark.parametrize(
    ("url", "place", "connection"),
    [
        ("s3://bucket/a/b.jsonl", ObjectPlace("s3", "", "bucket", "a/b.jsonl"), "aws_default"),
        ("s3://bucket", ObjectPlace("s3", "", "bucket", ""), "aws_default"),
        ("s3://bucket//a/", ObjectPlace("s3", "", "bucket", "a"), "aws_default"),
        ("oss://bucket/a@b", ObjectPlace("oss", "", "bucket", "a@b"), "oss_default"),
        ("s3://mine@bucket/a", ObjectPlace("s3", "mine", "bucket", "a"), "mine"),
    ],
)
def test_what_a_url_names(url: str, place: ObjectPlace, connection: str) -> None:
    assert is_object_url(url)
    assert place_of(url) == place
    assert place_of(place.url) == place
    assert place.connection_name == connection


@pytest.mark.parametrize("path", ["/a/s3", "s3", "file:///a", "memory://s3", "a/s3://b", ""])
def test_other_paths_are_none(path: str) -> None:
    assert not is_object_url(path)


def test_a_url_without_bucket_or_with_a_key_is_refused() -> None:
    for url in ("s3://", "s3:///a", "s3://mine@/a"):
        with pytest.raises(ConfigurationError, match="names no bucket"):
            place_of(url)
    with pytest.raises(ConfigurationError, match="holds a key") as caught:
        place_of("s3://id:secret-text@bucket/a")
    assert "secret-text" not in str(caught.value)


def test_a_connection_as_airflow_keeps_it(connect) -> None:
    connect(
        "aws_default",
        login="k",
        password="p",
        extra=json.dumps(
            {
                "region_name": "eu-central-1",
                "service_config": {"s3": {"endpoint_url": "http://h:1/"}},
                "endpoint_url": "http://elsewhere",
                "aws_session_token": "t",
                "config_kwargs": {
                    "s3": {"addressing_style": "virtual"},
                    "retries": {"max_attempts": 9},
                },
                "conditional_puts": "False",
            }
        ),
    )
    access = access_to(place_of("s3://bucket/a"))
    assert access == Access(
        *("aws_default", "http://h:1", "eu-central-1", "virtual", "k", "p", "t", 9, False)
    )
    assert "'p'" not in repr(access)
    assert "'k'" not in repr(access)


def test_without_a_connection_aws_decides(connect) -> None:
    assert access_to(place_of("s3://bucket/a")) == Access("aws_default")
    connect("aws_default", conn_type="aws")
    assert access_to(place_of("s3://bucket/a")) == Access("aws_default")
    with pytest.raises(ConfigurationError, match="there is no connection mine"):
        access_to(place_of("s3://mine@bucket/a"))


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"login": "k"}, "only one of login"),
        ({"extra": {"role_arn": "arn:x"}}, "holds role_arn"),
        ({"extra": {"endpoint_url": "host:9000"}}, "write https://host:9000"),
        (
            {"extra": {"config_kwargs": {"s3": {"addressing_style": "odd"}}}},
            "not one of auto, path",
        ),
        ({"extra": {"config_kwargs": {"retries": {"max_attempts": 0}}}}, "not a number above 0"),
        ({"extra": {"conditional_puts": "perhaps"}}, "neither true nor false"),
    ],
)
def test_what_a_connection_may_not_say(connect, fields, sentence: str) -> None:
    connect("mine", **fields)
    with pytest.raises(ConfigurationError, match=sentence):
        access_to(place_of("s3://mine@bucket/a"))


def test_a_migration_names_the_connections_of_its_places() -> None:
    spec = Migration.model_validate(
        {
            "name": "m",
            "source": {
                "files": {"path": "s3://in@b/x"},
                "envelope": "canal",
                "schemas": {"file": "s3://schemas@b/s.json"},
            },
            "full": {"a.b": {"path": "oss://b/dump"}},
            "quality": {"suites": ["changes", "s3://suites@b/s.json"]},
            "publish": [
                {"envelope": "canal", "files": {"path": "s3://b/out"}},
                {"envelope": "dms", "files": {"path": "/out"}},
                {"envelope": "maxwell", "kafka": {"topic": "t"}},
            ],
            "lake": {"warehouse": "s3://lake@b/w", "catalog": {"type": "rest", "connection": "c"}},
        }
    )
    named = ["aws_default", "c", "in", "kafka_default", "lake", "oss_default", "schemas", "suites"]
    assert spec.connections == named
