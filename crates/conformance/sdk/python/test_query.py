"""Queries by the Python SDK: over one partition key, over all of them, page by page."""

import uuid

import pytest
from azure.cosmos import PartitionKey
from azure.cosmos.exceptions import CosmosHttpResponseError


@pytest.fixture
def filled(container):
    for n in range(60):
        container.create_item({
            "id": str(n), "pk": f"k{n % 6}", "n": n, "grp": ["x", "y", "z"][n % 3],
            "tags": [{"name": f"t{n % 4}", "amount": n}], "list": [n % 5, "all"],
        })
    return container


def ask(container, text, parameters=None, **options):
    if "partition_key" not in options:
        options["enable_cross_partition_query"] = True
    return list(container.query_items(text, parameters=parameters, **options))


def test_parameters(filled):
    rows = ask(filled, "SELECT * FROM c WHERE c.n = @n AND c.grp = @g",
               [{"name": "@n", "value": 7}, {"name": "@g", "value": "y"}])
    assert [row["id"] for row in rows] == ["7"]
    assert rows[0]["_etag"] and rows[0]["tags"] == [{"name": "t3", "amount": 7}]


def test_one_partition_key(filled):
    rows = ask(filled, "SELECT VALUE c.n FROM c WHERE c.n > 20 ORDER BY c.n", partition_key="k2")
    assert rows == [26, 32, 38, 44, 50, 56]


def test_paging_gives_every_row_once(filled):
    pages = filled.query_items("SELECT VALUE c.n FROM c WHERE c.n >= 5", max_item_count=7,
                               enable_cross_partition_query=True).by_page()
    pages = [list(page) for page in pages]
    assert all(len(page) <= 7 for page in pages)
    assert sorted(n for page in pages for n in page) == list(range(5, 60))


def test_a_page_goes_on_from_its_token(filled):
    text = "SELECT VALUE c.n FROM c WHERE c.grp = 'x' ORDER BY c.n"
    options = {"max_item_count": 2, "partition_key": "k0"}
    pages = filled.query_items(text, **options).by_page()
    first = list(next(pages))
    token = pages.continuation_token
    rest = [n for page in filled.query_items(text, **options).by_page(token) for n in page]
    assert first + rest == list(range(0, 60, 6))


def test_order_over_all_partitions(filled):
    assert ask(filled, "SELECT VALUE c.n FROM c ORDER BY c.n DESC") == list(range(59, -1, -1))
    assert ask(filled, "SELECT VALUE c.n FROM c ORDER BY c.n OFFSET 10 LIMIT 5") == [10, 11, 12, 13, 14]
    assert ask(filled, "SELECT TOP 3 VALUE c.n FROM c ORDER BY c.n") == [0, 1, 2]


def test_aggregates(filled):
    assert ask(filled, "SELECT VALUE COUNT(1) FROM c") == [60]
    assert ask(filled, "SELECT VALUE SUM(c.n) FROM c WHERE c.grp = 'x'") == [sum(range(0, 60, 3))]
    assert ask(filled, "SELECT VALUE AVG(c.n) FROM c") == [29.5]
    assert ask(filled, "SELECT VALUE MIN(c.n) FROM c") == [0]
    assert ask(filled, "SELECT VALUE MAX(c.n) FROM c WHERE c.n < 30") == [29]
    rows = ask(filled, "SELECT COUNT(1) AS n, MAX(c.n) AS most FROM c WHERE c.pk = 'k1'")
    assert rows == [{"n": 10, "most": 55}]


def test_groups(filled):
    rows = ask(filled, "SELECT c.grp, COUNT(1) AS n, SUM(c.n) AS s FROM c GROUP BY c.grp")
    assert sorted(rows, key=lambda row: row["grp"]) == [
        {"grp": "x", "n": 20, "s": 570},
        {"grp": "y", "n": 20, "s": 590},
        {"grp": "z", "n": 20, "s": 610},
    ]


def test_distinct(filled):
    assert sorted(ask(filled, "SELECT DISTINCT VALUE c.grp FROM c")) == ["x", "y", "z"]


def test_joins_and_subqueries(filled):
    rows = ask(filled, "SELECT c.id, t.name FROM c JOIN t IN c.tags WHERE t.amount = 9")
    assert rows == [{"id": "9", "name": "t1"}]
    text = "SELECT VALUE c.n FROM c WHERE EXISTS(SELECT VALUE t FROM t IN c.tags WHERE t.amount < 2)"
    assert sorted(ask(filled, text)) == [0, 1]
    assert len(ask(filled, "SELECT * FROM c WHERE ARRAY_CONTAINS(c.list, 3)")) == 12


