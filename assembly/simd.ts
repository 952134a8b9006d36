// Loads and stores of 1 to 4 floats as vectors, so that tails go through the same vector code as everything else.

/** The first n (1 to 4) floats at p; other lanes are zero. Reads nothing beyond them. */
// @ts-ignore: decorator
@inline
export function loadLanes(p: usize, n: i32): v128 {
  if (n >= 4) return v128.load(p);
  if (n == 1) return v128.load32_zero(p);
  let x = v128.load64_zero(p);
  if (n == 3) x = v128.load_lane<f32>(p, x, 2, 8);
  return x;
}

/** Stores the first n (1 to 4) lanes at p. */
// @ts-ignore: decorator
@inline
export function storeLanes(p: usize, x: v128, n: i32): void {
  if (n >= 4) {
    v128.store(p, x);
  } else if (n == 1) {
    v128.store_lane<f32>(p, x, 0);
  } else {
    v128.store_lane<f64>(p, x, 0);
    if (n == 3) v128.store_lane<f32>(p, x, 2, 8);
  }
}
