// From DBNet's map of how likely each pixel is text to boxes around the words: pixels above a threshold that touch make a
// region, a region gets the smallest rectangle (of any angle) around it, and because the network was trained on shrunken
// regions the rectangle is grown again (Liao et al., Real-time scene text detection with differentiable binarization).

/**
 * @param {Float32Array} map probabilities, row by row
 * @returns {{ corners: [number, number][], score: number }[]} corners clockwise from top left, boxes in reading order
 */
export function findBoxes(map, width, height, { threshold = 0.3, minScore = 0.6, grow = 1.5, minSide = 3 } = {}) {
  const boxes = [];
  for (const { outline, score } of regions(map, width, height, threshold)) {
    if (score < minScore) continue;
    const tight = smallestRectangle(outline);
    if (Math.min(tight.width, tight.height) < minSide) continue;
    const by = (tight.width * tight.height * grow) / (2 * (tight.width + tight.height));
    boxes.push({ corners: cornersOf({ ...tight, width: tight.width + 2 * by, height: tight.height + 2 * by }), score });
  }
  return inReadingOrder(boxes);
}

/** Regions of touching pixels (by side or corner) above the threshold: the outer corners of their pixels, and their mean. */
function regions(map, width, height, threshold) {
  const seen = new Uint8Array(map.length);
  const found = [];
  for (let start = 0; start < map.length; start++) {
    if (seen[start] || map[start] <= threshold) continue;
    const stack = [start];
    seen[start] = 1;
    const rows = new Map();
    let sum = 0;
    let count = 0;
    while (stack.length > 0) {
      const at = stack.pop();
      const x = at % width;
      const y = (at - x) / width;
      sum += map[at];
      count++;
      const row = rows.get(y);
      if (row === undefined) rows.set(y, [x, x]);
      else if (x < row[0]) row[0] = x;
      else if (x > row[1]) row[1] = x;
      for (let v = Math.max(y - 1, 0); v <= Math.min(y + 1, height - 1); v++)
        for (let u = Math.max(x - 1, 0); u <= Math.min(x + 1, width - 1); u++) {
          const next = v * width + u;
          if (seen[next] || map[next] <= threshold) continue;
          seen[next] = 1;
          stack.push(next);
        }
    }
    // Only the ends of each row can be corners of the hull.
    const outline = [...rows].flatMap(([y, [a, b]]) => [
      [a, y],
      [a, y + 1],
      [b + 1, y],
      [b + 1, y + 1],
    ]);
    found.push({ outline, score: sum / count });
  }
  return found;
}

/** The convex hull, by Andrew's monotone chain. */
export function convexHull(points) {
  const sorted = [...points].sort((a, b) => a[0] - b[0] || a[1] - b[1]);
  const half = (list) => {
    const chain = [];
    for (const p of list) {
      while (chain.length > 1 && turn(chain.at(-2), chain.at(-1), p) <= 0) chain.pop();
      chain.push(p);
    }
    return chain.slice(0, -1);
  };
  return [...half(sorted), ...half(sorted.reverse())];
}

const turn = (o, a, b) => (a[0] - o[0]) * (b[1] - o[1]) - (a[1] - o[1]) * (b[0] - o[0]);

/**
 * The rectangle of least area around points: one of its sides lies on a side of the hull. `angle` is that of its
 * `width` side, within 45° of level.
 */
export function smallestRectangle(points) {
  const hull = convexHull(points);
  let best;
  hull.forEach((p, i) => {
    const q = hull[(i + 1) % hull.length];
    const angle = Math.atan2(q[1] - p[1], q[0] - p[0]);
    const [cos, sin] = [Math.cos(angle), Math.sin(angle)];
    const along = hull.map(([x, y]) => x * cos + y * sin);
    const across = hull.map(([x, y]) => y * cos - x * sin);
    const [a, b] = [Math.min(...along), Math.max(...along)];
    const [c, d] = [Math.min(...across), Math.max(...across)];
    if (best !== undefined && (b - a) * (d - c) >= best.width * best.height) return;
    const [u, v] = [(a + b) / 2, (c + d) / 2];
    best = { x: u * cos - v * sin, y: u * sin + v * cos, width: b - a, height: d - c, angle };
  });
  return levelled(best);
}

/** The same rectangle, its angle within 45° of level. */
function levelled(r) {
  const quarters = Math.round(r.angle / (Math.PI / 2));
  const angle = r.angle - (quarters * Math.PI) / 2;
  return quarters % 2 === 0 ? { ...r, angle } : { ...r, angle, width: r.height, height: r.width };
}

function cornersOf({ x, y, width, height, angle }) {
  const [cos, sin] = [Math.cos(angle), Math.sin(angle)];
  return [
    [-1, -1],
    [1, -1],
    [1, 1],
    [-1, 1],
  ].map(([i, j]) => {
    const [u, v] = [(i * width) / 2, (j * height) / 2];
    return [x + u * cos - v * sin, y + u * sin + v * cos];
  });
}

/** Top to bottom; boxes on one line, judged by their middles, from left to right. */
function inReadingOrder(boxes) {
  const middle = ({ corners }) => (corners[0][1] + corners[2][1]) / 2;
  const height = ({ corners: [a, , , d] }) => Math.hypot(d[0] - a[0], d[1] - a[1]);
  const lines = [];
  for (const box of [...boxes].sort((a, b) => middle(a) - middle(b))) {
    const line = lines.at(-1);
    if (line !== undefined && middle(box) - middle(line[0]) < 0.5 * Math.min(height(box), height(line[0])))
      line.push(box);
    else lines.push([box]);
  }
  return lines.flatMap((line) => line.sort((a, b) => a.corners[0][0] - b.corners[0][0]));
}
