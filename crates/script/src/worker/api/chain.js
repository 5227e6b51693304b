// The query functions of the collection: filter, map, pluck, flatten, sortBy, unwind, chain.
//
// They are evaluated here, over pages that the host lists. A page of results is full before it is
// handed over; a sort looks at everything first.
export default function (kit) {
  const { fault, collection, settle } = kit;
  const { stringify, parse } = JSON;
  const { isArray } = Array;
  const { getPrototypeOf } = Object;
  // Items that are listed at a time, however small the page of results.
  const LISTED = 1000;

  const pushAll = (list, items) => {
    for (const item of items) list.push(item);
  };
  // The collection may be given first, as itself or as `__`.
  const withoutCollection = (rest) => {
    const first = rest[0];
    const isCollection = typeof first === "object" && first !== null
      && (first === collection || getPrototypeOf(first) === collection);
    return isCollection ? rest.slice(1) : rest;
  };
  const callable = (fn) => {
    if (typeof fn !== "function") throw fault(400, "The predicate/transform function must be provided.");
    return fn;
  };
  const kindOrder = { undefined: 0, null: 1, boolean: 2, number: 3, string: 4, object: 5 };
  const kindOf = (key) => kindOrder[key === null ? "null" : typeof key] ?? 5;
  const compare = (a, b) => {
    const kinds = kindOf(a) - kindOf(b);
    if (kinds !== 0 || a === b) return kinds;
    return a < b ? -1 : a > b ? 1 : 0;
  };
  const sorted = (fn, sign) => (items) => {
    const keyed = items.map((item) => ({ item, key: fn(item) }));
    keyed.sort((a, b) => sign * compare(a.key, b.key));
    return keyed.map(({ item }) => item);
  };

  // Each function: its own arguments → {run: items → items, wholly: needs all items at once}. What
  // it does not take is left in `rest`: options and callback.
  const links = {
    filter: (rest) => {
      const fn = callable(rest.shift());
      return { run: (items) => items.filter((item) => fn(item)) };
    },
    map: (rest) => {
      const fn = callable(rest.shift());
      return { run: (items) => items.map((item) => fn(item)) };
    },
    pluck: (rest) => {
      const name = rest.shift();
      if (typeof name !== "string" || name === "") {
        throw fault(400, "The property name must be a string and cannot be empty.");
      }
      return { run: (items) => items.map((item) => (item === undefined || item === null ? undefined : item[name])) };
    },
    flatten: (rest) => {
      const shallow = typeof rest[0] === "boolean" ? rest.shift() : false;
      return { run: (items) => items.flat(shallow ? 1 : Infinity) };
    },
    sortBy: (rest) => ({ run: sorted(callable(rest.shift()), 1), wholly: true }),
    sortByDescending: (rest) => ({ run: sorted(callable(rest.shift()), -1), wholly: true }),
    unwind: (rest) => {
      const pick = rest.shift();
      if (typeof pick !== "function") throw fault(400, 'When using "unwind", "collectionSelector" must be a function.');
      if (pick.length !== 1) throw fault(400, '"collectionSelector" requires one argument.');
      // A second function is the result selector, never the callback.
      const make = typeof rest[0] === "function" ? rest.shift() : undefined;
      if (make !== undefined && make.length < 2) throw fault(400, '"resultSelector" requires two arguments.');
      const inner = (item) => {
        const found = pick(item);
        return found === undefined || found === null ? [] : isArray(found) ? found : [found];
      };
      return {
        run: (items) => items.flatMap((item) => (make ? inner(item).map((each) => make(item, each)) : inner(item))),
      };
    },
  };

  // Where a page of results ended: before which listed page, and how many results of it are done.
  const place = (continuation) => {
    if (continuation === "") return { from: "", skip: 0 };
    try {
      const { from, skip } = parse(continuation);
      if (typeof from === "string" && Number.isInteger(skip) && skip >= 0) return { from, skip };
    } catch {
      // Said below.
    }
    throw fault(400, "The continuation is not one that a query function of this script API gave.");
  };

  const run = (chain, options, callback) => {
    const [chosen, given] = settle(options, callback);
    const { size, continuation, scan } = kit.page(chosen);
    const state = { at: place(continuation), found: [], gathered: [] };
    const wholly = chain.some((link) => link.wholly);
    const apply = (items) => chain.reduce((items, link) => link.run(items), items);
    const done = given || ((error, found) => {
      if (error) throw error;
      if (!kit.appendResult) {
        throw fault(400, "A callback must be given where there is no response, as in a trigger that runs before.");
      }
      kit.appendResult(stringify(found));
    });
    const finish = (next) => {
      const opts = { statusCode: 200 };
      if (next) opts.continuation = stringify(next);
      done(undefined, state.found, opts);
    };
    // One listed page → results; gives where to go on, or undefined at the end.
    const take = (items, following) => {
      const results = apply(items).slice(state.at.skip);
      const room = size - state.found.length;
      pushAll(state.found, results.slice(0, room));
      if (results.length > room) return { from: state.at.from, skip: state.at.skip + room };
      return following === undefined ? undefined : { from: following, skip: 0 };
    };
    const onPage = (status, items, following) => {
      let next;
      try {
        if (status >= 400) throw kit.refusal(status, items);
        if (wholly) {
          pushAll(state.gathered, items);
          next = following === undefined ? take(state.gathered, undefined) : undefined;
          if (following !== undefined && list(following)) return;
          if (following !== undefined) throw fault(413, "There are more items than can be sorted in one run.");
        } else {
          next = take(items, following);
        }
      } catch (error) {
        return done(error);
      }
      if (!wholly && next !== undefined && state.found.length < size) {
        state.at = next;
        if (list(next.from)) return;
      }
      finish(next);
    };
    const list = (from) => kit.list({ size: LISTED, continuation: from, scan }, onPage);
    return { isAccepted: list(wholly ? "" : state.at.from) };
  };

  // A chain is built link by link; only value() runs it.
  const build = (chain) => {
    const query = { isAccepted: true };
    for (const name in links) {
      query[name] = (...given) => {
        const rest = withoutCollection(given);
        const link = links[name](rest);
        if (typeof rest[0] === "object" && rest[0] !== null) throw fault(400, 'When using "chain", options can only be provided on the call to the "value" function.');
        if (rest[0] !== undefined || rest[1] !== undefined) throw fault(400, 'When using "chain", the callback can only be provided on the call to the "value" function.');
        return build([...chain, link]);
      };
    }
    query.value = (options, callback) => run(chain, options, callback);
    return query;
  };
  for (const name in links) {
    collection[name] = (...given) => {
      const rest = withoutCollection(given);
      const link = links[name](rest);
      return run([link], rest[0], rest[1]);
    };
  }
  collection.chain = () => build([]);
}
