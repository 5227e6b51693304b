"""The change feed by the asynchronous client."""

import asyncio
from datetime import datetime, timedelta, timezone

from azure.cosmos import PartitionKey


async def read(container, **options):
    changes = [change async for change in container.query_items_change_feed(**options)]
    return changes, container.client_connection.last_response_headers["etag"]


def ids(changes):
    return [change["id"] for change in changes]


async def fill(container, numbers):
    for n in numbers:
        await container.upsert_item({"id": str(n), "pk": f"k{n % 4}"})


async def test_starts_and_continuations(aio_container):
    await fill(aio_container, range(5))
    changes, continuation = await read(aio_container, start_time="Beginning")
    assert ids(changes) == ["0", "1", "2", "3", "4"]
    nothing, now = await read(aio_container, start_time="Now")
    assert nothing == []
    await fill(aio_container, [9])
    for token in [continuation, now]:
        assert ids((await read(aio_container, continuation=token))[0]) == ["9"]
    earlier = datetime.now(timezone.utc) - timedelta(hours=1)
    assert len((await read(aio_container, start_time=earlier))[0]) == 6


async def test_scopes_and_pages(aio_database):
    wide = await aio_database.create_container("wide", PartitionKey("/pk"), offer_throughput=40000)
    await fill(wide, range(40))
    assert len((await read(wide, partition_key="k1", start_time="Beginning"))[0]) == 10
    seen = []
    async for each in wide.read_feed_ranges():
        changes, _ = await read(wide, feed_range=each, start_time="Beginning")
        seen += ids(changes)
    assert sorted(seen, key=int) == [str(n) for n in range(40)]
    pages = wide.query_items_change_feed(start_time="Beginning", max_item_count=7).by_page()
    sizes = []
    async for page in pages:
        sizes.append(len([change async for change in page]))
    assert sum(sizes) == 40 and max(sizes) <= 7


async def test_a_split_in_the_middle_of_an_iteration(aio_database):
    container = await aio_database.create_container("split", PartitionKey("/pk"), offer_throughput=400)
    await fill(container, range(30))
    pages = container.query_items_change_feed(start_time="Beginning", max_item_count=5).by_page()
    seen = [change["id"] async for change in await pages.__anext__()]
    await container.replace_throughput(40000)
    while len([each async for each in container.read_feed_ranges(force_refresh=True)]) < 4:
        await asyncio.sleep(0.05)
    await fill(container, range(30, 40))
    async for page in pages:
        seen += [change["id"] async for change in page]
    assert sorted(seen, key=int) == [str(n) for n in range(40)]


async def test_all_versions_and_deletes(aio_database):
    body = {
        "id": "kept",
        "partitionKey": {"paths": ["/pk"], "kind": "Hash", "version": 2},
        "changeFeedPolicy": {"retentionDuration": 10},
    }
    await aio_database.client_connection.CreateContainer(aio_database.database_link, body)
    kept = aio_database.get_container_client("kept")
    _, continuation = await read(kept, mode="AllVersionsAndDeletes", start_time="Now")
    await kept.create_item({"id": "1", "pk": "a"})
    await kept.delete_item("1", "a")
    changes, _ = await read(kept, continuation=continuation)
    assert [each["metadata"]["operationType"] for each in changes] == ["create", "delete"]
    assert "previous" not in changes[1]
