// The change feed by the pull model: starts, scopes, pages, both modes, and a server that dies.

import assert from "node:assert/strict";
import { test } from "node:test";

import * as cosmos from "@azure/cosmos";

import { main as example } from "../../../../../examples/get-changes/js/get-changes.js";
import { OwnServer, key, refused, withContainer } from "../support.js";

const { ChangeFeedMode, ChangeFeedRetentionTimeSpan, ChangeFeedStartFrom, CosmosClient, StatusCodes } = cosmos;

const wide = { throughput: 40000 };
const kept = { changeFeedPolicy: { retentionDuration: ChangeFeedRetentionTimeSpan.fromMinutes(10).getRetentionInMinutes() } };

async function fill(container, from, to, pk = () => "a") {
  for (let n = from; n < to; n++) await container.items.upsert({ id: `${n}`, pk: pk(n) });
}

/** Reads until nothing is new; gives the changes, the sizes of pages and the continuation. */
async function read(container, changeFeedStartFrom, options = {}) {
  const pages = container.items.getChangeFeedIterator({ changeFeedStartFrom, ...options });
  const changes = [];
  const sizes = [];
  for (;;) {
    const page = await pages.readNext();
    if (page.statusCode === StatusCodes.NotModified) return { changes, sizes, token: page.continuationToken };
    sizes.push(page.result.length);
    changes.push(...page.result);
  }
}

const ids = ({ changes }) => changes.map((each) => each.id);
const numbers = (from, to) => Array.from({ length: to - from }, (_, n) => `${n + from}`);

test("each item comes once, at its newest change", () =>
  withContainer(async (container) => {
    await fill(container, 0, 3);
    await container.items.upsert({ id: "0", pk: "a", n: 2 });
    await container.item("1", "a").delete();
    const found = await read(container, ChangeFeedStartFrom.Beginning());
    assert.deepEqual(ids(found), ["2", "0"]);
    assert.equal(found.changes[1].n, 2);
    assert.ok(found.changes[0]._lsn < found.changes[1]._lsn);
  }));

test("a continuation goes on where the reader was", () =>
  withContainer(async (container) => {
    await fill(container, 0, 2);
    const { token } = await read(container, ChangeFeedStartFrom.Beginning());
    const again = await read(container, ChangeFeedStartFrom.Continuation(token));
    assert.deepEqual(again.changes, []);
    await fill(container, 2, 3);
    assert.deepEqual(ids(await read(container, ChangeFeedStartFrom.Continuation(token))), ["2"]);
    assert.deepEqual(ids(await read(container, ChangeFeedStartFrom.Continuation(again.token))), ["2"]);
  }));

test("from now", () =>
  withContainer(async (container) => {
    await fill(container, 0, 1);
    const { changes, token } = await read(container, ChangeFeedStartFrom.Now());
    assert.deepEqual(changes, []);
    await fill(container, 1, 2);
    assert.deepEqual(ids(await read(container, ChangeFeedStartFrom.Continuation(token))), ["1"]);
  }));

test("the older iterator of the SDK", () =>
  withContainer(async (container) => {
    await fill(container, 0, 3);
    const pages = container.items.changeFeed("a", { startFromBeginning: true, maxItemCount: 2 });
    const seen = [];
    for (let page = await pages.fetchNext(); page.statusCode !== 304; page = await pages.fetchNext()) {
      seen.push(...page.result.map((each) => each.id));
    }
    assert.deepEqual(seen, numbers(0, 3));
  }));

test("from a time", () =>
  withContainer(async (container) => {
    await fill(container, 0, 1);
    await new Promise((resolve) => setTimeout(resolve, 2100));
    const moment = new Date();
    await new Promise((resolve) => setTimeout(resolve, 1100));
    await fill(container, 1, 6);
    const found = await read(container, ChangeFeedStartFrom.Time(moment), { maxItemCount: 2 });
    assert.deepEqual(ids(found), numbers(1, 6));
    assert.deepEqual(found.sizes, [2, 2, 1]);
    const all = await read(container, ChangeFeedStartFrom.Time(new Date(moment - 86_400_000)));
    assert.deepEqual(ids(all), numbers(0, 6));
  }));

test("by partition key", () =>
  withContainer(async (container) => {
    await fill(container, 0, 30, (n) => `k${n % 3}`);
    const found = await read(container, ChangeFeedStartFrom.Beginning("k1"), { maxItemCount: 4 });
    assert.deepEqual(ids(found), numbers(0, 30).filter((n) => n % 3 === 1));
    await fill(container, 30, 33, (n) => `k${n % 3}`);
    assert.deepEqual(ids(await read(container, ChangeFeedStartFrom.Continuation(found.token))), ["31"]);
  }, wide));

