// Provisioned throughput: given, read, replaced.

import assert from "node:assert/strict";
import { test } from "node:test";

import { refused, withContainer, withDatabase } from "../support.js";

test("manual throughput", () =>
  withContainer(
    async (container) => {
      const { offer, resource } = await container.readOffer();
      assert.equal(resource.content.offerThroughput, 400);
      resource.content.offerThroughput = 700;
      assert.equal((await offer.replace(resource)).resource.content.offerThroughput, 700);
      assert.equal((await container.readOffer()).resource.content.offerThroughput, 700);
      resource.content.offerThroughput = 450;
      await refused(400, () => offer.replace(resource));
    },
    { throughput: 400 },
  ));

test("autoscale", () =>
  withContainer(
    async (container) => {
      const { resource } = await container.readOffer();
      assert.equal(resource.content.offerAutopilotSettings.maxThroughput, 4000);
    },
    { maxThroughput: 4000 },
  ));

test("throughput shared by a database", () =>
  withDatabase(
    async (database) => {
      assert.equal((await database.readOffer()).resource.content.offerThroughput, 1000);
      const { container } = await database.containers.create({ id: "c", partitionKey: "/pk" });
      assert.equal((await container.readOffer()).resource, undefined);
    },
    { throughput: 1000 },
  ));
