"""Databases, containers and items from their making to their end."""

import pytest
from azure.cosmos import PartitionKey, exceptions


def test_databases_come_and_go(client):
    made = client.create_database("py-lifecycle")
    try:
        assert made.read()["id"] == "py-lifecycle"
        assert "py-lifecycle" in [each["id"] for each in client.list_databases()]
        found = client.query_databases("SELECT * FROM root r WHERE r.id=@id", [{"name": "@id", "value": "py-lifecycle"}])
        assert [each["id"] for each in found] == ["py-lifecycle"]
        with pytest.raises(exceptions.CosmosResourceExistsError):
            client.create_database("py-lifecycle")
        assert client.create_database_if_not_exists("py-lifecycle").id == "py-lifecycle"
    finally:
        client.delete_database("py-lifecycle")
    with pytest.raises(exceptions.CosmosResourceNotFoundError):
        client.get_database_client("py-lifecycle").read()


def test_containers_come_and_go(database):
    made = database.create_container("c", PartitionKey("/pk"), default_ttl=60)
    properties = made.read()
    assert properties["partitionKey"] == {"paths": ["/pk"], "kind": "Hash", "version": 2}
    assert properties["defaultTtl"] == 60
    assert properties["indexingPolicy"]["indexingMode"] == "consistent"
    assert [each["id"] for each in database.list_containers()] == ["c"]
    with pytest.raises(exceptions.CosmosResourceExistsError):
        database.create_container("c", PartitionKey("/pk"))
    assert database.create_container_if_not_exists("c", PartitionKey("/pk")).id == "c"
    database.replace_container(made, PartitionKey("/pk"), default_ttl=90)
    assert made.read()["defaultTtl"] == 90
    database.delete_container("c")
    with pytest.raises(exceptions.CosmosResourceNotFoundError):
        made.read()


def test_items_come_and_go(container):
    made = container.create_item({"id": "1", "pk": "a", "n": 1})
    assert made["n"] == 1 and made["_attachments"] == "attachments/"
    for system in ("_rid", "_self", "_etag", "_ts"):
        assert made[system]
    assert container.read_item("1", "a") == made
    with pytest.raises(exceptions.CosmosResourceExistsError):
        container.create_item({"id": "1", "pk": "a"})
    replaced = container.replace_item("1", {"id": "1", "pk": "a", "n": 2})
    assert replaced["n"] == 2 and replaced["_etag"] != made["_etag"] and replaced["_rid"] == made["_rid"]
    assert container.upsert_item({"id": "1", "pk": "a", "n": 3})["n"] == 3
    assert container.upsert_item({"id": "2", "pk": "a"})["id"] == "2"
    assert {item["id"] for item in container.read_all_items()} == {"1", "2"}
    container.delete_item("1", "a")
    with pytest.raises(exceptions.CosmosResourceNotFoundError):
        container.read_item("1", "a")
    with pytest.raises(exceptions.CosmosResourceNotFoundError):
        container.delete_item("1", "a")
    with pytest.raises(exceptions.CosmosResourceNotFoundError):
        container.replace_item("1", {"id": "1", "pk": "a"})


def test_items_stand_for_their_links(container):
    """An item that was read can be given in place of its id: the SDK then goes by its `_self` link."""
    made = container.create_item({"id": "1", "pk": "a"})
    assert container.read_item(made, "a") == made
    changed = container.replace_item(made, {"id": "1", "pk": "a", "n": 2})
    assert changed["n"] == 2
    container.delete_item(changed, "a")
    with pytest.raises(exceptions.CosmosResourceNotFoundError):
        container.read_item("1", "a")


def test_a_simple_query_finds_what_matches(container):
    for n in range(6):
        container.create_item({"id": str(n), "pk": "ab"[n % 2], "x": n % 3})
    query = "SELECT * FROM c WHERE c.x = @v"
    parameters = [{"name": "@v", "value": 1}]
    everywhere = container.query_items(query, parameters, enable_cross_partition_query=True)
    assert {item["id"] for item in everywhere} == {"1", "4"}
    in_one = container.query_items(query, parameters, partition_key="a")
    assert {item["id"] for item in in_one} == {"4"}


def test_generated_ids(container):
    made = container.create_item({"pk": "a"}, enable_automatic_id_generation=True)
    assert container.read_item(made["id"], "a")["id"] == made["id"]
    with pytest.raises(exceptions.CosmosHttpResponseError) as refused:
        container.create_item({"pk": "a"})
    assert refused.value.status_code == 400


def test_unique_keys_hold_within_a_partition(database):
    policy = {"uniqueKeys": [{"paths": ["/email"]}]}
    container = database.create_container("u", PartitionKey("/pk"), unique_key_policy=policy)
    container.create_item({"id": "1", "pk": "a", "email": "x"})
    container.create_item({"id": "2", "pk": "b", "email": "x"})
    with pytest.raises(exceptions.CosmosResourceExistsError):
        container.create_item({"id": "3", "pk": "a", "email": "x"})
    container.delete_item("1", "a")
    container.create_item({"id": "3", "pk": "a", "email": "x"})


def test_a_stale_client_learns_of_a_new_container_under_the_old_name(client, database):
    stale = database.create_container("again", PartitionKey("/pk"))
    stale.create_item({"id": "1", "pk": "a"})
    other = type(client)(client.client_connection.url_connection, client.client_connection.master_key)
    with other:
        fresh = other.get_database_client(database.id)
        fresh.delete_container("again")
        fresh.create_container("again", PartitionKey("/other"))
    with pytest.raises(exceptions.CosmosResourceNotFoundError):
        stale.read_item("1", "a")
    stale.create_item({"id": "2", "other": "b"})
    assert stale.read_item("2", "b")["other"] == "b"
