// getContext(), its request and response, and the console.
export default function (kit) {
  const { native, fault, clean } = kit;
  const { stringify, parse } = JSON;
  const { defineProperty } = Object;
  const { replace } = String.prototype;
  const { apply } = Reflect;
  const text = String;
  const { limits } = native;

  const sizeOf = (value) => {
    if (value === undefined || value === null) return 0;
    const shown = typeof value === "object" ? stringify(value) : text(value);
    return shown === undefined ? 0 : shown.length;
  };

  // A message is a set of named values, some of which may be set.
  // `values` maps a name to {value, writable, changed}.
  function Message(values) {
    const writable = (name) => {
      const entry = values[name];
      if (entry === undefined) throw fault(400, `There is no value "${text(name)}" to set here.`);
      if (!entry.writable) throw fault(403, `The value "${text(name)}" cannot be set here.`);
      return entry;
    };
    const fits = (name, size) => {
      if (size > limits.output) {
        throw fault(413, `The message would be too large because of "${name}". End with what there is, and let the client call again to continue.`);
      }
      return size;
    };
    const get = (name) => (values[name] === undefined ? undefined : values[name].value);
    const set = (name, value) => {
      const entry = writable(name);
      entry.size = fits(name, sizeOf(value));
      entry.value = value;
      entry.changed = true;
    };
    const append = (name, value) => {
      const entry = writable(name);
      if (typeof entry.value === "string") {
        entry.size = fits(name, (entry.size || 0) + sizeOf(value));
        entry.value += value;
        entry.changed = true;
      } else if (entry.value === undefined || entry.value === null) {
        set(name, value);
      } else {
        set(name, entry.value + value);
      }
    };
    let settable = false;
    for (const name in values) {
      this["get" + name] = () => get(name);
      if (values[name].writable) {
        settable = true;
        this["set" + name] = (value) => set(name, value);
        this["append" + name] = (value) => append(name, value);
      }
    }
    this.getValue = get;
    if (settable) {
      this.setValue = set;
      this.appendValue = append;
    }
  }

  const table = (entries) => {
    const values = { __proto__: null };
    for (const name in entries) {
      const [value, writable] = entries[name];
      values[name] = { value, writable, changed: false, size: 0 };
    }
    return values;
  };
  const readable = (json) => (json === undefined ? undefined : parse(json));

  // Which messages there are depends on the role.
  const roles = {
    __proto__: null,
    procedure: (call) => ({
      request: table({ Body: [call.arguments, false] }),
      response: table({ Body: ["", true] }),
    }),
    before: (call) => ({
      request: table({ Body: [readable(call.body), true], OperationType: [call.verb, false] }),
    }),
    after: (call) => ({
      request: table({ Body: [readable(call.body), false], OperationType: [call.verb, false] }),
      response: table({
        Body: [readable(call.stored), true],
        ResourceQuotaCurrentUsage: [`collectionSize=${call.size * 1024};`, false],
        MaxResourceQuota: [`collectionSize=${call.maxSize * 1024};`, false],
      }),
    }),
  };

  // Puts the globals of a run in place.
  kit.enter = (call) => {
    const { request, response } = roles[call.role](call);
    const collection = kit.collection;
    const context = {
      getCollection: () => collection,
      // The flag ends the run even where the script catches what is thrown here.
      abort: (why) => {
        native.abort(kit.describe(why));
        throw why;
      },
    };
    const short = { __proto__: collection };
    const requestMessage = new Message(request);
    context.getRequest = () => requestMessage;
    short.request = requestMessage;
    if (response) {
      const responseMessage = new Message(response);
      context.getResponse = () => responseMessage;
      short.response = responseMessage;
    }
    kit.appendResult = response && ((value) => context.getResponse().appendBody(value));
    const settle = { writable: true, configurable: true };
    defineProperty(globalThis, "getContext", { value: () => context, ...settle });
    defineProperty(globalThis, "__", { value: short, ...settle });
    // What the run leaves behind.
    kit.finish = () => result(call.role, (response || request).Body);
  };

  // JSON text of what a run answers, or undefined where a trigger left the body alone.
  const result = (role, { value, changed }) => {
    if (role === "procedure") {
      const json = stringify(value);
      return json === undefined ? '""' : json;
    }
    if (!changed) return undefined;
    return typeof value === "string" && isObjectText(value) ? clean(value) : stringify(value);
  };
  const isObjectText = (value) => {
    try {
      const parsed = parse(value);
      return parsed !== null && typeof parsed === "object";
    } catch {
      return false;
    }
  };

  const format = (pattern, values) => {
    let next = 0;
    return apply(replace, pattern, [/%[%s]/g, (mark) => (mark === "%%" ? "%" : text(values[next++]))]);
  };
  let logged = 0;
  const log = (...values) => {
    if (!limits.logging) return;
    if (values.length === 0) throw fault(400, 'The function "log" requires at least 1 argument.');
    if (values.length > 1 && typeof values[0] !== "string") {
      throw fault(400, "The first of several arguments to console.log must be a string.");
    }
    const line = values.length === 1 ? text(values[0]) : format(values[0], values.slice(1));
    logged += line.length;
    if (logged > limits.log) throw fault(413, "The log of this script would be too large.");
    native.log(clean(line));
  };
  kit.setLogging = (on) => { limits.logging = on; };
  defineProperty(globalThis, "console", { value: { log }, writable: true, configurable: true });

  const codes = Object.freeze({
    BadRequest: 400,
    Forbidden: 403,
    NotFound: 404,
    Conflict: 409,
    PreconditionFailed: 412,
    RequestEntityTooLarge: 413,
    RetryWith: 449,
    InternalServerError: 500,
  });
  defineProperty(globalThis, "ErrorCodes", { value: codes });
}
