// All changes of a container, range by range, with a checkpoint for each range.
//
// Run it against a server:
//   npm install
//   ASTRARIUM_ENDPOINT=http://127.0.0.1:8081 ASTRARIUM_KEY=… node get-changes.js

import { randomUUID } from "node:crypto";
import { pathToFileURL } from "node:url";

/** Reads what has changed since the checkpoints; gives the ids, and the new checkpoints. */
export async function getChanges({ ChangeFeedStartFrom, StatusCodes }, container, checkpoints) {
  const changed = [];
  const next = { ...checkpoints };
  for (const range of await container.getFeedRanges()) {
    const name = JSON.stringify(range);
    const changeFeedStartFrom = next[name]
      ? ChangeFeedStartFrom.Continuation(next[name])
      : ChangeFeedStartFrom.Beginning(range);
    const pages = container.items.getChangeFeedIterator({ changeFeedStartFrom, maxItemCount: 1 });
    while (pages.hasMoreResults) {
      const page = await pages.readNext();
      next[name] = page.continuationToken;
      if (page.statusCode === StatusCodes.NotModified) break;
      changed.push(...page.result.map((document) => document.id));
    }
  }
  return { changed, checkpoints: next };
}

export async function main(cosmos) {
  const { ASTRARIUM_ENDPOINT: endpoint, ASTRARIUM_KEY: key } = process.env;
  const client = new cosmos.CosmosClient({ endpoint, key });
  const { database } = await client.databases.create({ id: `get-changes-${randomUUID()}` });
  try {
    const partitionKey = { paths: ["/deviceId"], kind: "Hash", version: 2 };
    const { container } = await database.containers.create({ id: "readings", partitionKey, throughput: 20000 });
    for (let n = 0; n < 5; n++) {
      await container.items.create({ id: `old-${n}`, deviceId: `device-${n}`, metricValue: n });
    }

    // All documents of the container.
    const first = await getChanges(cosmos, container, {});
    console.log("first:", first.changed.sort().join(" "));

    const reading = { metricType: "Temperature", unit: "Celsius", metricValue: 1000 };
    await container.items.create({ id: "new-1", deviceId: "xsensr-201", ...reading });
    await container.items.create({ id: "new-2", deviceId: "xsensr-212", ...reading });

    // Only the two created above.
    const second = await getChanges(cosmos, container, first.checkpoints);
    console.log("second:", second.changed.sort().join(" "));
    return second.changed;
  } finally {
    await database.delete();
    client.dispose();
  }
}

if (import.meta.url === pathToFileURL(process.argv[1]).href) {
  await main(await import("@azure/cosmos"));
}
