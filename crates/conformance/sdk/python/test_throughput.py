"""Provisioned throughput: given, read, replaced."""

import pytest
from azure.cosmos import PartitionKey, ThroughputProperties, exceptions


def test_manual_throughput(database):
    container = database.create_container("c", PartitionKey("/pk"), offer_throughput=400)
    assert container.get_throughput().offer_throughput == 400
    assert container.replace_throughput(700).offer_throughput == 700
    assert container.get_throughput().offer_throughput == 700
    with pytest.raises(exceptions.CosmosHttpResponseError) as refused:
        container.replace_throughput(450)
    assert refused.value.status_code == 400


def test_autoscale(database):
    most = ThroughputProperties(auto_scale_max_throughput=4000, auto_scale_increment_percent=0)
    container = database.create_container("c", PartitionKey("/pk"), offer_throughput=most)
    assert container.get_throughput().auto_scale_max_throughput == 4000
    container.replace_throughput(ThroughputProperties(auto_scale_max_throughput=6000))
    assert container.get_throughput().auto_scale_max_throughput == 6000


def test_throughput_shared_by_a_database(client):
    database = client.create_database("py-shared", offer_throughput=1000)
    try:
        assert database.get_throughput().offer_throughput == 1000
        container = database.create_container("c", PartitionKey("/pk"))
        # The SDK makes "not found" of the empty answer, and then stumbles over its own retry policy.
        with pytest.raises((exceptions.CosmosResourceNotFoundError, AttributeError)):
            container.get_throughput()
        assert database.replace_throughput(1200).offer_throughput == 1200
    finally:
        client.delete_database("py-shared")


def test_no_throughput(container):
    """A container without throughput of its own works, and has at most a default offer."""
    try:
        assert container.get_throughput().offer_throughput >= 400
    except exceptions.CosmosResourceNotFoundError:
        pass


def test_many_ranges(database):
    """More throughput than one partition carries: the client routes by its own hash, and finds everything."""
    container = database.create_container("wide", PartitionKey("/pk"), offer_throughput=40000)
    assert len(list(container.read_feed_ranges())) == 4
    for n in range(60):
        container.create_item({"id": str(n), "pk": f"k{n}"})
    for n in range(60):
        assert container.read_item(str(n), f"k{n}")["pk"] == f"k{n}"
    assert len(list(container.read_all_items())) == 60
    query = container.query_items("SELECT * FROM c WHERE c.pk = @v", [{"name": "@v", "value": "k7"}], enable_cross_partition_query=True)
    assert [item["id"] for item in query] == ["7"]