def test_hierarchical_keys(database):
    container = database.create_container(
        f"h-{uuid.uuid4()}", PartitionKey(["/tenant", "/user"], kind="MultiHash"))
    for n in range(12):
        container.create_item({"id": str(n), "tenant": f"t{n % 2}", "user": f"u{n % 3}", "n": n})
    rows = ask(container, "SELECT VALUE c.n FROM c ORDER BY c.n", partition_key=["t0", "u1"])
    assert rows == [4, 10]
    rows = ask(container, "SELECT VALUE c.n FROM c ORDER BY c.n", partition_key=["t1"])
    assert rows == [1, 3, 5, 7, 9, 11]
    assert ask(container, "SELECT VALUE COUNT(1) FROM c") == [12]


def test_feed_ranges(filled):
    found = []
    for feed_range in filled.read_feed_ranges():
        found += filled.query_items("SELECT VALUE c.n FROM c WHERE c.n < 10", feed_range=feed_range)
    assert sorted(found) == list(range(10))


def test_many_partitions(database):
    container = database.create_container("many", PartitionKey("/pk"), offer_throughput=30_000)
    for n in range(30):
        container.create_item({"id": str(n), "pk": str(n), "n": n, "k": n % 3})
    assert len(list(container.read_feed_ranges())) == 3
    assert ask(container, "SELECT VALUE c.n FROM c ORDER BY c.n DESC") == list(range(29, -1, -1))
    assert ask(container, "SELECT VALUE COUNT(1) FROM c WHERE c.k = 1") == [10]
    rows = ask(container, "SELECT c.k, COUNT(1) AS n FROM c GROUP BY c.k", max_item_count=1)
    assert sorted((row["k"], row["n"]) for row in rows) == [(0, 10), (1, 10), (2, 10)]
    pages = container.query_items("SELECT VALUE c.n FROM c ORDER BY c.n", max_item_count=4,
                                  enable_cross_partition_query=True).by_page()
    assert [n for page in pages for n in page] == list(range(30))


def test_metrics_are_told(filled):
    headers = {}
    list(filled.query_items("SELECT * FROM c WHERE c.n = 3", enable_cross_partition_query=True,
                            populate_query_metrics=True,
                            response_hook=lambda got, _: headers.update(got)))
    metrics = dict(part.split("=") for part in headers["x-ms-documentdb-query-metrics"].split(";"))
    assert metrics["retrievedDocumentCount"] == "1"
    assert metrics["outputDocumentCount"] == "1"
    assert float(headers["x-ms-request-charge"]) >= 2


def test_index_metrics_are_told(filled):
    headers = {}
    list(filled.query_items("SELECT * FROM c WHERE c.n = 3", enable_cross_partition_query=True,
                            populate_index_metrics=True,
                            response_hook=lambda got, _: headers.update(got)))
    told = headers["x-ms-cosmos-index-utilization"]
    assert told["UtilizedSingleIndexes"] == [{
        "IndexSpec": "/n/?", "IndexImpactScore": "High", "IndexPreciseSet": True, "FilterExpression": "",
        "FilterPreciseSet": True}]
    assert told["PotentialCompositeIndexes"] == []


def test_what_is_wrong_is_said(filled):
    with pytest.raises(CosmosHttpResponseError) as refused:
        ask(filled, "SELECT * FROM c WHERE c.n = = 1")
    assert refused.value.status_code == 400
    assert "SC1001" in str(refused.value)
    with pytest.raises(CosmosHttpResponseError) as refused:
        ask(filled, "SELECT * FROM c ORDER BY c.n, c.grp")
    assert refused.value.status_code == 400
    assert "composite index" in str(refused.value)


def test_a_composite_index_serves_several_keys(database):
    policy = {"includedPaths": [{"path": "/*"}], "excludedPaths": [], "compositeIndexes": [
        [{"path": "/k", "order": "ascending"}, {"path": "/n", "order": "descending"}]]}
    container = database.create_container("composite", PartitionKey("/pk"), indexing_policy=policy)
    for n in range(9):
        container.create_item({"id": str(n), "pk": str(n), "k": n % 3, "n": n})
    rows = ask(container, "SELECT VALUE c.n FROM c ORDER BY c.k ASC, c.n DESC")
    assert rows == [6, 3, 0, 7, 4, 1, 8, 5, 2]


@pytest.mark.asyncio
async def test_the_asynchronous_client(aio_container):
    for n in range(10):
        await aio_container.create_item({"id": str(n), "pk": str(n % 2), "n": n})
    rows = [row async for row in aio_container.query_items(
        "SELECT VALUE c.n FROM c WHERE c.n < @end ORDER BY c.n DESC",
        parameters=[{"name": "@end", "value": 4}])]
    assert rows == [3, 2, 1, 0]