test("by feed range", () =>
  withContainer(async (container) => {
    await fill(container, 0, 40, (n) => `k${n}`);
    const ranges = await container.getFeedRanges();
    assert.equal(ranges.length, 4);
    const seen = [];
    const tokens = [];
    for (const range of ranges) {
      const found = await read(container, ChangeFeedStartFrom.Beginning(range));
      assert.ok(found.changes.length > 0);
      seen.push(...ids(found));
      tokens.push(found.token);
    }
    assert.deepEqual(seen.sort((a, b) => a - b), numbers(0, 40));
    await fill(container, 40, 41, (n) => `k${n}`);
    const later = [];
    for (const token of tokens) later.push(...ids(await read(container, ChangeFeedStartFrom.Continuation(token))));
    assert.deepEqual(later, ["40"]);
  }, wide));

test("all ranges, page by page", () =>
  withContainer(async (container) => {
    await fill(container, 0, 40, (n) => `k${n}`);
    const pages = container.items.getChangeFeedIterator({
      changeFeedStartFrom: ChangeFeedStartFrom.Beginning(),
      maxItemCount: 3,
    });
    const seen = [];
    for (let quiet = 0; quiet < 8; ) {
      const page = await pages.readNext();
      quiet = page.statusCode === StatusCodes.NotModified ? quiet + 1 : 0;
      if (quiet) continue;
      assert.ok(page.result.length <= 3);
      seen.push(...page.result.map((each) => each.id));
    }
    assert.deepEqual(seen.sort((a, b) => a - b), numbers(0, 40));
  }, wide));

test("all versions and deletes", () =>
  withContainer(async (container) => {
    const changeFeedMode = ChangeFeedMode.AllVersionsAndDeletes;
    const { changes, token } = await read(container, ChangeFeedStartFrom.Now(), { changeFeedMode });
    assert.deepEqual(changes, []);
    await container.items.create({ id: "1", pk: "a", n: 1 });
    await container.items.upsert({ id: "1", pk: "a", n: 2 });
    await container.item("1", "a").delete();
    const found = await read(container, ChangeFeedStartFrom.Continuation(token), { changeFeedMode });
    const [create, replace, remove] = found.changes;
    assert.deepEqual(found.changes.map((each) => each.metadata.operationType), ["create", "replace", "delete"]);
    assert.deepEqual([create.current.n, replace.current.n, remove.current], [1, 2, undefined]);
    assert.equal(replace.metadata.previousImageLSN, create.metadata.lsn);
    assert.deepEqual([remove.metadata.id, remove.metadata.partitionKey], ["1", { pk: "a" }]);
    assert.ok(Math.abs(create.metadata.crts - Date.now() / 1000) < 60);
  }, kept));

test("a container without history says so", () =>
  withContainer((container) =>
    refused(400, () => read(container, ChangeFeedStartFrom.Now(), { changeFeedMode: ChangeFeedMode.AllVersionsAndDeletes }))));

test("the server is killed in the middle", async () => {
  const server = await OwnServer.start();
  const client = new CosmosClient({ endpoint: server.endpoint, key });
  try {
    const { database } = await client.databases.create({ id: "d" });
    const { container } = await database.containers.create({ id: "c", partitionKey: "/pk" });
    await fill(container, 0, 20);
    const pages = container.items.getChangeFeedIterator({
      changeFeedStartFrom: ChangeFeedStartFrom.Beginning(),
      maxItemCount: 5,
    });
    const seen = [];
    const next = async () => seen.push(...(await pages.readNext()).result.map((each) => each.id));
    await next();
    await next();
    await server.kill();
    await server.run();
    await next();
    await next();
    assert.deepEqual(seen, numbers(0, 20));
    assert.equal((await pages.readNext()).statusCode, StatusCodes.NotModified);
  } finally {
    client.dispose();
    await server.close();
  }
});

test("the example of the article", async () => {
  assert.deepEqual(await example(cosmos), ["new-1", "new-2"]);
});

async function split(container) {
  const { offer, resource } = await container.readOffer();
  resource.content.offerThroughput = 40000;
  await offer.replace(resource);
  while ((await container.readPartitionKeyRanges().fetchAll()).resources.length < 4) {
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}

test("a split in the middle of an iteration", () =>
  withContainer(
    async (container) => {
      await fill(container, 0, 40, (n) => `k${n % 10}`);
      const options = { changeFeedStartFrom: ChangeFeedStartFrom.Beginning(), maxItemCount: 5 };
      const pages = container.items.getChangeFeedIterator(options);
      const seen = [];
      for (let n = 0; n < 2; n++) seen.push(...(await pages.readNext()).result);
      assert.equal(seen.length, 10);
      await split(container);
      await fill(container, 40, 50, (n) => `k${n % 10}`);
      let quiet = 0;
      while (quiet < 4) {
        const page = await pages.readNext();
        quiet = page.statusCode === StatusCodes.NotModified ? quiet + 1 : 0;
        seen.push(...(page.result ?? []));
      }
      const order = seen.map((each) => Number(each.id));
      assert.deepEqual([...order].sort((a, b) => a - b), numbers(0, 50).map(Number));
      for (let k = 0; k < 10; k++) {
        const mine = order.filter((n) => n % 10 === k);
        assert.deepEqual(mine, [...mine].sort((a, b) => a - b));
      }
    },
    { throughput: 400 },
  ));
