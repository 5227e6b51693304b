// The collection: every operation on items. Operations are queued and answered after the script's
// turn has ended; many may travel together.
export default function (kit) {
  const { native, fault, clean } = kit;
  const { stringify, parse } = JSON;
  const { apply } = Reflect;
  const { split, toLowerCase } = String.prototype;
  const text = String;
  const { min } = Math;
  const PAGE = 100, LARGEST_PAGE = 1000;

  // Codes of operations and of what an item is named by; the worker has the same table.
  const CREATE = 0, UPSERT = 1, REPLACE = 2, DELETE = 3, READ = 4, LIST = 5, QUERY = 6;
  const BY_ID = 0, BY_RID = 1;
  const REFUSED = 0, ACCEPTED = 1, TOO_LARGE = 2;

  let selfText, altText, selfLink, altLink, size, maxSize;
  const seen = new Map();
  const { get: mapGet, set: mapSet } = Map.prototype;

  kit.setContainer = (call) => {
    [selfText, altText] = [call.selfLink, call.altLink];
    selfLink = apply(split, selfText, ["/"]);
    altLink = apply(split, altText, ["/"]);
    ({ size, maxSize } = call);
    collection.getSelfLink = () => selfText;
    collection.getAltLink = () => altText;
  };

  const steps = (link, what, words) => {
    const parts = typeof link === "string" ? apply(split, link, ["/"]) : [];
    if (parts.length > 0 && parts[parts.length - 1] === "") parts.length -= 1;
    let good = parts.length === words.length * 2;
    for (let i = 0; good && i < words.length; i++) {
      good = apply(toLowerCase, parts[2 * i], []) === words[i] && parts[2 * i + 1] !== "";
    }
    if (!good) throw fault(400, `Invalid ${what} link: "${text(link)}".`);
    const isSelf = parts[1] === selfLink[1] && parts[3] === selfLink[3];
    if (!isSelf && !(parts[1] === altLink[1] && parts[3] === altLink[3])) {
      throw fault(400, `A script works on the items of its own collection only, and the link "${link}" leads elsewhere.`);
    }
    return { isSelf, last: parts[parts.length - 1] };
  };
  const checkCollection = (link) => {
    if (link === selfText || link === altText) return;
    steps(link, "collection", ["dbs", "colls"]);
  };
  // [how, name, id]: what is sent of an item's link.
  const itemOf = (link) => {
    const { isSelf, last } = steps(link, "document", ["dbs", "colls", "docs"]);
    return isSelf ? [BY_RID, last, apply(mapGet, seen, [last])] : [BY_ID, last];
  };
  // An item met under its resource id is found again by its name.
  const meet = (item) => {
    if (item !== null && typeof item === "object" && typeof item._rid === "string" && typeof item.id === "string") {
      apply(mapSet, seen, [item._rid, item.id]);
    }
    return item;
  };

  const need = (name, least, given) => {
    if (given < least) {
      throw fault(400, `The function "${name}" requires at least ${least} argument(s) but was called with ${given}.`);
    }
  };
  // Options may be left out, so that the callback stands in their place.
  const settle = (options, callback) => {
    if (callback === undefined && typeof options === "function") return [{}, options];
    if (options !== undefined && typeof options !== "object") {
      throw fault(400, `The "options" parameter must be of type "object". Actual type is: "${typeof options}".`);
    }
    if (callback !== undefined && typeof callback !== "function") {
      throw fault(400, `The "callback" parameter must be of type "function". Actual type is: "${typeof callback}".`);
    }
    return [options || {}, callback];
  };
  kit.settle = settle;

  const optional = (value) => (value === undefined || value === null || value === "" ? undefined : clean(text(value)));
  const indexing = (options) => {
    const action = optional(options.indexAction);
    const code = action === undefined ? 0 : ["default", "include", "exclude"].indexOf(action.toLowerCase());
    if (code < 0) throw fault(400, `"${action}" is none of the index actions default, include, exclude.`);
    return code;
  };
  const page = (options) => {
    const size = options.pageSize === undefined || options.pageSize === null ? PAGE : Number(options.pageSize);
    if (!Number.isInteger(size) || size === 0 || size < -1) {
      throw fault(400, `The page size must be a whole number above 0, and is "${text(options.pageSize)}".`);
    }
    return { size: size === -1 ? PAGE : min(size, LARGEST_PAGE), continuation: optional(options.continuation) || "", scan: options.enableScan === true };
  };
  kit.page = page;

  // What waits for an answer, the earliest first: how it is handed over, and to whom.
  const waiting = [];
  let head = 0, tail = 0;
  const ask = (answer, callback, code, how, name, extra, body, condition, flag) => {
    const sent = native.send(code, how, name, extra, body, condition, flag);
    if (sent === TOO_LARGE) throw fault(413, "The request of this operation is too large.");
    if (sent === REFUSED) return false;
    waiting[tail] = answer;
    waiting[tail + 1] = callback;
    tail += 2;
    return true;
  };
  kit.refusal = (status, message) => {
    const error = fault(status, message);
    error.body = message;
    return error;
  };
  // The answer to the earliest operation: a status, and what the host gave.
  kit.deliver = (status, value, continuation) => {
    const answer = waiting[head], callback = waiting[head + 1];
    waiting[head] = waiting[head + 1] = undefined;
    head += 2;
    if (head === tail) head = tail = waiting.length = 0;
    answer(callback, status, value, continuation);
  };

  const answerOptions = (status) =>
    ({ statusCode: status, currentCollectionSizeInMB: size, maxCollectionSizeInMB: maxSize });
  const single = (callback, status, value) => {
    if (status >= 400) {
      const error = kit.refusal(status, value);
      if (callback === undefined) throw error;
      callback(error);
      return;
    }
    if (callback === undefined) return;
    const options = answerOptions(status);
    if (status === 304) {
      options.notModified = true;
      callback(undefined, undefined, options);
    } else {
      callback(undefined, meet(value), options);
    }
  };
  const feed = (callback, status, value, continuation) => {
    if (status >= 400 || callback === undefined) return single(callback, status, value);
    const options = answerOptions(status);
    if (continuation !== undefined) options.continuation = continuation;
    for (let i = 0; i < value.length; i++) meet(value[i]);
    callback(undefined, value, options);
  };
  const gone = (callback, status, value) => {
    if (status >= 400 || callback === undefined) return single(callback, status, value);
    callback(undefined, answerOptions(status));
  };
  // For what the query functions list: they make pages of their own.
  const raw = (callback, status, value, continuation) => callback(status, value, continuation);

  const bodyText = (body) => {
    if (body === null || (typeof body !== "object" && typeof body !== "string")) {
      throw fault(400, "The document body must be an object or a string representing a JSON-serialized object.");
    }
    return typeof body === "string" ? clean(body) : stringify(body);
  };
  // JSON text of a new item, which gets an id where it has none.
  const newText = (body, options) => {
    if (options.disableAutomaticIdGeneration !== true && body !== null) {
      const item = typeof body === "string" ? parse(body) : body;
      if (typeof item === "object" && item !== null && !item.id) {
        return stringify({ ...item, id: kit.newId() });
      }
    }
    return bodyText(body);
  };
  const write = (name, operation) =>
    function (link, body, options, callback) {
      need(name, 2, arguments.length);
      checkCollection(link);
      const [chosen, done] = settle(options, callback);
      const condition = operation === UPSERT ? optional(chosen.etag) : undefined;
      return ask(single, done, operation, BY_ID, "", undefined, newText(body, chosen), condition, indexing(chosen));
    };

  const collection = {
    createDocument: write("createDocument", CREATE),
    upsertDocument: write("upsertDocument", UPSERT),
    replaceDocument(link, body, options, callback) {
      need("replaceDocument", 2, arguments.length);
      const [how, name, id] = itemOf(link);
      const [chosen, done] = settle(options, callback);
      return ask(single, done, REPLACE, how, name, id, bodyText(body), optional(chosen.etag), indexing(chosen));
    },
    deleteDocument(link, options, callback) {
      need("deleteDocument", 1, arguments.length);
      const [how, name, id] = itemOf(link);
      const [chosen, done] = settle(options, callback);
      return ask(gone, done, DELETE, how, name, id, "", optional(chosen.etag), 0);
    },
    readDocument(link, options, callback) {
      need("readDocument", 1, arguments.length);
      const [how, name, id] = itemOf(link);
      const [chosen, done] = settle(options, callback);
      return ask(single, done, READ, how, name, id, "", optional(chosen.ifNoneMatch), 0);
    },
    readDocuments(link, options, callback) {
      need("readDocuments", 1, arguments.length);
      checkCollection(link);
      const [chosen, done] = settle(options, callback);
      return list(feed, done, page(chosen));
    },
    queryDocuments(link, query, options, callback) {
      need("queryDocuments", 2, arguments.length);
      checkCollection(link);
      const [chosen, done] = settle(options, callback);
      const [sql, parameters] = queryOf(query);
      const { size, continuation, scan } = page(chosen);
      return ask(feed, done, QUERY, size, continuation, parameters, sql, undefined, scan ? 1 : 0);
    },
  };
  const list = (answer, callback, { size, continuation, scan }) =>
    ask(answer, callback, LIST, size, continuation, undefined, "", undefined, scan ? 1 : 0);
  kit.list = (page, callback) => list(raw, callback, page);

  const queryOf = (query) => {
    if (typeof query === "string") return [clean(query), undefined];
    if (query === null || typeof query !== "object" || typeof query.query !== "string") {
      throw fault(400, `The "filterQuery" parameter must be of type "string", or an object with the member "query". Actual type is: "${typeof query}".`);
    }
    const parameters = query.parameters;
    return [clean(query.query), parameters === undefined || parameters === null ? undefined : stringify(parameters)];
  };

  for (const name of [
    "readAttachment", "readAttachments", "queryAttachments", "createAttachment", "upsertAttachment",
    "replaceAttachment", "deleteAttachment",
  ]) {
    collection[name] = () => {
      throw fault(400, `The function "${name}" is not supported: items have no attachments.`);
    };
  }

  const geo = (name, sql, count) =>
    function (...shapes) {
      need(name, count, shapes.length);
      for (const shape of shapes) {
        if (shape === null || typeof shape !== "object") {
          throw fault(400, `The arguments of "${name}" must be GeoJSON objects.`);
        }
      }
      const marks = ["@p0", "@p1"].slice(0, count);
      const parameters = marks.map((mark, i) => ({ name: mark, value: shapes[i] }));
      const sent = native.send(QUERY, 1, "", stringify(parameters), `SELECT VALUE ${sql}(${marks.join(", ")})`, undefined, 0);
      if (sent !== ACCEPTED) throw fault(400, `The call of "${name}" was not accepted.`);
      // The one answer that is waited for: the script gets it as the value of its call.
      const [status, value] = native.last();
      if (status >= 400) throw kit.refusal(status, value);
      return value[0];
    };
  collection.spatial = {
    distance: geo("distance", "ST_DISTANCE", 2),
    intersects: geo("intersects", "ST_INTERSECTS", 2),
    within: geo("within", "ST_WITHIN", 2),
    isValid: geo("isValid", "ST_ISVALID", 1),
    isValidDetailed: geo("isValidDetailed", "ST_ISVALIDDETAILED", 1),
  };
  kit.collection = collection;
}
