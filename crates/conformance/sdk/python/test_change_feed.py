"""The change feed by the pull model: starts, scopes, pages, both modes, and a server that dies."""

import importlib.util
import time
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest
from azure.cosmos import CosmosClient, PartitionKey, exceptions

from conftest import KEY
from own_server import OwnServer

EXAMPLE = Path(__file__).parents[4] / "examples/get-changes/python/get_changes.py"


def fill(container, ids, pk="a"):
    for each in ids:
        container.upsert_item({"id": str(each), "pk": pk})


def ids(changes):
    return [change["id"] for change in changes]


def read(container, **options):
    """All changes, and the continuation behind them."""
    changes = list(container.query_items_change_feed(**options))
    return changes, container.client_connection.last_response_headers["etag"]


@pytest.fixture
def wide(database):
    return database.create_container("wide", PartitionKey("/pk"), offer_throughput=40000)


@pytest.fixture
def kept(database):
    policy = {"retentionDuration": 10, "previousImages": True}
    body = {"id": "kept", "partitionKey": {"paths": ["/pk"], "kind": "Hash", "version": 2}, "changeFeedPolicy": policy}
    database.client_connection.CreateContainer(database.database_link, body)
    return database.get_container_client("kept")


def test_each_item_once_at_its_newest_change(container):
    fill(container, [1, 2, 3])
    container.upsert_item({"id": "1", "pk": "a", "n": 2})
    container.delete_item("2", "a")
    changes, _ = read(container, start_time="Beginning")
    assert ids(changes) == ["3", "1"]
    assert changes[1]["n"] == 2
    assert changes[0]["_lsn"] < changes[1]["_lsn"]


def test_a_continuation_goes_on_where_the_reader_was(container):
    fill(container, [1, 2])
    _, continuation = read(container, start_time="Beginning")
    changes, again = read(container, continuation=continuation)
    assert changes == []
    fill(container, [3])
    for token in [continuation, again]:
        assert ids(read(container, continuation=token)[0]) == ["3"]


def test_from_now(container):
    fill(container, [1])
    changes, continuation = read(container, start_time="Now")
    assert changes == []
    fill(container, [2])
    assert ids(read(container, continuation=continuation)[0]) == ["2"]
    # Without a start, now is meant.
    assert read(container)[0] == []


def test_from_a_time(container):
    fill(container, [1])
    time.sleep(2.1)
    moment = datetime.now(timezone.utc)
    time.sleep(1.1)
    fill(container, [2])
    assert ids(read(container, start_time=moment)[0]) == ["2"]
    assert ids(read(container, start_time=moment - timedelta(days=1))[0]) == ["1", "2"]
    assert read(container, start_time=moment + timedelta(days=1))[0] == []
    # Page after page the SDK sends the time as well as the position. (A continuation that began
    # with a time it cannot read again: it takes its own milliseconds for seconds.)
    fill(container, range(3, 9))
    pages = container.query_items_change_feed(start_time=moment, max_item_count=2).by_page()
    assert [ids(page) for page in pages] == [["2", "3"], ["4", "5"], ["6", "7"], ["8"]]


def test_by_partition_key(wide):
    for n in range(30):
        fill(wide, [n], pk=f"k{n % 3}")
    changes, continuation = read(wide, partition_key="k1", start_time="Beginning")
    assert ids(changes) == [str(n) for n in range(30) if n % 3 == 1]
    fill(wide, ["other"], pk="k2")
    assert read(wide, continuation=continuation)[0] == []
    fill(wide, ["mine"], pk="k1")
    assert ids(read(wide, continuation=continuation)[0]) == ["mine"]


def test_by_prefix_of_a_hierarchical_key(database):
    container = database.create_container("h", PartitionKey(["/t", "/u"], kind="MultiHash"))
    for n in range(8):
        container.create_item({"id": str(n), "t": f"t{n % 2}", "u": f"u{n % 4}"})
    assert ids(read(container, partition_key=["t1"], start_time="Beginning")[0]) == ["1", "3", "5", "7"]
    assert ids(read(container, partition_key=["t1", "u3"], start_time="Beginning")[0]) == ["3", "7"]


def test_by_feed_range(wide):
    for n in range(40):
        fill(wide, [n], pk=f"k{n}")
    ranges = list(wide.read_feed_ranges())
    assert len(ranges) == 4
    seen, continuations = [], []
    for each in ranges:
        changes, continuation = read(wide, feed_range=each, start_time="Beginning")
        assert changes
        seen += ids(changes)
        continuations.append(continuation)
    assert sorted(seen, key=int) == [str(n) for n in range(40)]
    fill(wide, ["new"], pk="k5")
    found = [ids(read(wide, continuation=each)[0]) for each in continuations]
    assert sorted(found) == [[], [], [], ["new"]]


def test_pages(wide):
    for n in range(40):
        fill(wide, [n], pk=f"k{n}")
    pages = [list(page) for page in wide.query_items_change_feed(start_time="Beginning", max_item_count=3).by_page()]
    assert all(len(page) <= 3 for page in pages)
    assert sorted(int(change["id"]) for page in pages for change in page) == list(range(40))


def test_a_page_at_a_time_with_a_checkpoint(container):
    fill(container, range(10))
    seen, continuation = [], None
    while True:
        start = {"continuation": continuation} if continuation else {"start_time": "Beginning"}
        pages = container.query_items_change_feed(max_item_count=4, **start).by_page()
        page = list(next(pages, []))
        continuation = container.client_connection.last_response_headers["etag"]
        if not page:
            break
        seen += ids(page)
    assert seen == [str(n) for n in range(10)]


