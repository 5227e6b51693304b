"""Etags: match, mismatch, not modified."""

import pytest
from azure.core import MatchConditions
from azure.cosmos import exceptions


@pytest.fixture
def item(container):
    return container.create_item({"id": "1", "pk": "a", "n": 0})


def test_a_write_with_the_current_etag_goes_through(container, item):
    changed = container.replace_item(
        "1", {**item, "n": 1}, etag=item["_etag"], match_condition=MatchConditions.IfNotModified
    )
    assert changed["n"] == 1 and changed["_etag"] != item["_etag"]


def test_a_write_with_an_old_etag_is_refused_and_leaves_no_trace(container, item):
    current = container.replace_item("1", {**item, "n": 1})
    conditions = {"etag": item["_etag"], "match_condition": MatchConditions.IfNotModified}
    with pytest.raises(exceptions.CosmosAccessConditionFailedError):
        container.replace_item("1", {**item, "n": 2}, **conditions)
    with pytest.raises(exceptions.CosmosAccessConditionFailedError):
        container.upsert_item({**item, "n": 2}, **conditions)
    with pytest.raises(exceptions.CosmosAccessConditionFailedError):
        container.delete_item("1", "a", **conditions)
    assert container.read_item("1", "a") == current


def test_a_delete_with_the_current_etag_goes_through(container, item):
    container.delete_item("1", "a", etag=item["_etag"], match_condition=MatchConditions.IfNotModified)
    with pytest.raises(exceptions.CosmosResourceNotFoundError):
        container.read_item("1", "a")


def test_a_read_of_what_one_has_brings_nothing(container, item):
    conditions = {"etag": item["_etag"], "match_condition": MatchConditions.IfModified}
    assert not container.read_item("1", "a", **conditions)
    changed = container.replace_item("1", {**item, "n": 1})
    assert container.read_item("1", "a", **conditions) == changed


def test_minimal_answers_have_no_body(container, item):
    assert not container.replace_item("1", {**item, "n": 7}, no_response=True)
    assert not container.create_item({"id": "2", "pk": "a"}, no_response=True)
    assert container.read_item("1", "a")["n"] == 7
