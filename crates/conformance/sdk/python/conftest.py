"""What the tests share: clients of the running server, and databases that go away again."""

import os
import uuid

import pytest
import pytest_asyncio
from azure.cosmos import CosmosClient, PartitionKey
from azure.cosmos.aio import CosmosClient as AioClient

ENDPOINT = os.environ["ASTRARIUM_ENDPOINT"]
KEY = os.environ["ASTRARIUM_KEY"]


@pytest.fixture(scope="session")
def client():
    return CosmosClient(ENDPOINT, KEY)


@pytest.fixture
def database(client):
    made = client.create_database(f"py-{uuid.uuid4()}")
    yield made
    client.delete_database(made.id)


@pytest.fixture
def container(database):
    return database.create_container("items", PartitionKey("/pk"))


@pytest_asyncio.fixture
async def aio_client():
    async with AioClient(ENDPOINT, KEY) as client:
        yield client


@pytest_asyncio.fixture
async def aio_database(aio_client):
    made = await aio_client.create_database(f"py-aio-{uuid.uuid4()}")
    yield made
    await aio_client.delete_database(made.id)


@pytest_asyncio.fixture
async def aio_container(aio_database):
    return await aio_database.create_container("items", PartitionKey("/pk"))