def test_all_versions_and_deletes(kept):
    changes, continuation = read(kept, mode="AllVersionsAndDeletes", start_time="Now")
    assert changes == []
    before = int(time.time()) - 1
    kept.create_item({"id": "1", "pk": "a", "n": 1})
    kept.upsert_item({"id": "1", "pk": "a", "n": 2})
    kept.delete_item("1", "a")
    changes, continuation = read(kept, continuation=continuation)
    create, replace, delete = changes
    assert [each["metadata"]["operationType"] for each in changes] == ["create", "replace", "delete"]
    assert create["current"]["n"] == 1 and replace["current"]["n"] == 2 and "current" not in delete
    assert replace["previous"]["n"] == 1 and delete["previous"]["n"] == 2
    assert replace["metadata"]["previousImageLSN"] == create["metadata"]["lsn"]
    assert delete["metadata"]["id"] == "1" and delete["metadata"]["partitionKey"] == {"pk": "a"}
    assert all(before <= each["metadata"]["crts"] <= time.time() + 1 for each in changes)
    assert read(kept, continuation=continuation)[0] == []
    # Of the latest versions nothing is left.
    assert read(kept, start_time="Beginning")[0] == []


def test_items_whose_time_is_over(kept):
    body = kept.read()
    kept.client_connection.ReplaceContainer(
        kept.container_link, {key: body[key] for key in ("id", "partitionKey", "changeFeedPolicy")} | {"defaultTtl": 1})
    _, continuation = read(kept, mode="AllVersionsAndDeletes", start_time="Now")
    kept.create_item({"id": "1", "pk": "a"})
    found = []
    for _ in range(200):
        changes, continuation = read(kept, continuation=continuation)
        found += changes
        if len(found) == 2:
            break
        time.sleep(0.1)
    assert [each["metadata"]["operationType"] for each in found] == ["create", "delete"]
    assert found[1]["metadata"]["timeToLiveExpired"] is True


def test_a_container_without_history(container):
    with pytest.raises(exceptions.CosmosHttpResponseError) as error:
        read(container, mode="AllVersionsAndDeletes", start_time="Now")
    assert error.value.status_code == 400
    assert "retentionDuration" in error.value.message


def test_a_container_made_anew_is_another(database):
    container = database.create_container("c", PartitionKey("/pk"))
    fill(container, [1])
    read(container, start_time="Beginning")
    database.delete_container("c")
    container = database.create_container("c", PartitionKey("/pk"))
    fill(container, [2])
    assert ids(read(container, start_time="Beginning")[0]) == ["2"]


def split(container):
    """Raises the throughput of a container with one partition, and waits for it to have four."""
    container.replace_throughput(40000)
    while len(list(container.read_feed_ranges(force_refresh=True))) < 4:
        time.sleep(0.05)


def test_a_split_in_the_middle_of_an_iteration(database):
    container = database.create_container("split", PartitionKey("/pk"), offer_throughput=400)
    for n in range(40):
        fill(container, [n], pk=f"k{n % 10}")
    pages = container.query_items_change_feed(start_time="Beginning", max_item_count=5).by_page()
    seen = ids(next(pages)) + ids(next(pages))
    assert len(seen) == 10
    token = container.client_connection.last_response_headers["etag"]
    split(container)
    for n in range(40, 50):
        fill(container, [n], pk=f"k{n % 10}")
    seen += [each for page in pages for each in ids(page)]
    assert sorted(seen, key=int) == [str(n) for n in range(50)]
    for key in range(10):
        order = [int(each) for each in seen if int(each) % 10 == key]
        assert order == sorted(order)
    # A position of the time before the split goes on, in a client that knows only what is now.
    client = CosmosClient(container.client_connection.url_connection, KEY)
    later = client.get_database_client(database.id).get_container_client("split")
    changes, token = read(later, continuation=token)
    assert sorted(ids(changes), key=int) == [str(n) for n in range(10, 50)]
    assert read(later, continuation=token)[0] == []


def test_a_split_in_the_middle_of_all_versions(database):
    policy = {"retentionDuration": 10}
    body = {"id": "kept", "partitionKey": {"paths": ["/pk"], "kind": "Hash", "version": 2}, "changeFeedPolicy": policy}
    database.client_connection.CreateContainer(database.database_link, body, {"offerThroughput": 400})
    kept = database.get_container_client("kept")
    mode = "AllVersionsAndDeletes"
    _, token = read(kept, mode=mode, start_time="Now")
    for n in range(20):
        fill(kept, [n], pk=f"k{n % 5}")
    kept.delete_item("3", "k3")
    split(kept)
    fill(kept, ["20"], pk="k0")
    changes, token = read(kept, mode=mode, continuation=token)
    kinds = [(c["metadata"]["operationType"], c.get("current", {}).get("id") or c["metadata"]["id"]) for c in changes]
    assert sorted(kinds) == sorted([("create", str(n)) for n in range(21)] + [("delete", "3")])
    assert kinds.index(("create", "3")) < kinds.index(("delete", "3"))
    assert read(kept, mode=mode, continuation=token)[0] == []


def test_the_server_is_killed_in_the_middle():
    with OwnServer() as server, CosmosClient(server.endpoint, KEY) as client:
        container = client.create_database("d").create_container("c", PartitionKey("/pk"))
        fill(container, range(20))
        pages = container.query_items_change_feed(start_time="Beginning", max_item_count=5).by_page()
        seen = ids(next(pages)) + ids(next(pages))
        continuation = container.client_connection.last_response_headers["etag"]
        server.kill()
        server.start()
        for page in pages:
            seen += ids(page)
        assert seen == [str(n) for n in range(20)]
        assert ids(read(container, continuation=continuation)[0]) == [str(n) for n in range(10, 20)]


def test_the_example_of_the_article():
    spec = importlib.util.spec_from_file_location("get_changes", EXAMPLE)
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    assert example.main() == ["new-1", "new-2"]
