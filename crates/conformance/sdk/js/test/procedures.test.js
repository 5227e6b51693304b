// Stored procedures and triggers.

import assert from "node:assert/strict";
import { test } from "node:test";

import { refused, withContainer } from "../support.js";

const swap = `function (first, second, fail) {
  const collection = getContext().getCollection(), link = collection.getAltLink() + "/docs/";
  collection.readDocument(link + first, (error, a) => {
    if (error) throw error;
    collection.readDocument(link + second, (error, b) => {
      if (error) throw error;
      [a.player, b.player] = [b.player, a.player];
      collection.replaceDocument(a._self, a, (error) => {
        if (error) throw error;
        if (fail) throw new Error("half way");
        collection.replaceDocument(b._self, b, (error, stored) => {
          if (error) throw error;
          getContext().getResponse().setBody(stored);
        });
      });
    });
  });
}`;

test("a swap is done as a whole or not at all", () =>
  withContainer(async (container) => {
    await container.items.create({ id: "x", pk: "a", player: "ada" });
    await container.items.create({ id: "y", pk: "a", player: "bob" });
    const { resource } = await container.scripts.storedProcedures.create({ id: "swap", body: swap });
    assert.equal(resource.id, "swap");
    const run = (...words) => container.scripts.storedProcedure("swap").execute("a", words);
    await refused(400, () => run("x", "y", true));
    assert.equal((await container.item("x", "a").read()).resource.player, "ada");
    const done = await run("x", "y", false);
    const stored = (await container.item("y", "a").read()).resource;
    assert.deepEqual(done.resource, stored);
    assert.equal(stored.player, "ada");
    await refused(400, () => run("x", "none", false));
  }));

test("queries and the chain of __ see the transaction's own writes", () =>
  withContainer(async (container) => {
    const body = function () {
      const collection = __;
      collection.createDocument(collection.getSelfLink(), { id: "1", pk: "a", n: 4 }, (error) => {
        if (error) throw error;
        collection.filter((each) => each.n > 3, (error, found) => {
          if (error) throw error;
          __.response.setBody(found.map((each) => each.id));
        });
      });
    };
    await container.scripts.storedProcedures.create({ id: "own", body: body.toString() });
    const { resource } = await container.scripts.storedProcedure("own").execute("a");
    assert.deepEqual(resource, ["1"]);
  }));

test("triggers stamp and veto", () =>
  withContainer(async (container) => {
    const stamp = "function () { const r = getContext().getRequest(), d = r.getBody(); d.stamped = true; r.setBody(d); }";
    const veto = "function () { throw new Error(3000, 'never'); }";
    const triggers = container.scripts.triggers;
    await triggers.create({ id: "stamp", body: stamp, triggerType: "Pre", triggerOperation: "All" });
    await triggers.create({ id: "veto", body: veto, triggerType: "Post", triggerOperation: "Create" });
    const made = await container.items.create({ id: "1", pk: "a" }, { preTriggerInclude: "stamp" });
    assert.equal(made.resource.stamped, true);
    await refused(400, () => container.items.create({ id: "2", pk: "a" }, { postTriggerInclude: "veto" }));
    assert.equal((await container.item("2", "a").read()).statusCode, 404);
    await refused(400, () => container.items.upsert({ id: "1", pk: "a" }, { postTriggerInclude: "veto" }));
  }));
