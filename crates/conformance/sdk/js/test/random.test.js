// Random queries over one, two and seven partitions, evaluated by the server and put together by the SDK: what the
// rows must be is worked out here. A failing seed is run again with `ASTRARIUM_SEED=n cargo xtask sdk js random`.

import assert from "node:assert/strict";
import { test } from "node:test";

import { withDatabase } from "../support.js";

const PARTITIONS = [1, 2, 7];
const SEEDS = process.env.ASTRARIUM_SEED ? [Number(process.env.ASTRARIUM_SEED)] : [0, 1, 2];
const QUERIES = 20;

/** Chance from a seed. */
function chanceOf(seed) {
  let state = (seed + 1) * 2654435769 >>> 0;
  const below = (bound) => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return Math.floor((state / 2 ** 32) * bound);
  };
  return { below, pick: (all) => all[below(all.length)] };
}

function someItems(chance) {
  const items = [];
  for (let n = 0; n < 20 + chance.below(30); n++) {
    // No zeros: among different rows the SDK loses what JavaScript takes for false.
    const item = { id: String(n), pk: `k${chance.below(9)}`, n: 1 + chance.below(7) };
    if (chance.below(5) > 0) item.s = chance.pick(["a", "ab", "b", "Ba", ""]);
    items.push(item);
  }
  return items;
}

/** A condition as text, and as a function of an item. */
function someFilter(chance) {
  const n = chance.below(8);
  const text = chance.pick(["a", "b"]);
  return chance.pick([
    ["true", () => true],
    [`c.n = ${n}`, (item) => item.n === n],
    [`c.n >= ${n}`, (item) => item.n >= n],
    [`c.n < ${n} AND c.s = '${text}'`, (item) => item.n < n && item.s === text],
    [`CONTAINS(c.s, '${text}')`, (item) => (item.s ?? "").includes(text)],
    [`STARTSWITH(c.s, '${text}', true)`, (item) => (item.s ?? "").toLowerCase().startsWith(text)],
    [`c.pk = 'k${n}'`, (item) => item.pk === `k${n}`],
    ["IS_DEFINED(c.s)", (item) => item.s !== undefined],
  ]);
}

function counts(items) {
  const found = new Map();
  for (const { n } of items) found.set(n, (found.get(n) ?? 0) + 1);
  return [...found];
}

/** A query, its rows, whether they have an order, and whether the SDK can put them together by itself. */
function someQuery(chance, items) {
  const [text, passes] = someFilter(chance);
  const found = items.filter(passes);
  const ids = [...found].sort((a, b) => a.n - b.n || (a.id < b.id ? -1 : 1)).map((item) => item.id);
  const sum = found.reduce((all, item) => all + item.n, 0);
  const groups = counts(found);
  const numbers = groups.map(([n]) => n);
  const extremes = numbers.length === 0 ? {} : { lo: Math.min(...numbers), hi: Math.max(...numbers) };
  return chance.pick([
    { text: `SELECT VALUE c.id FROM c WHERE ${text}`, rows: ids },
    { text: `SELECT VALUE c.id FROM c WHERE ${text} ORDER BY c.n, c.id`, rows: ids, ordered: true },
    {
      text: `SELECT VALUE c.id FROM c WHERE ${text} ORDER BY c.n DESC, c.id DESC OFFSET 2 LIMIT 5`,
      rows: [...ids].reverse().slice(2, 7), ordered: true,
    },
    { text: `SELECT TOP 4 c.id FROM c WHERE ${text} ORDER BY c.n, c.id`, rows: ids.slice(0, 4).map((id) => ({ id })), ordered: true },
    { text: `SELECT VALUE COUNT(1) FROM c WHERE ${text}`, rows: [found.length] },
    { text: `SELECT VALUE SUM(c.n) FROM c WHERE ${text}`, rows: [sum] },
    { text: `SELECT COUNT(1) AS n, SUM(c.n) AS s FROM c WHERE ${text}`, rows: [{ n: found.length, s: sum }] },
    { text: `SELECT MIN(c.n) AS lo, MAX(c.n) AS hi FROM c WHERE ${text}`, rows: [extremes] },
    { text: `SELECT DISTINCT VALUE c.n FROM c WHERE ${text}`, rows: numbers },
    { text: `SELECT c.n, COUNT(1) AS count FROM c WHERE ${text} GROUP BY c.n`, rows: groups.map(([n, count]) => ({ n, count })) },
    { text: `SELECT VALUE {n: c.n, count: COUNT(1)} FROM c WHERE ${text} GROUP BY c.n`, rows: groups.map(([n, count]) => ({ n, count })), whole: true },
    { text: `SELECT VALUE COUNT(1) FROM (SELECT c.n FROM c WHERE ${text} GROUP BY c.n)`, rows: [groups.length], whole: true },
    { text: `SELECT VALUE x FROM (SELECT DISTINCT VALUE c.n FROM c WHERE ${text}) x WHERE x > 2`, rows: numbers.filter((n) => n > 2) },
    {
      text: `SELECT VALUE MAX(g.n) FROM (SELECT COUNT(1) AS n FROM c WHERE ${text} GROUP BY c.pk, c.n) g`,
      rows: found.length === 0 ? [] : [Math.max(...keyedCounts(found))],
    },
  ]);
}

function keyedCounts(items) {
  const found = new Map();
  for (const { pk, n } of items) found.set(`${pk} ${n}`, (found.get(`${pk} ${n}`) ?? 0) + 1);
  return [...found.values()];
}

const asSet = (rows) => rows.map((row) => JSON.stringify(row)).sort();

for (const seed of SEEDS) {
  test(`random queries of seed ${seed}`, () =>
    withDatabase(async (database) => {
      const chance = chanceOf(seed);
      const items = someItems(chance);
      const compositeIndexes = [[{ path: "/n", order: "ascending" }, { path: "/id", order: "ascending" }]];
      const containers = [];
      for (const partitions of PARTITIONS) {
        const { container } = await database.containers.create({
          id: `random${partitions}`,
          partitionKey: { paths: ["/pk"], kind: "Hash", version: 2 },
          indexingPolicy: { includedPaths: [{ path: "/*" }], compositeIndexes },
          throughput: partitions * 10_000,
        });
        for (const item of items) await container.items.create(item);
        containers.push(container);
      }
      for (let count = 0; count < QUERIES; count++) {
        const { text, rows, ordered, whole } = someQuery(chance, items);
        const maxItemCount = 1 + chance.below(9);
        for (const container of containers) {
          for (const forceQueryPlan of whole ? [false] : [false, true]) {
            const options = { maxItemCount, forceQueryPlan };
            const got = (await container.items.query(text, options).fetchAll()).resources;
            const place = `seed ${seed}: ${text} over ${container.id}, by plan: ${forceQueryPlan}`;
            if (ordered) assert.deepEqual(got, rows, place);
            else assert.deepEqual(asSet(got), asSet(rows), place);
          }
        }
      }
    }));
}
