"""What is kept of a migration's file: its text, without what looks secret."""

from __future__ import annotations

import pytest

from waybill.spec.file import load_migration
from waybill.spec.file_text import HIDDEN, FileText, without_secrets


@pytest.mark.parametrize(
    "text",
    [
        "name: shop\nsource: {envelope: canal}\n",
        "tables: {shop.orders: {key: [id], columns: {id: int64}}}\n",
        "keys: [a, b]\nprimary_key: id\n",
        "    password: ${SECRET_OF_SHOP}\n",
        'catalog: {"password": "${P}", uri: x}\n',
        "passengers: 7\n",
        "warehouse: s3://bucket/lake\n",
        "path: s3://store@bucket/lake\n",
        "# a comment\n",
        "password:\nname: shop\n",
        "",
    ],
)
def test_what_is_not_secret_stays_as_it_is(text):
    assert without_secrets(text) == text


@pytest.mark.parametrize(
    "text",
    [
        "password: hunter2\n",
        "password: 'hunter2, and more'\n",
        'password: "hunter2 \\" more"\n',
        "spark: {spark.hadoop.fs.s3a.secret.key: hunter2, other: x}\n",
        '{"catalog": {"s3.secret-access-key":"hunter2","a":1}}',
        "S3.ACCESS-KEY-ID: hunter2\n",
        "api_key: hunter2 # mine\n",
        "auth_token : hunter2\n",
        "password: ${P:-hunter2}\n",
        "password: ${P}hunter2\n",
        "password: |\n  hunter2\n\n  hunter2\nname: shop\n",
        "  credential: >-\n    hunter2\n",
        "uri: postgresql://ann:hunter2@db/x\n",
        "uri: postgresql://ann:${P:-hunter2}@db/x\n",
        'jaas: \'org.apache.X required username="ann" password="hunter2";\'\n',
        "options: 'sslpassword=hunter2 x=1'\n",
        "passphrase: hunter2",
        "password:\n  hunter2\n",
        "tokens:\n- hunter2\n- hunter2\nname: shop\n",
        "credentials:\n  user: hunter2\n  other: hunter2\n",
        "credentials: {user: hunter2, other: [hunter2]}\n",
        "tokens: [hunter2, hunter2]\n",
        "spark:\n  spark.x.password: hunter2\n",
    ],
)
def test_what_looks_secret_is_left_out(text):
    kept = without_secrets(text)
    assert "hunter2" not in kept
    assert HIDDEN in kept
    assert without_secrets(kept) == kept, "as often as it is asked"


def test_what_stands_behind_a_secret_stays():
    kept = without_secrets("a: 1\npassword: |\n  x\nname: shop\n")
    assert kept == f"a: 1\npassword: {HIDDEN}\nname: shop\n"
    kept = without_secrets("{password: x, name: shop}\n")
    assert kept == f"{{password: {HIDDEN}, name: shop}}\n"


def test_a_digest_is_that_of_what_is_kept():
    one, other = (FileText.of(f"name: a\npassword: {word}\n") for word in ("x", "y"))
    assert one == other
    assert FileText.of("name: b\n").digest != one.digest
    assert FileText.of("name: \ud83d\n").digest


def test_a_migration_knows_its_text_and_no_value_of_a_variable(tmp_path, monkeypatch):
    monkeypatch.setenv("WAREHOUSE_OF_SHOP", str(tmp_path / "hunter2"))
    text = (
        "name: shop\nsource: {files: {path: in}, envelope: canal}\n"
        "lake: {warehouse: '${WAREHOUSE_OF_SHOP}'}\n"
    )
    file = tmp_path / "shop.yaml"
    file.write_text(text)
    spec = load_migration(file)
    assert "hunter2" in spec.lake.warehouse
    for known in (spec, spec.for_stage("merge"), spec.model_copy()):
        assert known.text == FileText.of(text)
        assert "hunter2" not in known.text.text
