// Partition keys of every kind.

import assert from "node:assert/strict";
import { test } from "node:test";

import { own, withContainer } from "../support.js";

for (const pk of ["text", "", "é日本🚀", 5, -1.5, 2 ** 40, true, false, "x".repeat(2000)]) {
  test(`a key of ${JSON.stringify(pk).slice(0, 20)}`, () =>
    withContainer(async (container) => {
      await container.items.create({ id: "1", pk });
      const item = container.item("1", pk);
      assert.deepEqual(own((await item.read()).resource), { id: "1", pk });
      await item.replace({ id: "1", pk, n: 2 });
      const { resources } = await container.items.query("SELECT * FROM c", { partitionKey: pk }).fetchAll();
      assert.deepEqual(resources.map((each) => each.n), [2]);
      await item.delete();
    }));
}

test("null and missing keys are different", () =>
  withContainer(async (container) => {
    await container.items.create({ id: "1", pk: null, is: "null" });
    await container.items.create({ id: "1", is: "missing" });
    assert.equal((await container.item("1", null).read()).resource.is, "null");
    assert.equal((await container.item("1", undefined).read()).resource.is, "missing");
    assert.equal((await container.item("1", {}).read()).resource.is, "missing");
  }));

test("hierarchical keys", () =>
  withContainer(
    async (container) => {
      for (const tenant of ["a", "b"])
        for (const user of ["x", "y"]) await container.items.create({ id: "1", tenant, user, session: "s" });
      const item = container.item("1", ["a", "x", "s"]);
      assert.equal((await item.read()).resource.user, "x");
      await item.replace({ id: "1", tenant: "a", user: "x", session: "s", n: 2 });
      assert.equal((await item.read()).resource.n, 2);
      const whole = await container.items.query("SELECT * FROM c", { partitionKey: ["a", "x", "s"] }).fetchAll();
      assert.equal(whole.resources.length, 1);
      await item.delete();
      assert.equal((await item.read()).statusCode, 404);
    },
    { partitionKey: { paths: ["/tenant", "/user", "/session"], kind: "MultiHash", version: 2 } },
  ));

test("the old hash", () =>
  withContainer(
    async (container) => {
      for (const pk of ["a", 5, "x".repeat(150)]) {
        await container.items.create({ id: "1", pk });
        assert.deepEqual(own((await container.item("1", pk).read()).resource), { id: "1", pk });
      }
    },
    { partitionKey: { paths: ["/pk"], kind: "Hash", version: 1 } },
  ));

test("a nested key", () =>
  withContainer(
    async (container) => {
      await container.items.create({ id: "1", a: { b: "x" } });
      assert.equal((await container.item("1", "x").read()).resource.a.b, "x");
    },
    { partitionKey: { paths: ["/a/b"], kind: "Hash", version: 2 } },
  ));
