"""Local paths, and addresses that are not."""

from __future__ import annotations

from pathlib import Path

import pytest

from wirelake.wire.paths import AddressError, local_path


@pytest.mark.parametrize(
    "address",
    [
        "s3a://bucket/lake",
        "S3://bucket",
        "hdfs://head:9000/lake",
        "hdfs:/lake",
        "gs://bucket",
        "abfss://container@account/lake",
        "dbfs:/mnt/lake",
        "http://host/x.pcap",
        "file://other-host/lake",
        Path("s3a://bucket/lake"),
    ],
)
def test_an_address_with_a_scheme_is_refused(address: str | Path) -> None:
    with pytest.raises(AddressError, match=r"unsupported scheme '.*'; expected a local path"):
        local_path(address)


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("lake", "lake"),
        ("/data/lake", "/data/lake"),
        ("./s3a:/lake", "s3a:/lake"),
        ("tap-a:1.pcap", "tap-a:1.pcap"),
        ("folder/s3a://x", "folder/s3a:/x"),
        ("c:/x", "c:/x"),
        ("file:///data/a%20lake", "/data/a lake"),
        ("file:/data/lake", "/data/lake"),
        ("file://localhost/data", "/data"),
        ("file:///data/what?#1.pcap", "/data/what?#1.pcap"),
    ],
)
def test_other_texts_are_paths(text: str, path: str) -> None:
    assert local_path(text) == Path(path)
