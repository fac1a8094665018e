"""Settings of Iceberg for a warehouse in object storage, and whether it is reached."""

from __future__ import annotations

from typing import TYPE_CHECKING

from waybill.storage.objects.places import Access, ObjectPlace, access_to, is_object_url, place_of

if TYPE_CHECKING:
    from waybill.spec.migration import Migration

AWS_JAR = "iceberg-aws-bundle"
"""The jar with AWS's clients: large, and not needed for a lake on a disk."""

FILE_IO = "org.apache.iceberg.aws.s3.S3FileIO"

PATIENCE = {
    # A server that is busy gets about twenty seconds; one that is away is reported before.
    "s3.retry.num-retries": "8",
    "s3.retry.min-wait-ms": "200",
    "s3.retry.max-wait-ms": "5000",
}

JAVA_OPTIONS = (
    "-Daws.requestChecksumCalculation=WHEN_REQUIRED -Daws.responseChecksumValidation=WHEN_REQUIRED"
)
"""Newer kinds of checksums are not taken by every store that speaks S3's protocol."""


def warehouse_place(spec: Migration) -> ObjectPlace | None:
    """Where the warehouse is in object storage, None where it is not there."""
    warehouse = spec.lake.warehouse
    return place_of(warehouse) if is_object_url(warehouse) else None


def needs_aws(spec: Migration) -> bool:
    """Whether Spark needs the jar of AWS's clients."""
    catalog = spec.lake.catalog
    kind = str(catalog.get("type") or catalog.get("catalog-impl") or "").lower()
    files = str(catalog.get("io-impl", FILE_IO))
    return kind.endswith(("glue", "gluecatalog", "dynamodbcatalog")) or (
        is_object_url(spec.lake.warehouse) and files == FILE_IO
    )


def file_properties(place: ObjectPlace) -> dict[str, str]:
    """Catalog properties to reach the warehouse with, the key among them.

    Raises:
        ConfigurationError: the warehouse's connection is not there, or cannot be used.
    """
    access = access_to(place)
    # The connection stays out of the tables' metadata, which other programs read, too.
    warehouse = f"s3://{place.bucket}/{place.key}".rstrip("/")
    given = {
        "client.region": access.region or ("us-east-1" if access.endpoint else ""),
        "s3.endpoint": access.endpoint,
        "s3.path-style-access": "true" if access.style == "path" else "",
        "s3.chunked-encoding-enabled": "false" if place.scheme == "oss" else "",
        "s3.access-key-id": access.key_id,
        "s3.secret-access-key": access.secret,
        "s3.session-token": access.token,
    }
    given_properties = {name: value for name, value in given.items() if value}
    return {"warehouse": warehouse, "io-impl": FILE_IO, **PATIENCE, **given_properties}


def check_reachable(spec: Migration) -> None:
    """Say what is wrong with the warehouse's bucket or key before Java finds out, which takes long.

    Raises:
        ConfigurationError: there is no such bucket, or the key is not taken.
        UnavailableError: the server cannot be reached.
    """
    place = warehouse_place(spec)
    if place is not None:
        from waybill.storage.objects.client import check_bucket

        access: Access = access_to(place)
        check_bucket(place, access)
