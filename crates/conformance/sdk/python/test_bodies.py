"""What is stored comes back as it was sent: names, text, numbers, size."""

import uuid

import pytest
from azure.cosmos import exceptions

ODD_IDS = ["a b+é%", "日本語", "🚀", "UPPER lower", "dots.and-dashes_", "'quoted'", "a&b=c", "x" * 1000, "ключ:[]{}", "%20"]


@pytest.mark.parametrize("item_id", ODD_IDS)
def test_odd_ids(container, item_id):
    container.create_item({"id": item_id, "pk": "a"})
    assert container.read_item(item_id, "a")["id"] == item_id
    container.replace_item(item_id, {"id": item_id, "pk": "a", "n": 1})
    container.delete_item(item_id, "a")


def test_odd_names_of_databases_and_containers(client):
    from azure.cosmos import PartitionKey

    name = f"dätabase +% {uuid.uuid4()}"
    database = client.create_database(name)
    try:
        container = database.create_container("cöntainer 日本 +%", PartitionKey("/pk"))
        container.create_item({"id": "1", "pk": "a"})
        assert container.read_item("1", "a")["pk"] == "a"
        assert container.read()["id"] == "cöntainer 日本 +%"
    finally:
        client.delete_database(name)


def test_text_of_all_planes(container):
    text = "".join(map(chr, [*range(0, 0x250), 0x2028, 0x2029, 0xFFFD, 0xFFFF, 0x1F600, 0x10FFFF]))
    made = container.create_item({"id": "1", "pk": "a", "text": text, text[65:200]: "as a name"})
    assert made["text"] == text
    assert container.read_item("1", "a")[text[65:200]] == "as a name"


def test_numbers(container):
    numbers = [0, -1, 1.5, 1e300, 5e-324, 2**53, 2**63, 10**30, 0.1, -0.0, 1.7976931348623157e308]
    container.create_item({"id": "1", "pk": "a", "numbers": numbers})
    back = container.read_item("1", "a")["numbers"]
    assert [repr(n) for n in back] == [repr(n) for n in numbers]


def test_order_of_members_and_nesting(container):
    body = {"z": 1, "id": "1", "a": {"z": [{}, [], None, True, {"b": 1, "a": 2}]}, "pk": "a", "": ""}
    container.create_item(body)
    back = container.read_item("1", "a")
    assert [key for key in back if not key.startswith("_")] == list(body)
    assert back["a"] == body["a"] and list(back["a"]["z"][4]) == ["b", "a"]


def test_an_item_of_almost_two_megabytes(container):
    text = "x" * (2 * 1024 * 1024 - 600)
    container.create_item({"id": "1", "pk": "a", "text": text})
    assert container.read_item("1", "a")["text"] == text


def test_an_item_of_more_than_two_megabytes(container):
    with pytest.raises(exceptions.CosmosHttpResponseError) as refused:
        container.create_item({"id": "1", "pk": "a", "text": "x" * (2 * 1024 * 1024 + 1)})
    assert refused.value.status_code == 413
    with pytest.raises(exceptions.CosmosResourceNotFoundError):
        container.read_item("1", "a")


def test_deep_nesting(container):
    deep = None
    for _ in range(100):
        deep = [deep]
    container.create_item({"id": "1", "pk": "a", "deep": deep})
    assert container.read_item("1", "a")["deep"] == deep
