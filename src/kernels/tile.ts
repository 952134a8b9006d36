// Which register tile the matrix products use (assembly/tile.ts pictures them). All tiles give the same bits, so this is a
// matter of speed alone; the figures are GFLOP/s measured in the level-1 cache on a server core:
//
//             Node 20, 22: plain, fma      Node 24: plain, fma      256-bit: plain, fma
//    4×8             31    37                     32    39                  57    45
//    6×8             24    40                     32    45                  61    57
//    6×16            22    26                     26    31                  60    83

/** Rows of a panel of A, and panels of 8 columns of B taken at a time. */
export interface Tile {
  readonly height: number;
  readonly width: number;
}

/** Every tile there is. */
export const tiles = [
  { height: 4, width: 1 },
  { height: 6, width: 1 },
  { height: 4, width: 2 },
  { height: 6, width: 2 },
] as const satisfies readonly Tile[];

/**
 * Rows of a panel for a matrix of `m` rows: a tile of one or two rows takes as long as one of four, so 7 or 8 rows are
 * better two tiles of 4 than 6 and a rest.
 */
export function heightFor(tile: Tile, m: number): number {
  return tile.height === 6 && (m === 7 || m === 8) ? 4 : tile.height;
}

/** The tile for a build of the kernels; `wide`: where V8 makes 256-bit instructions of them. */
export function bestTile(build: 'plain' | 'fma', wide: boolean): Tile {
  if (wide) return tiles[3];
  // Twice as many vector registers: nothing spills.
  if (build === 'fma' || process.arch === 'arm64') return tiles[1];
  return tiles[0];
}
