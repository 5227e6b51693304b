"""The same port speaks TLS too."""

from azure.cosmos import CosmosClient, PartitionKey

from conftest import ENDPOINT, KEY


def test_https_on_the_same_port(database):
    database.create_container("c", PartitionKey("/pk"))
    with CosmosClient(ENDPOINT.replace("http:", "https:"), KEY, connection_verify=False) as client:
        container = client.get_database_client(database.id).get_container_client("c")
        container.create_item({"id": "1", "pk": "a"})
        assert container.read_item("1", "a")["pk"] == "a"
        # The account says where to go: it must say https to who came by https.
        assert client.client_connection.WriteEndpoint.startswith("https:")
