// Error with a number, and how what a script threw is told to people.
export default function (kit) {
  const Plain = Error;
  const { apply, construct } = Reflect;
  const { captureStackTrace } = Plain;
  const { defineProperty, getOwnPropertyDescriptor, getOwnPropertyNames, setPrototypeOf } = Object;
  const { isInteger } = Number;
  const { stringify } = JSON;
  const { slice, toWellFormed } = String.prototype;
  const text = String;
  const LONGEST = 4096;

  // `Error(number, message)`: what the protocol adds to the language.
  function Numbered(first, second) {
    const numbered = arguments.length > 1 && typeof first === "number";
    const made = construct(Plain, numbered ? [second] : arguments, new.target || Numbered);
    if (numbered) {
      defineProperty(made, "number", { value: first, writable: true, configurable: true });
    }
    captureStackTrace(made, new.target || Numbered);
    return made;
  }
  for (const name of getOwnPropertyNames(Plain)) {
    defineProperty(Numbered, name, getOwnPropertyDescriptor(Plain, name));
  }
  defineProperty(Plain.prototype, "constructor", {
    value: Numbered, writable: true, configurable: true,
  });
  for (const kind of [EvalError, RangeError, ReferenceError, SyntaxError, TypeError, URIError]) {
    setPrototypeOf(kind, Numbered);
  }
  defineProperty(globalThis, "Error", { value: Numbered, writable: true, configurable: true });

  // Text that can leave as UTF-8.
  kit.clean = (loose) => apply(toWellFormed, loose, []);

  // A refusal of the API itself, or of the host.
  kit.fault = (number, message) => new Numbered(number, message);

  const cut = (long) => kit.clean(long.length > LONGEST ? apply(slice, long, [0, LONGEST]) + "…" : long);

  // [what, where, number] of anything thrown. Getters of the script may run; they
  // have what is left of its time.
  kit.describe = (thrown) => {
    let what = "a value that cannot be shown";
    let where = "";
    let number;
    try {
      if (thrown !== null && typeof thrown === "object") {
        const isError = thrown instanceof Plain;
        what = cut(text(isError ? thrown : stringify(thrown)));
        if (isInteger(thrown.number) && thrown.number >= 0 && thrown.number < 4294967296) {
          number = thrown.number;
        }
        if (isError && typeof thrown.stack === "string") where = cut(thrown.stack);
      } else {
        what = cut(text(thrown));
      }
    } catch {
      // What has been found out until then must do.
    }
    return [what, where, number];
  };
}
