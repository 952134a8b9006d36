/** Numbers in (−1, 1) from a linear congruential generator. */
export function random(seed: number): () => number {
  let s = (Math.imul(seed, 2654435761) + 12345) | 0;
  return () => {
    s = (Math.imul(s, 1664525) + 1013904223) | 0;
    return s / 2 ** 31;
  };
}
