// The console of functions, which have nowhere to log to.
export default function () {
  globalThis.console = { log() {} };
}
