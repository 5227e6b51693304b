// Databases, containers and items from their making to their end.

import assert from "node:assert/strict";
import { test } from "node:test";

import { newClient, own, refused, withContainer, withDatabase } from "../support.js";

test("databases come and go", async () => {
  const client = newClient();
  const { database, resource } = await client.databases.create({ id: "js-lifecycle" });
  try {
    assert.equal(resource.id, "js-lifecycle");
    const { resources } = await client.databases.readAll().fetchAll();
    assert.ok(resources.some((each) => each.id === "js-lifecycle"));
    await refused(409, () => client.databases.create({ id: "js-lifecycle" }));
    const again = await client.databases.createIfNotExists({ id: "js-lifecycle" });
    assert.equal(again.statusCode, 200);
  } finally {
    await database.delete();
  }
  await refused(404, () => database.read());
  const account = await client.getDatabaseAccount();
  assert.equal(account.resource.consistencyPolicy, "Session");
  client.dispose();
});

test("containers come and go", () =>
  withDatabase(async (database) => {
    const partitionKey = { paths: ["/pk"], kind: "Hash", version: 2 };
    const { container, resource } = await database.containers.create({ id: "c", partitionKey, defaultTtl: 60 });
    assert.deepEqual(resource.partitionKey, partitionKey);
    assert.equal(resource.indexingPolicy.indexingMode, "consistent");
    await refused(409, () => database.containers.create({ id: "c", partitionKey }));
    const { resources } = await database.containers.readAll().fetchAll();
    assert.deepEqual(resources.map((each) => each.id), ["c"]);
    const replaced = await container.replace({ id: "c", partitionKey, defaultTtl: 90 });
    assert.equal(replaced.resource.defaultTtl, 90);
    await refused(400, () => container.replace({ id: "c", partitionKey: { ...partitionKey, paths: ["/x"] } }));
    await container.delete();
    await refused(404, () => container.read());
  }));

test("a key definition may be as short as the SDK lets it", () =>
  withDatabase(async (database) => {
    const { container } = await database.containers.create({ id: "c", partitionKey: "/pk" });
    await container.items.create({ id: "1", pk: "a" });
    const { resource } = await container.read();
    assert.deepEqual(resource.partitionKey.paths, ["/pk"]);
    assert.equal(resource.partitionKey.kind, "Hash");
    assert.ok(resource.partitionKey.version >= 1);
    assert.equal((await container.item("1", "a").read()).resource.pk, "a");
  }));

test("a container without a key definition gets the SDK's own", () =>
  withDatabase(async (database) => {
    const { container, resource } = await database.containers.create({ id: "c" });
    assert.deepEqual(resource.partitionKey.paths, ["/_partitionKey"]);
    await container.items.create({ id: "1", n: 1 });
    assert.equal((await container.item("1", undefined).read()).resource.n, 1);
  }));

test("items come and go", () =>
  withContainer(async (container) => {
    const made = await container.items.create({ id: "1", pk: "a", n: 1 });
    assert.equal(made.statusCode, 201);
    const item = container.item("1", "a");
    const read = await item.read();
    assert.deepEqual(read.resource, made.resource);
    assert.equal(read.etag, made.resource._etag);
    await refused(409, () => container.items.create({ id: "1", pk: "a" }));
    assert.equal((await item.replace({ id: "1", pk: "a", n: 2 })).resource.n, 2);
    assert.equal((await container.items.upsert({ id: "1", pk: "a", n: 3 })).statusCode, 200);
    assert.equal((await container.items.upsert({ id: "2", pk: "a" })).statusCode, 201);
    const { resources } = await container.items.readAll().fetchAll();
    assert.deepEqual(resources.map((each) => each.id).sort(), ["1", "2"]);
    assert.equal((await item.delete()).statusCode, 204);
    assert.equal((await item.read()).statusCode, 404);
    await refused(404, () => item.delete());
    await refused(404, () => item.replace({ id: "1", pk: "a" }));
  }));

test("a simple query finds what matches", () =>
  withContainer(async (container) => {
    for (let n = 0; n < 6; n++) await container.items.create({ id: `${n}`, pk: "ab"[n % 2], x: n % 3 });
    const query = { query: "SELECT * FROM c WHERE c.x = @v", parameters: [{ name: "@v", value: 1 }] };
    const everywhere = await container.items.query(query).fetchAll();
    assert.deepEqual(everywhere.resources.map((each) => each.id).sort(), ["1", "4"]);
    const inOne = await container.items.query(query, { partitionKey: "a" }).fetchAll();
    assert.deepEqual(inOne.resources.map((each) => each.id), ["4"]);
  }));

test("unique keys hold within a partition", () =>
  withContainer(
    async (container) => {
      await container.items.create({ id: "1", pk: "a", email: "x" });
      await container.items.create({ id: "2", pk: "b", email: "x" });
      await refused(409, () => container.items.create({ id: "3", pk: "a", email: "x" }));
      await container.item("1", "a").delete();
      await container.items.create({ id: "3", pk: "a", email: "x" });
    },
    { uniqueKeyPolicy: { uniqueKeys: [{ paths: ["/email"] }] } },
  ));

test("a client that knew the old container works with the new one", () =>
  withContainer(async (stale, database) => {
    await stale.items.create({ id: "1", pk: "a" });
    const other = newClient();
    await other.database(database.id).container("items").delete();
    await other.database(database.id).containers.create({ id: "items", partitionKey: "/pk" });
    other.dispose();
    assert.equal((await stale.item("1", "a").read()).statusCode, 404);
    await stale.items.create({ id: "2", pk: "a" });
    assert.deepEqual(own((await stale.item("2", "a").read()).resource), { id: "2", pk: "a" });
  }));

test("scripts are kept", () =>
  withContainer(async ({ scripts }) => {
    await scripts.storedProcedures.create({ id: "s", body: "function () { return 1; }" });
    await scripts.triggers.create({ id: "t", body: "function () {}", triggerType: "Pre", triggerOperation: "All" });
    await scripts.userDefinedFunctions.create({ id: "u", body: "function (x) { return x; }" });
    const { resources } = await scripts.storedProcedures.readAll().fetchAll();
    assert.deepEqual(resources.map((each) => each.id), ["s"]);
    await scripts.storedProcedure("s").replace({ id: "s", body: "function () { return 2; }" });
    assert.match((await scripts.storedProcedure("s").read()).resource.body, /2/);
    await scripts.storedProcedure("s").delete();
    await scripts.trigger("t").delete();
    await scripts.userDefinedFunction("u").delete();
  }));
