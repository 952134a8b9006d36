// A small seeded generator (PCG-XSH-RR 64/32; O'Neill 2014), so that weights made here are the same on every machine.
// 64-bit state as two 32-bit halves: BigInt would be a hundred times slower.

/** Rounds of sfc32 until its state is mixed. */
const SETTLE = 12;

/** Random numbers from a seed: the same sequence everywhere. */
export class Random {
  #hi = 0;
  #lo = 0;

  /** `seed` is any integer; sequences of different seeds are unrelated. */
  constructor(seed: number) {
    this.next();
    this.#add(Math.floor(seed / 4294967296), seed);
    this.next();
  }

  /** An integer in [0, 2^32). */
  next(): number {
    const hi = this.#hi;
    const lo = this.#lo;
    // state × 6364136223846793005 (0x5851f42d4c957f2d) + 1442695040888963407 (0x14057b7ef767814f)
    const [carry, low] = multiply(lo, 0x4c957f2d);
    this.#hi = (carry + Math.imul(lo, 0x5851f42d) + Math.imul(hi, 0x4c957f2d)) >>> 0;
    this.#lo = low;
    this.#add(0x14057b7e, 0xf767814f);
    // ((state >> 18) ^ state) >> 27, low 32 bits; rotated right by state >> 59
    const xhi = (hi ^ (hi >>> 18)) >>> 0;
    const xlo = (lo ^ ((lo >>> 18) | (hi << 14))) >>> 0;
    const mixed = ((xhi << 5) | (xlo >>> 27)) >>> 0;
    const turn = hi >>> 27;
    return ((mixed >>> turn) | (mixed << (-turn & 31))) >>> 0;
  }

  /** A number in [0, 1), a multiple of 2^-24, so that it is exact in float32. */
  uniform(): number {
    return (this.next() >>> 8) / 16777216;
  }

  /**
   * `n` float32 values evenly spread over [low, high). Weights come by the hundred million, so they are drawn by a
   * quicker generator (sfc32; Doty-Humphrey 2010) that this one seeds anew at every call.
   */
  floats(n: number, low = 0, high = 1): Float32Array {
    const out = new Float32Array(n);
    const step = (high - low) / 16777216;
    let a = this.next() | 0;
    let b = this.next() | 0;
    let c = this.next() | 0;
    let counter = 1;
    for (let i = -SETTLE; i < n; i++) {
      const t = (((a + b) | 0) + counter) | 0;
      counter = (counter + 1) | 0;
      a = b ^ (b >>> 9);
      b = (c + (c << 3)) | 0;
      c = (((c << 21) | (c >>> 11)) + t) | 0;
      if (i >= 0) out[i] = low + step * (t >>> 8);
    }
    return out;
  }

  /** An integer in [0, n). */
  below(n: number): number {
    return Math.floor((this.next() / 4294967296) * n);
  }

  #add(hi: number, lo: number): void {
    const sum = this.#lo + (lo >>> 0);
    this.#lo = sum >>> 0;
    this.#hi = (this.#hi + hi + (sum > 0xffffffff ? 1 : 0)) >>> 0;
  }
}

/** The 64-bit product of two 32-bit numbers as [high, low]. */
function multiply(a: number, b: number): [number, number] {
  const al = a & 0xffff;
  const ah = a >>> 16;
  const bl = b & 0xffff;
  const bh = b >>> 16;
  const ll = al * bl;
  const mid = ah * bl + Math.floor(ll / 65536);
  const mid2 = al * bh + (mid % 65536);
  const high = ah * bh + Math.floor(mid / 65536) + Math.floor(mid2 / 65536);
  return [high >>> 0, (((mid2 % 65536) * 65536 + (ll % 65536)) >>> 0) as number];
}
