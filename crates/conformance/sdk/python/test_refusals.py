"""What this version does not serve is refused at once and in words."""

import pytest
from azure.cosmos import exceptions


@pytest.fixture
def item(container):
    return container.create_item({"id": "1", "pk": "a"})


def refused(call):
    with pytest.raises(exceptions.CosmosHttpResponseError) as error:
        call()
    assert error.value.status_code == 400
    assert error.value.message


def test_queries_of_later_versions(container, item):
    refused(lambda: list(container.query_items("SELECT VALUE MAX(c.x) FROM c ORDER BY c.x", partition_key="a")))
