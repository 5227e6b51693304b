"""Partition keys of every kind."""

import pytest
from azure.cosmos import PartitionKey, exceptions
from azure.cosmos.partition_key import NonePartitionKeyValue, NullPartitionKeyValue


@pytest.mark.parametrize("key", ["text", "", "é日本🚀", 5, -1.5, 2**40, True, False, "x" * 2000])
def test_keys_of_every_type(container, key):
    container.create_item({"id": "1", "pk": key})
    assert container.read_item("1", key)["pk"] == key
    container.replace_item("1", {"id": "1", "pk": key, "n": 2})
    found = list(container.query_items("SELECT * FROM c", partition_key=key))
    assert [item["n"] for item in found] == [2]
    container.delete_item("1", key)


def test_null_and_missing_keys_are_different(container):
    container.create_item({"id": "1", "pk": None, "is": "null"})
    container.create_item({"id": "1", "is": "missing"})
    assert container.read_item("1", NullPartitionKeyValue)["is"] == "null"
    assert container.read_item("1", NonePartitionKeyValue)["is"] == "missing"
    container.delete_item("1", NonePartitionKeyValue)
    assert container.read_item("1", NullPartitionKeyValue)["is"] == "null"


def test_the_same_id_lives_under_several_keys(container):
    container.create_item({"id": "1", "pk": "a", "from": "a"})
    container.create_item({"id": "1", "pk": "b", "from": "b"})
    assert container.read_item("1", "a")["from"] == "a"
    assert container.read_item("1", "b")["from"] == "b"


def test_hierarchical_keys(database):
    key = PartitionKey(["/tenant", "/user", "/session"], kind="MultiHash")
    container = database.create_container("levels", key)
    assert container.read()["partitionKey"]["kind"] == "MultiHash"
    for tenant in "ab":
        for user in "xy":
            container.create_item({"id": "1", "tenant": tenant, "user": user, "session": "s"})
    assert container.read_item("1", ["a", "x", "s"])["user"] == "x"
    container.replace_item("1", {"id": "1", "tenant": "a", "user": "x", "session": "s", "n": 2})
    assert container.read_item("1", ["a", "x", "s"])["n"] == 2
    of_tenant = container.query_items("SELECT * FROM c", partition_key=["a"])
    assert {item["user"] for item in of_tenant} == {"x", "y"}
    container.delete_item("1", ["a", "x", "s"])
    with pytest.raises(exceptions.CosmosResourceNotFoundError):
        container.read_item("1", ["a", "x", "s"])


def test_the_old_hash(database):
    container = database.create_container("v1", PartitionKey("/pk", version=1))
    for key in ["a", 5, "x" * 150]:
        container.create_item({"id": "1", "pk": key})
        assert container.read_item("1", key)["pk"] == key


def test_a_key_cannot_change(container):
    container.create_item({"id": "1", "pk": "a"})
    with pytest.raises(exceptions.CosmosHttpResponseError) as refused:
        container.replace_item("1", {"id": "1", "pk": "b"})
    assert refused.value.status_code in (400, 404)
    assert container.read_item("1", "a")["pk"] == "a"
