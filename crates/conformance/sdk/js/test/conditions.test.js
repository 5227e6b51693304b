// Etags: match, mismatch, not modified.

import assert from "node:assert/strict";
import { test } from "node:test";

import { refused, withContainer } from "../support.js";

const ifMatch = (condition) => ({ accessCondition: { type: "IfMatch", condition } });
const ifNoneMatch = (condition) => ({ accessCondition: { type: "IfNoneMatch", condition } });

test("a write goes through with the current etag only", () =>
  withContainer(async (container) => {
    const { resource: first } = await container.items.create({ id: "1", pk: "a", n: 0 });
    const item = container.item("1", "a");
    const { resource: second } = await item.replace({ id: "1", pk: "a", n: 1 }, ifMatch(first._etag));
    assert.notEqual(second._etag, first._etag);
    await refused(412, () => item.replace({ id: "1", pk: "a", n: 2 }, ifMatch(first._etag)));
    await refused(412, () => container.items.upsert({ id: "1", pk: "a", n: 2 }, ifMatch(first._etag)));
    await refused(412, () => item.delete(ifMatch(first._etag)));
    assert.deepEqual((await item.read()).resource, second);
    assert.equal((await item.delete(ifMatch(second._etag))).statusCode, 204);
  }));

test("a read of what one has is not modified", () =>
  withContainer(async (container) => {
    const { resource } = await container.items.create({ id: "1", pk: "a" });
    const same = await container.item("1", "a").read(ifNoneMatch(resource._etag));
    assert.equal(same.statusCode, 304);
    assert.ok(!same.resource);
    const other = await container.item("1", "a").read(ifNoneMatch('"other"'));
    assert.equal(other.statusCode, 200);
  }));

test("of many writers with one etag exactly one wins", () =>
  withContainer(async (container) => {
    const { resource } = await container.items.create({ id: "1", pk: "a" });
    const attempts = Array.from({ length: 40 }, (_, n) =>
      container.item("1", "a").replace({ id: "1", pk: "a", n }, ifMatch(resource._etag)),
    );
    const results = await Promise.allSettled(attempts);
    const won = results.filter((result) => result.status === "fulfilled");
    assert.equal(won.length, 1);
    assert.ok(results.every((result) => result.status === "fulfilled" || result.reason.code === 412));
  }));
