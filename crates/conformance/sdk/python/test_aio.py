"""The asynchronous client, which has its own transport and its own caches."""

import asyncio

import pytest
from azure.core import MatchConditions
from azure.cosmos import PartitionKey, exceptions


async def test_items_come_and_go(aio_container):
    made = await aio_container.create_item({"id": "1", "pk": "a", "n": 1})
    assert await aio_container.read_item("1", "a") == made
    replaced = await aio_container.replace_item("1", {"id": "1", "pk": "a", "n": 2})
    assert replaced["n"] == 2
    assert (await aio_container.upsert_item({"id": "1", "pk": "a", "n": 3}))["n"] == 3
    await aio_container.delete_item("1", "a")
    with pytest.raises(exceptions.CosmosResourceNotFoundError):
        await aio_container.read_item("1", "a")


async def test_many_at_once(aio_container):
    async def one(n):
        await aio_container.create_item({"id": str(n), "pk": str(n % 7), "n": n})
        return (await aio_container.read_item(str(n), str(n % 7)))["n"]

    assert await asyncio.gather(*(one(n) for n in range(200))) == list(range(200))
    assert len([item async for item in aio_container.read_all_items()]) == 200


async def test_of_many_writers_with_one_etag_exactly_one_wins(aio_container):
    made = await aio_container.create_item({"id": "1", "pk": "a", "n": 0})

    async def attempt(n):
        try:
            conditions = {"etag": made["_etag"], "match_condition": MatchConditions.IfNotModified}
            await aio_container.replace_item("1", {"id": "1", "pk": "a", "n": n}, **conditions)
            return 1
        except exceptions.CosmosAccessConditionFailedError:
            return 0

    assert sum(await asyncio.gather(*(attempt(n) for n in range(50)))) == 1


async def test_of_many_creators_exactly_one_wins(aio_container):
    async def attempt(n):
        try:
            await aio_container.create_item({"id": "1", "pk": "a", "n": n})
            return 1
        except exceptions.CosmosResourceExistsError:
            return 0

    assert sum(await asyncio.gather(*(attempt(n) for n in range(50)))) == 1


async def test_pages(aio_container):
    for n in range(25):
        await aio_container.create_item({"id": f"{n:02}", "pk": "a"})
    sizes = []
    query = aio_container.query_items("SELECT * FROM c", partition_key="a", max_item_count=10)
    async for page in query.by_page():
        sizes.append(len([item async for item in page]))
    assert sizes == [10, 10, 5]


async def test_hierarchical_keys_and_throughput(aio_database):
    key = PartitionKey(["/tenant", "/user"], kind="MultiHash")
    container = await aio_database.create_container("levels", key, offer_throughput=500)
    await container.create_item({"id": "1", "tenant": "a", "user": "x"})
    assert (await container.read_item("1", ["a", "x"]))["user"] == "x"
    assert (await container.get_throughput()).offer_throughput == 500
    await container.replace_throughput(600)
    assert (await container.get_throughput()).offer_throughput == 600


async def test_users_and_permissions(aio_database, aio_container):
    user = await aio_database.create_user({"id": "ann"})
    link = aio_container.container_link
    made = await user.create_permission({"id": "p", "permissionMode": "Read", "resource": link})
    assert made.properties["_token"].startswith("type=resource")
    assert [each["id"] async for each in user.list_permissions()] == ["p"]
