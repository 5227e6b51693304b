"""Patch, transactional batch, and deletes by partition key."""

import pytest
from azure.core import MatchConditions
from azure.cosmos import exceptions


@pytest.fixture
def item(container):
    return container.create_item({"id": "1", "pk": "a", "n": 1, "tags": ["x"], "nested": {"deep": True}})


def status(call):
    with pytest.raises(exceptions.CosmosHttpResponseError) as error:
        call()
    return error.value.status_code


def test_patch(container, item):
    operations = [
        {"op": "add", "path": "/color", "value": "red"},
        {"op": "set", "path": "/nested/deep", "value": False},
        {"op": "replace", "path": "/tags/0", "value": "y"},
        {"op": "add", "path": "/tags/-", "value": "z"},
        {"op": "incr", "path": "/n", "value": 2},
        {"op": "move", "from": "/color", "path": "/nested/color"},
    ]
    patched = container.patch_item("1", "a", operations)
    assert patched["n"] == 3 and patched["tags"] == ["y", "z"]
    assert patched["nested"] == {"deep": False, "color": "red"} and "color" not in patched
    assert patched["_etag"] != item["_etag"] and patched["_rid"] == item["_rid"]
    assert container.read_item("1", "a")["n"] == 3
    removed = container.patch_item("1", "a", [{"op": "remove", "path": "/nested"}])
    assert "nested" not in removed


def test_patch_conditions(container, item):
    increment = [{"op": "incr", "path": "/n", "value": 1}]
    container.patch_item("1", "a", increment, filter_predicate="from c where c.n = 1")
    assert status(lambda: container.patch_item("1", "a", increment, filter_predicate="from c where c.n = 1")) == 412
    stale = {"etag": item["_etag"], "match_condition": MatchConditions.IfNotModified}
    assert status(lambda: container.patch_item("1", "a", increment, **stale)) == 412
    assert status(lambda: container.patch_item("2", "a", increment)) == 404
    assert status(lambda: container.patch_item("1", "a", [{"op": "set", "path": "/pk", "value": "b"}])) == 400
    assert status(lambda: container.patch_item("1", "a", increment * 11)) == 400
    assert container.read_item("1", "a")["n"] == 2


def test_batch(container, item):
    results = container.execute_item_batch(
        [
            ("create", ({"id": "2", "pk": "a", "n": 1},)),
            ("upsert", ({"id": "3", "pk": "a"},)),
            ("read", ("1",)),
            ("replace", ("1", {"id": "1", "pk": "a", "n": 7}), {"if_match_etag": item["_etag"]}),
            ("patch", ("2", [{"op": "incr", "path": "/n", "value": 4}])),
            ("delete", ("3",)),
        ],
        "a",
    )
    assert [each["statusCode"] for each in results] == [201, 201, 200, 200, 200, 204]
    assert results[2]["resourceBody"]["n"] == 1 and results[4]["resourceBody"]["n"] == 5
    assert all(each["requestCharge"] > 0 for each in results)
    assert results[0]["eTag"] == results[0]["resourceBody"]["_etag"]
    assert container.read_item("1", "a")["n"] == 7


def test_a_batch_that_fails_leaves_nothing(container, item):
    with pytest.raises(exceptions.CosmosBatchOperationError) as error:
        container.execute_item_batch(
            [("create", ({"id": "2", "pk": "a"},)), ("create", ({"id": "1", "pk": "a"},)), ("delete", ("1",))], "a"
        )
    assert error.value.status_code == 409 and error.value.error_index == 1
    assert [each["statusCode"] for each in error.value.operation_responses] == [424, 409, 424]
    assert status(lambda: container.read_item("2", "a")) == 404
    with pytest.raises(exceptions.CosmosBatchOperationError) as error:
        container.execute_item_batch(
            [("delete", ("1",)), ("patch", ("1", [{"op": "incr", "path": "/n", "value": 1}]))], "a"
        )
    assert error.value.status_code == 404
    assert container.read_item("1", "a")["n"] == 1


def test_a_batch_is_one_page_of_the_change_feed(container):
    container.execute_item_batch([("create", ({"id": str(n), "pk": "a"},)) for n in range(100)], "a")
    pages = container.query_items_change_feed(start_time="Beginning", max_item_count=1).by_page()
    assert len(list(next(pages))) == 100
    too_many = [("create", ({"id": f"x{n}", "pk": "a"},)) for n in range(101)]
    assert status(lambda: container.execute_item_batch(too_many, "a")) == 400


def test_delete_by_partition_key(container):
    for n in range(30):
        container.create_item({"id": str(n), "pk": "a"})
    container.create_item({"id": "kept", "pk": "b"})
    container.delete_all_items_by_partition_key("a")
    assert [each["id"] for each in container.read_all_items()] == ["kept"]
    assert status(lambda: container.read_item("1", "a")) == 404
    container.create_item({"id": "1", "pk": "a", "new": True})
    assert container.read_item("1", "a")["new"]


@pytest.mark.asyncio
async def test_async_batch_and_patch(aio_container):
    await aio_container.create_item({"id": "1", "pk": "a", "n": 1})
    patch = [{"op": "incr", "path": "/n", "value": 1}]
    assert (await aio_container.patch_item("1", "a", patch))["n"] == 2
    results = await aio_container.execute_item_batch([("patch", ("1", patch)), ("read", ("1",))], "a")
    assert results[1]["resourceBody"]["n"] == 3
