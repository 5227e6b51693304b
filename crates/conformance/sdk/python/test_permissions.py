"""Users, permissions, and tokens that open only what they should."""

import pytest
from azure.cosmos import CosmosClient, PartitionKey, exceptions

from conftest import ENDPOINT


@pytest.fixture
def user(database):
    return database.create_user({"id": "ann"})


def limited(permission, resource):
    return CosmosClient(ENDPOINT, {resource: permission.properties["_token"]})


def refused(call):
    with pytest.raises(exceptions.CosmosHttpResponseError) as error:
        call()
    assert error.value.status_code == 403


def test_users_and_permissions_come_and_go(database, user, container):
    assert [each["id"] for each in database.list_users()] == ["ann"]
    made = user.create_permission({"id": "p", "permissionMode": "Read", "resource": container.container_link})
    assert made.permission_mode == "Read"
    assert [each["id"] for each in user.list_permissions()] == ["p"]
    changed = user.replace_permission("p", {"id": "p", "permissionMode": "All", "resource": container.container_link})
    assert changed.permission_mode == "All"
    with pytest.raises(exceptions.CosmosResourceExistsError):
        user.create_permission({"id": "p", "permissionMode": "Read", "resource": container.container_link})
    user.delete_permission("p")
    with pytest.raises(exceptions.CosmosResourceNotFoundError):
        user.get_permission("p")
    database.delete_user("ann")


def test_a_token_to_read_does_not_write(database, user, container):
    container.create_item({"id": "1", "pk": "a"})
    other = database.create_container("other", PartitionKey("/pk"))
    permission = user.create_permission({"id": "p", "permissionMode": "Read", "resource": container.container_link})
    with limited(permission, container.container_link) as client:
        seen = client.get_database_client(database.id).get_container_client(container.id)
        assert seen.read_item("1", "a")["pk"] == "a"
        assert len(list(seen.read_all_items())) == 1
        refused(lambda: seen.create_item({"id": "2", "pk": "a"}))
        refused(lambda: seen.replace_item("1", {"id": "1", "pk": "a"}))
        refused(lambda: seen.delete_item("1", "a"))
        refused(lambda: database_of(client, database).delete_container(container.id))
    with CosmosClient(ENDPOINT, {other.container_link: permission.properties["_token"]}) as client:
        unseen = client.get_database_client(database.id).get_container_client("other")
        refused(lambda: unseen.read_item("1", "a"))


def database_of(client, database):
    return client.get_database_client(database.id)


def test_a_token_for_all_writes(database, user, container):
    permission = user.create_permission({"id": "p", "permissionMode": "All", "resource": container.container_link})
    with limited(permission, container.container_link) as client:
        seen = client.get_database_client(database.id).get_container_client(container.id)
        seen.create_item({"id": "1", "pk": "a"})
        seen.upsert_item({"id": "1", "pk": "a", "n": 2})
        assert seen.read_item("1", "a")["n"] == 2
        seen.delete_item("1", "a")


def test_a_token_for_one_key(database, user, container):
    container.create_item({"id": "1", "pk": "a"})
    container.create_item({"id": "1", "pk": "b"})
    body = {"id": "p", "permissionMode": "All", "resource": container.container_link, "resourcePartitionKey": ["a"]}
    permission = user.create_permission(body)
    with limited(permission, container.container_link) as client:
        seen = client.get_database_client(database.id).get_container_client(container.id)
        assert seen.read_item("1", "a")["pk"] == "a"
        refused(lambda: seen.read_item("1", "b"))
        refused(lambda: seen.upsert_item({"id": "2", "pk": "b"}))
        seen.upsert_item({"id": "2", "pk": "a"})


def test_a_wrong_key_is_refused():
    with pytest.raises(exceptions.CosmosHttpResponseError) as error:
        CosmosClient(ENDPOINT, "d3Jvbmc=" * 8).get_database_client("x").read()
    assert error.value.status_code == 401
