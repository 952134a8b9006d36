// The word that was meant where one is unknown: of an option, or of an operator.

/** Longer words are not names, and comparing takes time as their square. */
const LONGEST = 64;

/** The word that was probably meant: few letters apart, or one that begins so; undefined when none is near. */
export function nearest(word: string, words: readonly string[]): string | undefined {
  if (word.length > LONGEST) return undefined;
  let best: string | undefined;
  let least = Math.max(1, Math.floor(word.length / 3)) + 0.5;
  for (const w of words) {
    const far = word.length >= 3 && w.startsWith(word) ? 0.5 : distance(word, w);
    if (far < least) {
      least = far;
      best = w;
    }
  }
  return best;
}

/** Letters to insert, delete, change, or swap with their neighbour, to make one word of the other. */
function distance(a: string, b: string): number {
  let [before, above] = [[] as number[], Array.from({ length: b.length + 1 }, (_, j) => j)];
  for (let i = 1; i <= a.length; i++) {
    const row = [i];
    for (let j = 1; j <= b.length; j++) {
      const changed = above[j - 1]! + (a[i - 1] === b[j - 1] ? 0 : 1);
      row.push(Math.min(changed, above[j]! + 1, row[j - 1]! + 1));
      if (i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1])
        row[j] = Math.min(row[j]!, before[j - 2]! + 1);
    }
    [before, above] = [above, row];
  }
  return above[b.length]!;
}
