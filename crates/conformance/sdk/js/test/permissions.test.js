// Users, permissions, and tokens that open only what they should.

import assert from "node:assert/strict";
import { test } from "node:test";

import { CosmosClient } from "@azure/cosmos";

import { endpoint, newClient, refused, withContainer } from "../support.js";

async function permit(database, container, mode, more = {}) {
  const { user } = await database.users.upsert({ id: "ann" });
  const body = { id: `p-${mode}`, permissionMode: mode, resource: container.url, ...more };
  const { resource } = await user.permissions.create(body);
  return resource;
}

/** The same container, as seen with a token alone. */
function limited(permission, database, container) {
  const resourceTokens = { [container.url]: permission._token };
  return new CosmosClient({ endpoint, resourceTokens }).database(database.id).container(container.id);
}

test("users and permissions come and go", () =>
  withContainer(async (container, database) => {
    const { user } = await database.users.create({ id: "ann" });
    await refused(409, () => database.users.create({ id: "ann" }));
    const { permission, resource } = await user.permissions.create({ id: "p", permissionMode: "Read", resource: container.url });
    assert.match(resource._token, /^type=resource/);
    assert.equal((await permission.read()).resource.permissionMode, "Read");
    assert.equal((await user.permissions.readAll().fetchAll()).resources.length, 1);
    await permission.replace({ id: "p", permissionMode: "All", resource: container.url });
    assert.equal((await permission.read()).resource.permissionMode, "All");
    await permission.delete();
    await user.replace({ id: "bob" });
    await database.user("bob").delete();
    assert.equal((await database.users.readAll().fetchAll()).resources.length, 0);
  }));

test("a token to read does not write", () =>
  withContainer(async (container, database) => {
    await container.items.create({ id: "1", pk: "a" });
    const seen = limited(await permit(database, container, "Read"), database, container);
    assert.equal((await seen.item("1", "a").read()).resource.pk, "a");
    await refused(403, () => seen.items.create({ id: "2", pk: "a" }));
    await refused(403, () => seen.item("1", "a").delete());
    await refused(403, () => seen.delete());
  }));

test("a token for all writes", () =>
  withContainer(async (container, database) => {
    const seen = limited(await permit(database, container, "All"), database, container);
    await seen.items.create({ id: "1", pk: "a" });
    assert.equal((await seen.items.upsert({ id: "1", pk: "a", n: 2 })).resource.n, 2);
    await seen.item("1", "a").delete();
  }));

test("a token for one key", () =>
  withContainer(async (container, database) => {
    await container.items.create({ id: "1", pk: "a" });
    await container.items.create({ id: "1", pk: "b" });
    const permission = await permit(database, container, "All", { resourcePartitionKey: ["a"] });
    const seen = limited(permission, database, container);
    assert.equal((await seen.item("1", "a").read()).resource.pk, "a");
    await refused(403, () => seen.item("1", "b").read());
    await refused(403, () => seen.items.create({ id: "2", pk: "b" }));
  }));

test("a wrong key is refused", async () => {
  const client = newClient({ key: "d3Jvbmc=".repeat(8) });
  await refused(401, () => client.databases.create({ id: "x" }));
  client.dispose();
});
