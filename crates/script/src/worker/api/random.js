// Chance, from the seed of the run: Math.random and the ids of items that have none.
export default function (kit) {
  const { defineProperty } = Object;
  const HEX = "0123456789abcdef";
  let a = 1, b = 2, c = 3, d = 4;

  // Four words of state, a small and well mixing generator.
  const next = () => {
    const t = b << 9;
    let r = a * 5;
    r = ((r << 7) | (r >>> 25)) * 9;
    c ^= a;
    d ^= b;
    b ^= c;
    a ^= d;
    c ^= t;
    d = (d << 11) | (d >>> 21);
    return r >>> 0;
  };
  kit.setSeed = (words) => {
    [a, b, c, d] = words;
    if ((a | b | c | d) === 0) a = 1;
  };
  const random = () => ((next() >>> 5) * 67108864 + (next() >>> 6)) / 9007199254740992;
  defineProperty(Math, "random", { value: random, writable: true, configurable: true });

  kit.newId = () => {
    let id = "";
    for (let word = 0; word < 4; word++) {
      let bits = next();
      for (let i = 0; i < 8; i++) {
        id += HEX[bits & 15];
        bits >>>= 4;
      }
    }
    const at = (from, to) => id.substring(from, to);
    return `${at(0, 8)}-${at(8, 12)}-4${at(13, 16)}-a${at(17, 20)}-${at(20, 32)}`;
  };
}
