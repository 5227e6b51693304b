// What the tests share: clients of the running server, and databases that go away again.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { randomUUID } from "node:crypto";
import { mkdtempSync, rmSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";

import { CosmosClient } from "@azure/cosmos";

export const endpoint = process.env.ASTRARIUM_ENDPOINT;
export const key = process.env.ASTRARIUM_KEY;

export function newClient(options = {}) {
  return new CosmosClient({ endpoint, key, ...options });
}

/** Runs `body` with a database that is deleted afterwards. */
export async function withDatabase(body, options = {}) {
  const client = newClient();
  const { database } = await client.databases.create({ id: `js-${randomUUID()}`, ...options });
  try {
    await body(database, client);
  } finally {
    await database.delete();
    client.dispose();
  }
}

/** Runs `body` with a container of its own. */
export function withContainer(body, definition = {}) {
  return withDatabase(async (database, client) => {
    const { container } = await database.containers.create({
      id: "items",
      partitionKey: { paths: ["/pk"], kind: "Hash", version: 2 },
      ...definition,
    });
    await body(container, database, client);
  });
}

/** Asserts that a call is refused with that status, and in words. */
export async function refused(status, call) {
  await assert.rejects(call, (error) => {
    assert.equal(error.code, status, `${error.code} ${error.message}`);
    assert.ok(error.message);
    return true;
  });
}

/** The item without what the server adds. */
export function own(item) {
  return Object.fromEntries(Object.entries(item).filter(([name]) => !name.startsWith("_")));
}

/** A server that a test may kill, on a port that stays the same. */
export class OwnServer {
  static async start(...options) {
    const server = new OwnServer();
    server.port = await freePort();
    server.data = mkdtempSync(join(tmpdir(), "astrarium-js-"));
    server.options = options;
    await server.run();
    return server;
  }

  async run() {
    const words = ["serve", "--port", String(this.port), "--data-dir", this.data, "--ready-json"];
    const stdio = ["ignore", "pipe", "inherit"];
    this.process = spawn(process.env.ASTRARIUM_BIN, [...words, ...this.options], { stdio });
    this.ended = new Promise((resolve) => this.process.once("exit", resolve));
    const lines = createInterface({ input: this.process.stdout });
    const line = await new Promise((resolve) => lines.once("line", resolve));
    this.endpoint = JSON.parse(line).endpoint;
  }

  async kill() {
    this.process.kill("SIGKILL");
    await this.ended;
  }

  async close() {
    await this.kill();
    rmSync(this.data, { recursive: true, force: true });
  }
}

function freePort() {
  return new Promise((resolve) => {
    const probe = createServer().listen(0, "127.0.0.1", () => {
      const { port } = probe.address();
      probe.close(() => resolve(port));
    });
  });
}
