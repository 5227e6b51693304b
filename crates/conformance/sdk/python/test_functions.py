"""User-defined functions: in queries over items, over many rows, and what becomes of bad ones."""

import pytest
from azure.cosmos import CosmosClient, PartitionKey, exceptions

from conftest import KEY
from own_server import OwnServer

TAX = "function tax(income) { return income < 10000 ? income * 0.1 : income * 0.25; }"


def function(container, name, body):
    container.scripts.create_user_defined_function({"id": name, "body": body})


def ask(container, query, **options):
    return list(container.query_items(query, enable_cross_partition_query=True, **options))


def test_a_function_in_where_and_in_the_projection(container):
    function(container, "tax", TAX)
    for n, income in enumerate([5000, 15000, 40000]):
        container.create_item({"id": str(n), "pk": str(n % 2), "income": income})
    assert ask(container, "SELECT VALUE c.id FROM c WHERE udf.tax(c.income) > 1000 ORDER BY c.id") == ["1", "2"]
    parameters = [{"name": "@least", "value": 4000}]
    query = "SELECT c.id, udf.tax(c.income) AS tax FROM c WHERE udf.tax(c.income) > @least"
    assert ask(container, query, parameters=parameters) == [{"id": "2", "tax": 10000}]


def test_many_rows_in_pages_of_every_size(container):
    function(container, "twice", "function (x) { return x * 2; }")
    for n in range(5):
        container.create_item({"id": str(n), "pk": "a", "list": list(range(n * 1000, n * 1000 + 1000))})
    query = "SELECT VALUE udf.twice(x) FROM c JOIN x IN c.list"
    expected = [x * 2 for x in range(5000)]
    for size in [7 * 11, 1000, 10000]:
        assert ask(container, query, partition_key="a", max_item_count=size) == expected
    total = "SELECT VALUE SUM(udf.twice(udf.twice(x))) FROM c JOIN x IN c.list"
    assert ask(container, total, partition_key="a") == [sum(expected) * 2]


@pytest.fixture(scope="module")
def quick():
    with OwnServer("--script-timeout", "0.5") as server:
        client = CosmosClient(server.endpoint, KEY, retry_total=0)
        container = client.create_database("d").create_container("c", PartitionKey("/pk"))
        for n in range(40):
            container.create_item({"id": str(n), "pk": "a", "n": n})
        function(container, "good", "function (n) { return n + 1; }")
        yield container


HOSTILE = {
    "endless": "while (true) { }",
    "text": "var s = 'x'; while (true) s += s;",
    "list": "var l = []; while (true) l.push(new Array(1000).fill(0));",
    "deep": "return (function f() { return f() + 1; })();",
    "regex": "return /(a+)+$/.test('a'.repeat(64) + 'b');",
    "inside": "return new Array(1e9) + '';",
    "huge": "return 'x'.repeat(5 << 20);",
    "getter": "return { get a() { throw new Error('gotcha'); } };",
    "circular": "var o = {}; o.o = o; return o;",
    "throws": "throw new Error('no');",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_function_fails_its_query_and_nothing_else(quick, name):
    # Only for one of the items, and not the first.
    function(quick, f"bad_{name}", f"function (n) {{ if (n === 17) {{ {HOSTILE[name]} }} return n; }}")
    with pytest.raises(exceptions.CosmosHttpResponseError) as error:
        ask(quick, f"SELECT VALUE udf.bad_{name}(c.n) FROM c")
    assert error.value.status_code in (400, 408, 413)
    # Who does not ask about that item is not concerned.
    query = f"SELECT VALUE udf.bad_{name}(c.n) FROM c WHERE c.n != 17 ORDER BY c.n"
    assert ask(quick, query) == [n for n in range(40) if n != 17]
    assert sorted(ask(quick, "SELECT VALUE udf.good(c.n) FROM c")) == list(range(1, 41))


def test_a_function_that_pollutes_its_world_hurts_no_other_query(quick):
    body = "function (n) { Array.prototype.map = null; Object.prototype.x = 1; JSON.stringify = null; return [n]; }"
    function(quick, "pollute", body)
    ask(quick, "SELECT VALUE udf.pollute(c.n) FROM c")
    function(quick, "clean", "function (n) { return [n].map(function (x) { return typeof ({}).x; })[0]; }")
    assert set(ask(quick, "SELECT VALUE udf.clean(c.n) FROM c")) == {"undefined"}


def test_scripts_are_there_after_a_restart():
    with OwnServer() as server, CosmosClient(server.endpoint, KEY) as client:
        container = client.create_database("d").create_container("c", PartitionKey("/pk"))
        scripts = container.scripts
        function(container, "tax", TAX)
        scripts.create_stored_procedure({"id": "p", "body": "function (x) { __.response.setBody(x); }"})
        stamp = "function () { var r = getContext().getRequest(), d = r.getBody(); d.stamp = 7; r.setBody(d); }"
        scripts.create_trigger({"id": "t", "body": stamp, "triggerType": "Pre", "triggerOperation": "All"})
        server.kill()
        server.start()
        assert scripts.execute_stored_procedure("p", partition_key="a", params=["x"]) == "x"
        container.create_item({"id": "1", "pk": "a", "income": 100}, pre_trigger_include="t")
        assert ask(container, "SELECT c.stamp, udf.tax(c.income) AS tax FROM c") == [{"stamp": 7, "tax": 10}]


def test_patches_and_batches_refuse_triggers(container):
    container.create_item({"id": "1", "pk": "a", "n": 1})
    container.scripts.create_trigger(
        {"id": "t", "body": "function () { }", "triggerType": "Pre", "triggerOperation": "All"}
    )
    with pytest.raises(exceptions.CosmosHttpResponseError) as error:
        container.patch_item("1", "a", [{"op": "incr", "path": "/n", "value": 1}], pre_trigger_include="t")
    assert error.value.status_code == 400
    with pytest.raises(exceptions.CosmosHttpResponseError) as error:
        container.execute_item_batch([("delete", ("1",))], "a", pre_trigger_include="t")
    assert error.value.status_code == 400
    assert container.read_item("1", "a")["n"] == 1
