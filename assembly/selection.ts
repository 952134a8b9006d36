// TopK: a heap of k candidates kept in the output itself, its worst at the root, then sorted in place. Picture: every
// element either is worse than the root and forgotten, or takes its place and sinks. Ties go to the lower index, NaN
// ranks above everything, so that the order is total and the answer one.

// @ts-ignore: decorator
@unmanaged
class TopKParams {
  input: usize;
  values: usize;
  indices: usize;
  n: i32;
  k: i32;
  inner: i32;
  largest: i32;
}

/** True when (a, i) ranks before (b, j). */
// @ts-ignore: decorator
@inline
function before(a: f32, i: i64, b: f32, j: i64, largest: i32): bool {
  const an = a != a;
  const bn = b != b;
  if (an || bn) {
    if (an && bn) return i < j;
    return largest ? an : bn;
  }
  if (a != b) return largest ? a > b : a < b;
  return i < j;
}

/** Puts (v, index) at place `at` of a heap of `count` whose worst is at the root. */
// @ts-ignore: decorator
@inline
function sink(values: usize, indices: usize, step: i32, count: i32, start: i32, v: f32, index: i64, largest: i32): void {
  let at = start;
  while (true) {
    let child = 2 * at + 1;
    if (child >= count) break;
    const right = child + 1;
    if (
      right < count &&
      before(
        load<f32>(values + ((child * step) << 2)),
        load<i64>(indices + ((child * step) << 3)),
        load<f32>(values + ((right * step) << 2)),
        load<i64>(indices + ((right * step) << 3)),
        largest,
      )
    )
      child = right;
    const cv = load<f32>(values + ((child * step) << 2));
    const ci = load<i64>(indices + ((child * step) << 3));
    // The worse of the two goes up.
    if (!before(v, index, cv, ci, largest)) break;
    store<f32>(values + ((at * step) << 2), cv);
    store<i64>(indices + ((at * step) << 3), ci);
    at = child;
  }
  store<f32>(values + ((at * step) << 2), v);
  store<i64>(indices + ((at * step) << 3), index);
}

export function topK(params: usize, begin: i32, end: i32, scratch: usize): void {
  const p = changetype<TopKParams>(params);
  const n = p.n;
  const k = p.k;
  const inner = p.inner;
  const largest = p.largest;
  for (let u = begin; u < end; u++) {
    const outer = u / inner;
    const lane = u - outer * inner;
    const from = p.input + ((<usize>outer * n * inner + lane) << 2);
    const values = p.values + ((<usize>outer * k * inner + lane) << 2);
    const indices = p.indices + ((<usize>outer * k * inner + lane) << 3);
    for (let i = 0; i < k; i++) {
      store<f32>(values + ((i * inner) << 2), load<f32>(from + ((i * inner) << 2)));
      store<i64>(indices + ((i * inner) << 3), i);
    }
    for (let i = (k >> 1) - 1; i >= 0; i--) {
      const v = load<f32>(values + ((i * inner) << 2));
      sink(values, indices, inner, k, i, v, load<i64>(indices + ((i * inner) << 3)), largest);
    }
    for (let i = k; i < n; i++) {
      const v = load<f32>(from + ((i * inner) << 2));
      if (before(v, i, load<f32>(values), load<i64>(indices), largest)) sink(values, indices, inner, k, 0, v, i, largest);
    }
    // The root is the worst left: it goes to the end.
    for (let last = k - 1; last > 0; last--) {
      const v = load<f32>(values + ((last * inner) << 2));
      const i = load<i64>(indices + ((last * inner) << 3));
      store<f32>(values + ((last * inner) << 2), load<f32>(values));
      store<i64>(indices + ((last * inner) << 3), load<i64>(indices));
      sink(values, indices, inner, last, 0, v, i, largest);
    }
  }
}
