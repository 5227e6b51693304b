// Stored procedures and triggers.

import assert from "node:assert/strict";
import { test } from "node:test";

import { ChangeFeedStartFrom } from "@azure/cosmos";

import { newClient, OwnServer, refused, withContainer } from "../support.js";

const swap = `function (first, second, fail) {
  const collection = getContext().getCollection(), link = collection.getAltLink() + "/docs/";
  collection.readDocument(link + first, (error, a) => {
    if (error) throw error;
    collection.readDocument(link + second, (error, b) => {
      if (error) throw error;
      [a.player, b.player] = [b.player, a.player];
      collection.replaceDocument(a._self, a, (error) => {
        if (error) throw error;
        if (fail) throw new Error("half way");
        collection.replaceDocument(b._self, b, (error, stored) => {
          if (error) throw error;
          getContext().getResponse().setBody(stored);
        });
      });
    });
  });
}`;

test("a swap is done as a whole or not at all", () =>
  withContainer(async (container) => {
    await container.items.create({ id: "x", pk: "a", player: "ada" });
    await container.items.create({ id: "y", pk: "a", player: "bob" });
    const { resource } = await container.scripts.storedProcedures.create({ id: "swap", body: swap });
    assert.equal(resource.id, "swap");
    const run = (...words) => container.scripts.storedProcedure("swap").execute("a", words);
    await refused(400, () => run("x", "y", true));
    assert.equal((await container.item("x", "a").read()).resource.player, "ada");
    const done = await run("x", "y", false);
    const stored = (await container.item("y", "a").read()).resource;
    assert.deepEqual(done.resource, stored);
    assert.equal(stored.player, "ada");
    await refused(400, () => run("x", "none", false));
  }));

test("queries and the chain of __ see the transaction's own writes", () =>
  withContainer(async (container) => {
    const body = function () {
      const collection = __;
      collection.createDocument(collection.getSelfLink(), { id: "1", pk: "a", n: 4 }, (error) => {
        if (error) throw error;
        collection.filter((each) => each.n > 3, (error, found) => {
          if (error) throw error;
          __.response.setBody(found.map((each) => each.id));
        });
      });
    };
    await container.scripts.storedProcedures.create({ id: "own", body: body.toString() });
    const { resource } = await container.scripts.storedProcedure("own").execute("a");
    assert.deepEqual(resource, ["1"]);
  }));

test("triggers stamp and veto", () =>
  withContainer(async (container) => {
    const stamp = "function () { const r = getContext().getRequest(), d = r.getBody(); d.stamped = true; r.setBody(d); }";
    const veto = "function () { throw new Error(3000, 'never'); }";
    const triggers = container.scripts.triggers;
    await triggers.create({ id: "stamp", body: stamp, triggerType: "Pre", triggerOperation: "All" });
    await triggers.create({ id: "veto", body: veto, triggerType: "Post", triggerOperation: "Create" });
    const made = await container.items.create({ id: "1", pk: "a" }, { preTriggerInclude: "stamp" });
    assert.equal(made.resource.stamped, true);
    await refused(400, () => container.items.create({ id: "2", pk: "a" }, { postTriggerInclude: "veto" }));
    assert.equal((await container.item("2", "a").read()).statusCode, 404);
    await refused(400, () => container.items.upsert({ id: "1", pk: "a" }, { postTriggerInclude: "veto" }));
  }));

const bulkImport = `function (items) {
  const collection = getContext().getCollection(), response = getContext().getResponse();
  let count = 0;
  const next = () => {
    response.setBody(count);
    if (count === items.length) return;
    collection.createDocument(collection.getSelfLink(), items[count], (error) => {
      if (error) throw error;
      count++;
      // As if the server had accepted no more: the client goes on with the rest.
      if (count < 300) next(); else response.setBody(count);
    });
  };
  next();
}`;

test("an import goes on where it stopped, and is one page of the feed each time", () =>
  withContainer(async (container) => {
    await container.scripts.storedProcedures.create({ id: "import", body: bulkImport });
    let items = Array.from({ length: 700 }, (_, n) => ({ id: `${n}`, pk: "a" }));
    const parts = [];
    while (items.length > 0) {
      const { resource } = await container.scripts.storedProcedure("import").execute("a", [items]);
      parts.push(resource);
      items = items.slice(resource);
    }
    // A slow server accepts fewer at once.
    assert.ok(parts.length >= 3);
    assert.equal(parts.reduce((sum, part) => sum + part), 700);
    assert.deepEqual(await pagesOfOne(container), parts);
  }));

/** How many items each page of the change feed has, if asked for one item each. */
async function pagesOfOne(container) {
  const start = { changeFeedStartFrom: ChangeFeedStartFrom.Beginning(), maxItemCount: 1 };
  const sizes = [];
  for await (const page of container.items.getChangeFeedIterator(start).getAsyncIterator()) {
    if (page.statusCode === 304) break;
    sizes.push(page.result.length);
  }
  return sizes;
}

