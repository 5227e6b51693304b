// Queries: over one partition key and over all, evaluated by the server and put together by the SDK.

import assert from "node:assert/strict";
import { test } from "node:test";

import { refused, withContainer, withDatabase } from "../support.js";

async function fill(container, count = 30) {
  for (let n = 0; n < count; n++) {
    await container.items.create({
      id: String(n), pk: `k${n % 6}`, n, grp: ["x", "y", "z"][n % 3], tags: [{ name: `t${n % 4}`, amount: n }],
    });
  }
}

const numbers = (count) => [...Array(count).keys()];

// The SDK asks the server for the whole answer, or for a plan and then each range by itself.
const ways = [
  ["by the server", {}],
  ["by plan", { forceQueryPlan: true }],
];

async function ask(container, query, options = {}) {
  return (await container.items.query(query, options).fetchAll()).resources;
}

test("parameters", () =>
  withContainer(async (container) => {
    await fill(container);
    const parameters = [{ name: "@n", value: 7 }, { name: "@g", value: "y" }];
    const query = { query: "SELECT * FROM c WHERE c.n = @n AND c.grp = @g", parameters };
    const found = await ask(container, query);
    assert.deepEqual(found.map((item) => item.id), ["7"]);
    assert.ok(found[0]._etag);
  }));

test("one partition key", () =>
  withContainer(async (container) => {
    await fill(container);
    const found = await ask(container, "SELECT VALUE c.n FROM c WHERE c.n > 10 ORDER BY c.n", { partitionKey: "k2" });
    assert.deepEqual(found, [14, 20, 26]);
  }));

test("pages give every row once, and go on from a token", () =>
  withContainer(async (container) => {
    await fill(container);
    const query = "SELECT VALUE c.n FROM c WHERE c.n >= 4";
    const found = [];
    for await (const page of container.items.query(query, { maxItemCount: 7 }).getAsyncIterator()) {
      assert.ok(page.resources.length <= 7);
      found.push(...page.resources);
    }
    assert.deepEqual(found.sort((a, b) => a - b), numbers(30).slice(4));

    const options = { maxItemCount: 2, partitionKey: "k1" };
    const ordered = "SELECT VALUE c.n FROM c ORDER BY c.n";
    const first = await container.items.query(ordered, options).fetchNext();
    assert.deepEqual(first.resources, [1, 7]);
    const rest = container.items.query(ordered, { ...options, continuationToken: first.continuationToken });
    assert.deepEqual((await rest.fetchAll()).resources, [13, 19, 25]);
  }));

for (const [way, options] of ways) {
  for (const throughput of [400, 30_000]) {
    test(`order, aggregates, groups ${way}, ${throughput} RU/s`, () =>
      withDatabase(async (database) => {
        const { container } = await database.containers.create({ id: "items", partitionKey: "/pk", throughput });
        await fill(container);
        const found = (query) => ask(container, query, options);
        assert.deepEqual(await found("SELECT VALUE c.n FROM c ORDER BY c.n DESC"), numbers(30).reverse());
        assert.deepEqual(await found("SELECT VALUE c.n FROM c ORDER BY c.n OFFSET 10 LIMIT 5"), [10, 11, 12, 13, 14]);
        assert.deepEqual(await found("SELECT TOP 3 VALUE c.n FROM c ORDER BY c.n"), [0, 1, 2]);
        assert.deepEqual(await found("SELECT VALUE COUNT(1) FROM c"), [30]);
        assert.deepEqual(await found("SELECT VALUE SUM(c.n) FROM c WHERE c.grp = 'x'"), [135]);
        assert.deepEqual(await found("SELECT VALUE AVG(c.n) FROM c"), [14.5]);
        assert.deepEqual(await found("SELECT VALUE MIN(c.n) FROM c"), [0]);
        assert.deepEqual(await found("SELECT VALUE MAX(c.n) FROM c"), [29]);
        assert.deepEqual((await found("SELECT DISTINCT VALUE c.grp FROM c")).sort(), ["x", "y", "z"]);
        const groups = await found("SELECT c.grp, COUNT(1) AS n, SUM(c.n) AS s FROM c GROUP BY c.grp");
        groups.sort((a, b) => a.grp.localeCompare(b.grp));
        assert.deepEqual(groups, [
          { grp: "x", n: 10, s: 135 }, { grp: "y", n: 10, s: 145 }, { grp: "z", n: 10, s: 155 },
        ]);
        assert.deepEqual(await found("SELECT COUNT(1) AS n, MAX(c.n) AS most FROM c"), [{ n: 30, most: 29 }]);
      }));
  }
}

test("joins and subqueries", () =>
  withContainer(async (container) => {
    await fill(container);
    assert.deepEqual(await ask(container, "SELECT c.id, t.name FROM c JOIN t IN c.tags WHERE t.amount = 9"), [
      { id: "9", name: "t1" },
    ]);
    const exists = "SELECT VALUE c.n FROM c WHERE EXISTS(SELECT VALUE t FROM t IN c.tags WHERE t.amount < 2)";
    assert.deepEqual((await ask(container, exists)).sort(), [0, 1]);
  }));

test("hierarchical keys", () =>
  withDatabase(async (database) => {
    const partitionKey = { paths: ["/tenant", "/user"], kind: "MultiHash", version: 2 };
    const { container } = await database.containers.create({ id: "h", partitionKey });
    for (let n = 0; n < 12; n++) {
      await container.items.create({ id: String(n), tenant: `t${n % 2}`, user: `u${n % 3}`, n });
    }
    const query = "SELECT VALUE c.n FROM c ORDER BY c.n";
    assert.deepEqual(await ask(container, query, { partitionKey: ["t0", "u1"] }), [4, 10]);
    assert.deepEqual(await ask(container, query, { partitionKey: ["t1"] }), [1, 3, 5, 7, 9, 11]);
  }));

test("metrics and used indexes are told", () =>
  withContainer(async (container) => {
    await fill(container);
    const options = { populateQueryMetrics: true, populateIndexMetrics: true };
    const page = await container.items.query("SELECT * FROM c WHERE c.n = 3", options).fetchNext();
    assert.equal(page.resources.length, 1);
    assert.ok(page.requestCharge >= 2);
    assert.deepEqual(JSON.parse(page.indexMetrics), {
      UtilizedIndexes: { SingleIndexes: [{ IndexSpec: "/n/?", IndexImpactScore: "High" }], CompositeIndexes: [] },
      PotentialIndexes: { SingleIndexes: [], CompositeIndexes: [] },
    });
  }));

test("what is wrong is said", () =>
  withContainer(async (container) => {
    await fill(container, 3);
    await refused(400, () => ask(container, "SELECT * FROM c WHERE c.n = = 1"));
    await refused(400, () => ask(container, "SELECT * FROM c ORDER BY c.n, c.grp"));
    await refused(400, () => ask(container, "SELECT * FROM c", { continuationToken: "nonsense" }));
  }));
