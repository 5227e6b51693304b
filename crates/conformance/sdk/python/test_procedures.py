"""Stored procedures and triggers: transactions on the server."""

from concurrent.futures import ThreadPoolExecutor

import pytest
from azure.cosmos import CosmosClient, PartitionKey, exceptions
from azure.cosmos.documents import TriggerOperation, TriggerType
from conftest import KEY
from own_server import OwnServer

# Creates as many of the items as the server accepts, and says how many that were.
BULK_IMPORT = """
function bulkImport(items) {
    var collection = getContext().getCollection(), response = getContext().getResponse(), count = 0;
    if (items.length === 0) { response.setBody(0); return; }
    create(items[0]);
    function create(item) {
        var accepted = collection.createDocument(collection.getSelfLink(), item, function (error) {
            if (error) throw error;
            count++;
            if (count >= items.length) response.setBody(count); else create(items[count]);
        });
        if (!accepted) response.setBody(count);
    }
}
"""

# Deletes what a query finds, page after page, and says whether there is more.
BULK_DELETE = """
function bulkDelete(query) {
    var collection = getContext().getCollection(), response = getContext().getResponse();
    var done = { deleted: 0, continuation: true };
    next();
    function next(continuation) {
        var accepted = collection.queryDocuments(collection.getSelfLink(), query, { continuation: continuation, pageSize: 10 },
            function (error, found, options) {
                if (error) throw error;
                if (found.length > 0) remove(found);
                else if (options.continuation) next(options.continuation);
                else { done.continuation = false; response.setBody(done); }
            });
        if (!accepted) response.setBody(done);
    }
    function remove(found) {
        if (found.length === 0) { next(); return; }
        var accepted = collection.deleteDocument(found[0]._self, {}, function (error) {
            if (error) throw error;
            done.deleted++;
            found.shift();
            remove(found);
        });
        if (!accepted) response.setBody(done);
    }
}
"""

COUNTER = """
function increment(id) {
    var collection = getContext().getCollection();
    collection.readDocument(collection.getAltLink() + '/docs/' + id, function (error, counter) {
        if (error) throw error;
        counter.n++;
        collection.replaceDocument(counter._self, counter, { etag: counter._etag }, function (error, replaced) {
            if (error) throw error;
            getContext().getResponse().setBody(replaced.n);
        });
    });
}
"""


def procedure(container, name, body):
    container.scripts.create_stored_procedure({"id": name, "body": body})
    return lambda *arguments, pk="a", **options: container.scripts.execute_stored_procedure(
        name, partition_key=pk, params=list(arguments), **options
    )


def test_bulk_import_goes_on_where_it_was_stopped(container):
    run = procedure(container, "import", BULK_IMPORT)
    items = [{"id": str(n), "pk": "a", "n": n} for n in range(2500)]
    done = calls = 0
    while done < len(items):
        made = run(items[done:])
        assert made > 0
        done += made
        calls += 1
    assert done == 2500 and calls >= 1
    assert len(list(container.read_all_items())) == 2500
    remove = procedure(container, "delete", BULK_DELETE)
    deleted = 0
    while True:
        result = remove("SELECT * FROM c WHERE c.pk = 'a'")
        deleted += result["deleted"]
        if not result["continuation"]:
            break
    assert deleted == 2500
    assert list(container.read_all_items()) == []


def test_an_import_that_clashes_leaves_nothing(container):
    run = procedure(container, "import", BULK_IMPORT)
    container.create_item({"id": "5", "pk": "a"})
    with pytest.raises(exceptions.CosmosHttpResponseError) as error:
        run([{"id": str(n), "pk": "a"} for n in range(10)])
    assert error.value.status_code == 400 and error.value.sub_status == 409
    assert [each["id"] for each in container.read_all_items()] == ["5"]


def test_a_counter_under_64_callers_is_exact(container):
    run = procedure(container, "count", COUNTER)
    container.create_item({"id": "n", "pk": "a", "n": 0})
    patch = [{"op": "incr", "path": "/n", "value": 1}]

    def call(n):
        for _ in range(3):
            run("n")
        # Writers that are no scripts get in between.
        container.patch_item("n", "a", patch)

    with ThreadPoolExecutor(64) as pool:
        list(pool.map(call, range(64)))
    assert container.read_item("n", "a")["n"] == 64 * 4


def test_the_work_of_a_procedure_is_one_page_of_the_feed(container):
    procedure(container, "import", BULK_IMPORT)([{"id": str(n), "pk": "a"} for n in range(200)])
    pages = container.query_items_change_feed(start_time="Beginning", max_item_count=1).by_page()
    assert len(list(next(pages))) == 200


