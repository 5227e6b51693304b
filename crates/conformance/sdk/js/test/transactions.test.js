// Patch, transactional batch, and bulk.

import assert from "node:assert/strict";
import { test } from "node:test";

import { refused, withContainer } from "../support.js";

test("a patch changes parts of an item", () =>
  withContainer(async (container) => {
    await container.items.create({ id: "1", pk: "a", n: 1, tags: ["x"] });
    const operations = [
      { op: "incr", path: "/n", value: 2 },
      { op: "add", path: "/tags/-", value: "y" },
      { op: "set", path: "/color", value: "red" },
    ];
    const { resource } = await container.item("1", "a").patch(operations);
    assert.equal(resource.n, 3);
    assert.deepEqual(resource.tags, ["x", "y"]);
    const condition = "from c where c.color = 'red'";
    const moved = await container.item("1", "a").patch({ condition, operations: [{ op: "move", from: "/color", path: "/paint" }] });
    assert.equal(moved.resource.paint, "red");
    await refused(412, () => container.item("1", "a").patch({ condition, operations }));
    await refused(404, () => container.item("2", "a").patch(operations));
    await refused(400, () => container.item("1", "a").patch([{ op: "set", path: "/pk", value: "b" }]));
  }));

test("a batch is done as a whole or not at all", () =>
  withContainer(async (container) => {
    const done = await container.items.batch(
      [
        { operationType: "Create", resourceBody: { id: "1", pk: "a", n: 1 } },
        { operationType: "Upsert", resourceBody: { id: "2", pk: "a" } },
        { operationType: "Patch", id: "1", resourceBody: { operations: [{ op: "incr", path: "/n", value: 1 }] } },
        { operationType: "Read", id: "1" },
        { operationType: "Replace", id: "2", resourceBody: { id: "2", pk: "a", replaced: true } },
        { operationType: "Delete", id: "2" },
      ],
      "a",
    );
    assert.deepEqual(done.result.map((each) => each.statusCode), [201, 201, 200, 200, 200, 204]);
    assert.equal(done.result[3].resourceBody.n, 2);
    const failed = await container.items.batch(
      [
        { operationType: "Create", resourceBody: { id: "3", pk: "a" } },
        { operationType: "Replace", id: "1", ifMatch: '"stale"', resourceBody: { id: "1", pk: "a" } },
      ],
      "a",
    );
    assert.equal(failed.code, 207);
    assert.deepEqual(failed.result.map((each) => each.statusCode), [424, 412]);
    assert.equal((await container.item("3", "a").read()).statusCode, 404);
    const { resources } = await container.items.readAll().fetchAll();
    assert.deepEqual(resources.map((each) => each.n), [2]);
  }));

test("bulk operations stand alone, over many ranges", () =>
  withContainer(
    async (container) => {
      const creates = [];
      for (let n = 0; n < 250; n++) {
        creates.push({ operationType: "Create", partitionKey: `k${n % 7}`, resourceBody: { id: `${n}`, pk: `k${n % 7}`, n } });
      }
      creates.push({ operationType: "Create", partitionKey: "k0", resourceBody: { id: "0", pk: "k0" } });
      creates.push({ operationType: "Read", id: "5", partitionKey: "k5" });
      const results = await container.items.executeBulkOperations(creates);
      const codes = results.map((each) => each.response?.statusCode ?? each.error?.code);
      assert.equal(codes.filter((code) => code === 201).length, 250);
      // The two that name the same item may come in either order, in one request or two.
      assert.ok(codes.includes(409));
      const { resources } = await container.items.readAll().fetchAll();
      assert.equal(resources.length, 250);
      const more = await container.items.bulk([
        { operationType: "Delete", id: "1", partitionKey: "k1" },
        { operationType: "Delete", id: "none", partitionKey: "k1" },
        { operationType: "Patch", id: "2", partitionKey: "k2", resourceBody: { operations: [{ op: "incr", path: "/n", value: 1 }] } },
        { operationType: "Upsert", resourceBody: { id: "new", pk: "k3" } },
      ]);
      assert.deepEqual(more.map((each) => each.statusCode), [204, 404, 200, 201]);
      assert.equal(more[2].resourceBody.n, 3);
    },
    { throughput: 30000 },
  ));
