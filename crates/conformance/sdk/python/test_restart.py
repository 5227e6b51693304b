"""The server is killed in the middle: nothing acknowledged is lost, and the same client goes on."""

import pytest
from azure.cosmos import CosmosClient, PartitionKey

from conftest import KEY
from own_server import OwnServer


@pytest.fixture
def server():
    with OwnServer() as server:
        yield server


def test_the_same_client_goes_on_after_a_kill(server):
    with CosmosClient(server.endpoint, KEY) as client:
        container = client.create_database("d").create_container("c", PartitionKey("/pk"))
        written = [container.create_item({"id": str(n), "pk": str(n % 3), "text": "é" * n}) for n in range(30)]
        container.delete_item("0", "0")
        for _ in range(3):
            server.kill()
            server.start()
            for item in written[1:]:
                assert container.read_item(item["id"], item["pk"]) == item
        changed = container.replace_item("1", {**written[1], "n": 1})
        assert changed["_etag"] != written[1]["_etag"]
        assert len(list(container.read_all_items())) == 29


def test_throttled_requests_succeed_in_the_end():
    with OwnServer("--enforce-throughput") as server, CosmosClient(server.endpoint, KEY) as client:
        database = client.create_database("d")
        container = database.create_container("c", PartitionKey("/pk"), offer_throughput=400)
        for n in range(150):
            container.create_item({"id": str(n), "pk": "a", "text": "x" * 2000})
        assert len(list(container.read_all_items())) == 150