def test_logging(container):
    run = procedure(container, "log", "function () { console.log('here'); }")
    run(enable_script_logging=True)
    headers = container.client_connection.last_response_headers
    assert headers["x-ms-documentdb-script-log-results"] == "here"


def test_triggers(container):
    scripts = container.scripts
    stamp = "function () { var r = getContext().getRequest(), d = r.getBody(); d.stamp = 7; r.setBody(d); }"
    veto = "function () { if (getContext().getResponse().getBody().bad) throw new Error('vetoed'); }"
    scripts.create_trigger(
        {"id": "stamp", "body": stamp, "triggerType": TriggerType.Pre, "triggerOperation": TriggerOperation.All}
    )
    scripts.create_trigger(
        {"id": "veto", "body": veto, "triggerType": TriggerType.Post, "triggerOperation": TriggerOperation.All}
    )
    made = container.create_item({"id": "1", "pk": "a"}, pre_trigger_include="stamp", post_trigger_include="veto")
    assert made["stamp"] == 7 and container.read_item("1", "a") == made
    with pytest.raises(exceptions.CosmosHttpResponseError) as error:
        container.upsert_item({"id": "2", "pk": "a", "bad": True}, post_trigger_include="veto")
    assert error.value.status_code == 400
    with pytest.raises(exceptions.CosmosResourceNotFoundError):
        container.read_item("2", "a")


def test_a_script_that_asks_for_ever_is_told_to_stop(quick_server):
    container = loops(quick_server)
    ask = "function () { (function next() { if (!__.readDocuments(__.getSelfLink(), {}, next)) __.response.setBody('told'); })(); }"
    assert procedure(container, "ask", ask)() == "told"


LOOPS = {
    "endless": "function () { while (true) { } }",
    "regex": "function () { return /(a+)+$/.test('a'.repeat(64) + 'b'); }",
    "promises": "function () { (function next() { Promise.resolve().then(next); })(); }",
}


@pytest.fixture(scope="module")
def quick_server():
    with OwnServer("--script-timeout", "0.5", "--script-workers", "2") as server:
        yield server


def loops(server):
    client = CosmosClient(server.endpoint, KEY, retry_total=0)
    database = client.create_database_if_not_exists("loops")
    return database.create_container_if_not_exists("c", PartitionKey("/pk"))


@pytest.mark.parametrize("name", LOOPS)
def test_a_script_without_end_is_ended(quick_server, name):
    container = loops(quick_server)
    run = procedure(container, f"loop {name}", LOOPS[name])
    with pytest.raises(exceptions.CosmosHttpResponseError) as error:
        run()
    assert error.value.status_code in (400, 408)
    container.upsert_item({"id": "1", "pk": "a"})
    assert container.read_item("1", "a")["id"] == "1"
    hello = "function () { getContext().getResponse().setBody('hello'); }"
    container.scripts.create_stored_procedure({"id": f"hello {name}", "body": hello})
    assert container.scripts.execute_stored_procedure(f"hello {name}", partition_key="a") == "hello"


SWAP = """
function swap(first, second, fail) {
    var collection = getContext().getCollection(), link = collection.getAltLink() + '/docs/';
    collection.readDocument(link + first, function (error, a) {
        if (error) throw error;
        collection.readDocument(link + second, function (error, b) {
            if (error) throw error;
            var kept = a.player;
            a.player = b.player;
            b.player = kept;
            collection.replaceDocument(a._self, a, function (error) {
                if (error) throw error;
                if (fail) throw new Error('half way');
                collection.replaceDocument(b._self, b, function (error) { if (error) throw error; });
            });
        });
    });
}
"""


def test_a_swap_that_fails_half_way_leaves_nothing(container):
    run = procedure(container, "swap", SWAP)
    container.create_item({"id": "x", "pk": "a", "player": "ada"})
    container.create_item({"id": "y", "pk": "a", "player": "bob"})
    with pytest.raises(exceptions.CosmosHttpResponseError) as error:
        run("x", "y", True)
    # The message says what was thrown, and where.
    assert error.value.status_code == 400
    line = SWAP[: SWAP.index("half way")].count("\n") + 1
    assert "half way" in str(error.value) and f"swap.js:{line}:" in str(error.value)
    assert [container.read_item(id, "a")["player"] for id in "xy"] == ["ada", "bob"]
    run("x", "y", False)
    assert [container.read_item(id, "a")["player"] for id in "xy"] == ["bob", "ada"]
