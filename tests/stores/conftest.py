"""One server of each kind for all tests that ask for it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.stores.servers import Buckets, Postgres, Redis


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    server = Postgres()
    yield server
    server.close()


@pytest.fixture(scope="session")
def redis() -> Iterator[Redis]:
    server = Redis()
    yield server
    server.close()


@pytest.fixture(scope="session")
def buckets() -> Iterator[Buckets]:
    server = Buckets()
    yield server
    server.close()


@pytest.fixture
def bucket(bucket_server: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> str:
    """The address of an emulated bucket, whose settings are in the environment."""
    for name, value in bucket_server.items():
        monkeypatch.setenv(name, value)
    return "s3://fleet/some/prefix"


@pytest.fixture(scope="session")
def bucket_server() -> Iterator[dict[str, str]]:
    moto = pytest.importorskip("moto.server")
    boto3 = pytest.importorskip("boto3")
    server = moto.ThreadedMotoServer(port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    address = f"http://{host}:{port}"
    client = boto3.client(
        "s3", endpoint_url=address, region_name="us-east-1",
        aws_access_key_id="x", aws_secret_access_key="x",
    )  # fmt: skip
    client.create_bucket(Bucket="fleet")
    client.close()
    yield {
        "AWS_ENDPOINT": address,
        "AWS_ALLOW_HTTP": "true",
        "AWS_REGION": "us-east-1",
        "AWS_ACCESS_KEY_ID": "x",
        "AWS_SECRET_ACCESS_KEY": "x",
    }
    server.stop()
