"""Data Docs of a lake in object storage, built here and there, as each batch adds its pages."""

from __future__ import annotations

import json
import re

import pytest

from tests.s3.faulty import Fault
from tests.unit.validate.test_data_docs import pages, verdict
from waybill.cli import main
from waybill.errors import ConfigurationError, UnavailableError
from waybill.spec.migration import Migration
from waybill.validate.data_docs import STATE, build_site
from waybill.validate.results import keep, validation_files


@pytest.fixture
def spec(bucket, through_proxy) -> Migration:
    source = {"files": {"path": "in"}, "envelope": "canal"}
    lake = {"warehouse": f"s3://{bucket}/lake"}
    return Migration.model_validate({"name": "demo", "source": source, "lake": lake})


def asked(proxy, method: str) -> list[str]:
    """Keys that requests of a kind were about since the last call."""
    found = re.findall(rf"^{method} .*?/bucket-\w+/([^?\s]+)", "\n".join(proxy.seen), re.MULTILINE)
    proxy.spoil()
    return sorted(found)


def test_of_a_lake_in_s3_only_new_verdicts_are_read(spec, through_proxy, tmp_path):
    keep(spec, verdict("b1", 1))
    keep(spec, verdict("b2", 2))
    through_proxy.spoil()
    site = tmp_path / "site"
    assert build_site(spec, str(site)).added == 2
    assert len(asked(through_proxy, "GET")) == 2
    assert len(pages(site)) == 4
    keep(spec, verdict("b3", 3))
    through_proxy.spoil()
    assert build_site(spec, str(site)).added == 1
    (read,) = asked(through_proxy, "GET")
    assert read == (f"lake/demo/reports/_validations/{validation_files(spec)[2]}")
    assert build_site(spec, str(site)).added == 0


def test_a_site_in_s3_gets_what_is_new(spec, through_proxy, bucket, admin, tmp_path):
    place = f"s3://{bucket}/si te"
    keep(spec, verdict("b1", 1))
    through_proxy.spoil()
    built = build_site(spec, place)
    assert (built.page, built.added, built.failed) == (f"{place}/index.html", 1, [])
    sent = asked(through_proxy, "PUT")
    shared = [key for key in sent if "/static/" in key]
    assert len(sent) == len(shared) + 2 + len(("index.html", STATE))
    assert shared

    build_site(spec, str(tmp_path / "here"))
    keys = [
        item["Key"] for item in admin.list_objects_v2(Bucket=bucket, Prefix="si te/")["Contents"]
    ]
    here = [path for path in (tmp_path / "here").rglob("*") if path.is_file()]
    assert sorted(keys) == sorted(f"si te/{path.relative_to(tmp_path / 'here')}" for path in here)
    for key in keys:
        # Else a browser saves the page and does not show it.
        kind = admin.head_object(Bucket=bucket, Key=key)["ContentType"]
        assert kind.startswith(("text/", "image/", "application/j", "font/")), (key, kind)
    pages_there = [key for key in keys if "/validations/" in key]
    assert {admin.head_object(Bucket=bucket, Key=k)["ContentType"] for k in pages_there} == {
        "text/html"
    }

    keep(spec, verdict("b2", 2))
    through_proxy.spoil()
    assert build_site(spec, place).added == 1
    again = asked(through_proxy, "PUT")
    assert len(again) == 2 + 2, "two pages, the index, what the site holds"
    assert not {key for key in again if "/validations/" in key} & set(sent)
    index = admin.get_object(Bucket=bucket, Key="si te/index.html")["Body"].read().decode()
    linked = set(re.findall(r"validations/[\w./=-]+\.html", index))
    found = admin.list_objects_v2(Bucket=bucket, Prefix="si te/validations/")["Contents"]
    assert {item["Key"].removeprefix("si te/") for item in found} == linked
    assert len(linked) == 4

    through_proxy.spoil()
    assert build_site(spec, place).added == 0
    assert asked(through_proxy, "PUT") == []


def test_what_was_sent_in_part_is_sent_again(spec, through_proxy, bucket, admin):
    place = f"s3://{bucket}/site"
    keep(spec, verdict("b1", 1))
    through_proxy.spoil(Fault("PUT .*index.html", "broken", times=0))
    with pytest.raises(UnavailableError):
        build_site(spec, place)
    through_proxy.spoil()
    assert build_site(spec, place).added == 1
    assert len(admin.list_objects_v2(Bucket=bucket, Prefix="site/validations/")["Contents"]) == 2


def test_where_no_site_is_built(spec, bucket, admin):
    keep(spec, verdict("b1", 1))
    admin.put_object(Bucket=bucket, Key="mine/letters.txt", Body=b"")
    with pytest.raises(ConfigurationError, match=r"letters\.txt and is not a site of Waybill"):
        build_site(spec, f"s3://{bucket}/mine")
    state = json.dumps({"migration": "other", "verdicts": {}})
    admin.put_object(Bucket=bucket, Key=f"theirs/{STATE}", Body=state.encode())
    with pytest.raises(ConfigurationError, match="is the site of other, not of demo"):
        build_site(spec, f"s3://{bucket}/theirs")


def test_the_command_takes_a_url(spec, bucket, tmp_path, capsys):
    file = tmp_path / "demo.yaml"
    file.write_text(
        f"name: demo\nsource: {{files: {{path: in}}, envelope: canal}}\n"
        f"lake: {{warehouse: 's3://{bucket}/lake'}}\n"
    )
    keep(spec, verdict("b1", 1))
    with pytest.raises(SystemExit, match="0"):
        main(["report", str(file), "--site", f"s3://{bucket}/site", "--json"])
    document = json.loads(capsys.readouterr().out)
    assert document["page"] == f"s3://{bucket}/site/index.html"
    assert (document["added"], document["failed"]) == (1, [])
