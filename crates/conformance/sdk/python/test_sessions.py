"""Session tokens: given with each answer, and kept."""

import pytest
from azure.cosmos import exceptions


def last_headers(container):
    return container.client_connection.last_response_headers


def test_a_token_comes_with_each_write_and_grows(container):
    lsns = []
    for n in range(5):
        container.upsert_item({"id": "1", "pk": "a", "n": n})
        token = last_headers(container)["x-ms-session-token"]
        lsns.append(int(token.split("#")[1]))
    assert lsns == sorted(set(lsns))


def test_a_read_with_the_token_of_a_write_sees_it(container):
    container.create_item({"id": "1", "pk": "a"})
    token = last_headers(container)["x-ms-session-token"]
    assert container.read_item("1", "a", session_token=token)["id"] == "1"


def test_a_token_from_the_future_is_not_served(container):
    container.create_item({"id": "1", "pk": "a"})
    with pytest.raises(exceptions.CosmosHttpResponseError) as refused:
        container.read_item("1", "a", session_token="0:-1#99999999")
    assert (refused.value.status_code, refused.value.sub_status) == (404, 1002)


def test_charges_and_lsns_are_told(container):
    container.create_item({"id": "1", "pk": "a"})
    container.read_item("1", "a")
    headers = last_headers(container)
    assert float(headers["x-ms-request-charge"]) >= 1
    assert int(headers["lsn"]) >= 1
