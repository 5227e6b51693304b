// Long lists, a page at a time.

import assert from "node:assert/strict";
import { test } from "node:test";

import { withContainer, withDatabase } from "../support.js";

test("pages hold what was asked for, and each item comes once", () =>
  withContainer(async (container) => {
    for (let n = 0; n < 25; n++) await container.items.create({ id: `${n}`, pk: "a" });
    const pages = container.items.query("SELECT * FROM c", { partitionKey: "a", maxItemCount: 10 });
    const sizes = [];
    const seen = new Set();
    while (pages.hasMoreResults()) {
      const { resources } = await pages.fetchNext();
      if (!resources) break;
      sizes.push(resources.length);
      resources.forEach((each) => seen.add(each.id));
    }
    assert.equal(seen.size, 25);
    assert.deepEqual(sizes.filter((size) => size > 0), [10, 10, 5]);
  }));

test("a continuation goes on where the page ended", () =>
  withContainer(async (container) => {
    for (let n = 0; n < 12; n++) await container.items.create({ id: `${n}`, pk: "a" });
    const query = (continuationToken) =>
      container.items.query("SELECT * FROM c", { partitionKey: "a", maxItemCount: 5, continuationToken });
    const first = await query().fetchNext();
    assert.ok(first.continuationToken);
    const second = await query(first.continuationToken).fetchNext();
    const ids = [...first.resources, ...second.resources].map((each) => each.id);
    assert.equal(new Set(ids).size, 10);
  }));

test("lists of containers come in pages", () =>
  withDatabase(async (database) => {
    for (let n = 0; n < 7; n++) await database.containers.create({ id: `c${n}`, partitionKey: "/pk" });
    const pages = database.containers.readAll({ maxItemCount: 3 });
    const sizes = [];
    for await (const { resources } of pages.getAsyncIterator()) sizes.push(resources.length);
    assert.deepEqual(sizes, [3, 3, 1]);
  }));

test("a container of many ranges is read as a whole", () =>
  withContainer(
    async (container) => {
      const { resources: ranges } = await container.readPartitionKeyRanges().fetchAll();
      assert.equal(ranges.length, 4);
      for (let n = 0; n < 60; n++) await container.items.create({ id: `${n}`, pk: `k${n}` });
      assert.equal((await container.items.readAll().fetchAll()).resources.length, 60);
      assert.equal((await container.item("7", "k7").read()).resource.pk, "k7");
    },
    { throughput: 40000 },
  ));
