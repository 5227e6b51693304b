// Sessions, restarts, throttling, and what is refused.

import assert from "node:assert/strict";
import { test } from "node:test";

import { CosmosClient } from "@azure/cosmos";

import { key, newClient, OwnServer, refused, withContainer } from "../support.js";

test("a session client reads what it wrote, and tokens grow", () =>
  withContainer(async (plain, database) => {
    const client = newClient({ consistencyLevel: "Session" });
    const container = client.database(database.id).container("items");
    let before = 0;
    for (let n = 0; n < 5; n++) {
      const { headers } = await container.items.upsert({ id: "1", pk: "a", n });
      const lsn = Number(headers["x-ms-session-token"].split("#")[1]);
      assert.ok(lsn > before);
      before = lsn;
      assert.equal((await container.item("1", "a").read()).resource.n, n);
    }
    client.dispose();
  }));

test("the same client goes on after the server was killed", async () => {
  const server = await OwnServer.start();
  try {
    const client = new CosmosClient({ endpoint: server.endpoint, key });
    const { database } = await client.databases.create({ id: "d" });
    const { container } = await database.containers.create({ id: "c", partitionKey: "/pk" });
    const written = [];
    for (let n = 0; n < 30; n++) written.push((await container.items.create({ id: `${n}`, pk: `${n % 3}` })).resource);
    for (let round = 0; round < 3; round++) {
      await server.kill();
      await server.run();
      for (const item of written) assert.deepEqual((await container.item(item.id, item.pk).read()).resource, item);
    }
    assert.equal((await container.items.readAll().fetchAll()).resources.length, 30);
    client.dispose();
  } finally {
    await server.close();
  }
});

test("throttled requests succeed in the end", async () => {
  const server = await OwnServer.start("--enforce-throughput");
  try {
    const client = new CosmosClient({ endpoint: server.endpoint, key });
    const { database } = await client.databases.create({ id: "d" });
    const { container } = await database.containers.create({ id: "c", partitionKey: "/pk", throughput: 400 });
    for (let n = 0; n < 150; n++) await container.items.create({ id: `${n}`, pk: "a", text: "x".repeat(2000) });
    assert.equal((await container.items.readAll().fetchAll()).resources.length, 150);
    client.dispose();
  } finally {
    await server.close();
  }
});

test("what this version does not serve is refused at once", () =>
  withContainer(async (container) => {
    await container.items.create({ id: "1", pk: "a" });
    await refused(400, () => container.items.query("SELECT VALUE MAX(c.x) FROM c ORDER BY c.x", { partitionKey: "a" }).fetchAll());
  }));

test("https on the same port", () =>
  withContainer(async (plain, database) => {
    process.env.NODE_TLS_REJECT_UNAUTHORIZED = "0";
    const client = newClient({ endpoint: process.env.ASTRARIUM_ENDPOINT.replace("http:", "https:") });
    const container = client.database(database.id).container("items");
    await container.items.create({ id: "1", pk: "a" });
    assert.equal((await container.item("1", "a").read()).resource.pk, "a");
    client.dispose();
    delete process.env.NODE_TLS_REJECT_UNAUTHORIZED;
  }));
