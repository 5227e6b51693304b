// What is stored comes back as it was sent: names, text, numbers, size.

import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { test } from "node:test";

import { newClient, own, refused, withContainer } from "../support.js";

for (const id of ["a b+é%", "日本語", "🚀", "'quoted'", "a&b=c", "x".repeat(1000), "ключ:[]{}", "%20"]) {
  test(`the id ${id.slice(0, 20)}`, () =>
    withContainer(async (container) => {
      await container.items.create({ id, pk: "a" });
      assert.equal((await container.item(id, "a").read()).resource.id, id);
      await container.item(id, "a").replace({ id, pk: "a", n: 1 });
      await container.item(id, "a").delete();
    }));
}

test("odd names of databases and containers", async () => {
  const client = newClient();
  const { database } = await client.databases.create({ id: `dätabase + % ${randomUUID()}` });
  try {
    const { container } = await database.containers.create({ id: "cöntainer 日本 +%", partitionKey: "/pk" });
    await container.items.create({ id: "1", pk: "a" });
    assert.equal((await container.item("1", "a").read()).resource.pk, "a");
  } finally {
    await database.delete();
    client.dispose();
  }
});

test("text of all planes, order of members, all sorts of values", () =>
  withContainer(async (container) => {
    const text = String.fromCodePoint(...Array(0x250).keys(), 0x2028, 0xfffd, 0x1f600, 0x10ffff);
    const body = { z: 1, id: "1", text, [text.slice(70, 200)]: "name", a: [{}, [], null, true, { b: 1, a: 2 }], pk: "a", "": "" };
    await container.items.create(body);
    const { resource } = await container.item("1", "a").read();
    assert.deepEqual(own(resource), body);
    assert.deepEqual(Object.keys(own(resource)), Object.keys(body));
  }));

test("numbers", () =>
  withContainer(async (container) => {
    const numbers = [0, -1, 1.5, 1e300, 5e-324, 2 ** 53, 0.1, Number.MAX_VALUE, 1e21];
    await container.items.create({ id: "1", pk: "a", numbers });
    assert.deepEqual((await container.item("1", "a").read()).resource.numbers, numbers);
  }));

test("an item of almost two megabytes, and one of more", () =>
  withContainer(async (container) => {
    const text = "é".repeat(1024 * 1024 - 300);
    await container.items.create({ id: "1", pk: "a", text });
    assert.equal((await container.item("1", "a").read()).resource.text, text);
    await refused(413, () => container.items.create({ id: "2", pk: "a", text: text + text }));
    assert.equal((await container.item("2", "a").read()).statusCode, 404);
  }));