test("a batch is one page of the feed", () =>
  withContainer(async (container) => {
    await container.items.create({ id: "before", pk: "a" });
    const create = (n) => ({ operationType: "Create", resourceBody: { id: `${n}`, pk: "a" } });
    await container.items.batch(Array.from({ length: 100 }, (_, n) => create(n)), "a");
    await container.items.create({ id: "after", pk: "a" });
    assert.deepEqual(await pagesOfOne(container), [1, 100, 1]);
  }));

const counter = `function (id) {
  const collection = getContext().getCollection();
  collection.readDocument(collection.getAltLink() + "/docs/" + id, (error, counter) => {
    if (error) throw error;
    counter.n++;
    collection.replaceDocument(counter._self, counter, { etag: counter._etag }, (error) => {
      if (error) throw error;
    });
  });
}`;

test("a counter under 64 callers is exact", () =>
  withContainer(async (container) => {
    await container.scripts.storedProcedures.create({ id: "count", body: counter });
    await container.items.create({ id: "n", pk: "a", n: 0 });
    const patch = [{ op: "incr", path: "/n", value: 1 }];
    const call = async () => {
      await container.scripts.storedProcedure("count").execute("a", ["n"]);
      // Writers that are no scripts get in between.
      await container.item("n", "a").patch(patch);
    };
    await Promise.all(Array.from({ length: 64 }, call));
    assert.equal((await container.item("n", "a").read()).resource.n, 64 * 2);
  }));

test("functions are called in WHERE, and over many rows", () =>
  withContainer(async (container) => {
    const functions = container.scripts.userDefinedFunctions;
    await functions.create({ id: "tax", body: "function tax(n) { return n < 10 ? n : n * 2; }" });
    for (const n of [1, 2, 3]) {
      const list = Array.from({ length: 400 }, (_, i) => n * 1000 + i);
      await container.items.create({ id: `${n}`, pk: "a", n: n * 8, list });
    }
    const ask = async (query, options) => (await container.items.query(query, options).fetchAll()).resources;
    assert.deepEqual(await ask("SELECT VALUE c.id FROM c WHERE udf.tax(c.n) > 40"), ["3"]);
    const parameters = [{ name: "@n", value: 8 }];
    assert.deepEqual(await ask({ query: "SELECT VALUE udf.tax(c.n) FROM c WHERE udf.tax(c.n) = @n", parameters }), [8]);
    const all = await ask("SELECT VALUE udf.tax(x) FROM c JOIN x IN c.list", { partitionKey: "a", maxItemCount: 90 });
    assert.equal(all.length, 1200);
    assert.deepEqual([all[0], all[1199]], [2000, 6798]);
    await refused(400, () => ask("SELECT VALUE udf.none(c.n) FROM c"));
  }));

const hostile = {
  endless: "while (true) { }",
  text: "var s = 'x'; while (true) s += s;",
  list: "var l = []; while (true) l.push(new Array(1000).fill(0));",
  deep: "(function f() { return f() + 1; })();",
  regex: "/(a+)+$/.test('a'.repeat(64) + 'b');",
  huge: "getContext().getResponse().setBody('x'.repeat(5 << 20));",
  getter: "getContext().getResponse().setBody({ get a() { throw new Error('gotcha'); } });",
  broken: "getContext().getCollection().createDocument = null; __.createDocument('x');",
};

test("hostile scripts end, and the next request is served", async () => {
  const server = await OwnServer.start("--script-timeout", "0.5");
  const client = newClient({ endpoint: server.endpoint, connectionPolicy: { retryOptions: { maxRetryAttemptCount: 0 } } });
  try {
    const { database } = await client.databases.create({ id: "d" });
    const { container } = await database.containers.create({ id: "c", partitionKey: { paths: ["/pk"], kind: "Hash", version: 2 } });
    const good = "function () { getContext().getResponse().setBody([1, 2].map((n) => typeof {}.x + n)); }";
    await container.scripts.storedProcedures.create({ id: "good", body: good });
    for (const [id, body] of Object.entries(hostile)) {
      const pollution = "Object.prototype.x = 1; Array.prototype.map = null;";
      const create = "__.createDocument(__.getSelfLink(), { id: 'left', pk: 'a' });";
      await container.scripts.storedProcedures.create({ id, body: `function () { ${create} ${pollution} ${body} }` });
      await assert.rejects(
        () => container.scripts.storedProcedure(id).execute("a"),
        (error) => assert.ok([400, 408, 413].includes(error.code), `${id}: ${error.code}`) ?? true,
      );
      const { resource } = await container.scripts.storedProcedure("good").execute("a");
      assert.deepEqual(resource, ["undefined1", "undefined2"]);
      assert.equal((await container.item("left", "a").read()).statusCode, 404);
    }
  } finally {
    client.dispose();
    await server.close();
  }
});
