// Random numbers that are the same on every machine and in every version: a seed names a run. The generator is sfc32
// (small fast counter, 128 bits of state; it passes PractRand), seeded by splitting one number.

export class Random {
  #a: number;
  #b: number;
  #c: number;
  #counter = 1;

  constructor(seed: number) {
    this.#a = seed | 0;
    this.#b = Math.floor(seed / 2 ** 32) | 0;
    this.#c = 0x9e3779b9 | 0;
    for (let i = 0; i < 15; i++) this.uint32();
  }

  /** An integer in [0, 2³²). */
  uint32(): number {
    const sum = (((this.#a + this.#b) | 0) + this.#counter) | 0;
    this.#counter = (this.#counter + 1) | 0;
    this.#a = this.#b ^ (this.#b >>> 9);
    this.#b = (this.#c + (this.#c << 3)) | 0;
    this.#c = ((this.#c << 21) | (this.#c >>> 11)) + sum;
    this.#c |= 0;
    return sum >>> 0;
  }

  /** Uniform in [0, 1), 32 bits of it. */
  uniform(): number {
    return this.uint32() / 2 ** 32;
  }

  /** An integer in [0, n). */
  below(n: number): number {
    return Math.floor(this.uniform() * n);
  }

  /** Exponential with the given mean. */
  exponential(mean: number): number {
    return -mean * Math.log(1 - this.uniform());
  }

  /** Normal with mean 0 and variance 1 (Box–Muller, one of the pair). */
  normal(): number {
    return Math.sqrt(this.exponential(2)) * Math.cos(2 * Math.PI * this.uniform());
  }
}
