// Charts as SVG: lines over linear or logarithmic axes, with titles, units, a legend and marks. How to picture it: a plot
// is data (series of points and two axes); `lineChart` lays it out on a fixed sheet and writes a document that any browser
// shows. It draws on white, needs no script and no font of its own. What to plot is for the commands.

export interface Axis {
  /** What it shows, with its unit: `latency, ms`. */
  readonly title: string;
  readonly scale?: 'linear' | 'log';
  /** Ends; default: those of the data. */
  readonly min?: number;
  readonly max?: number;
}

export interface Series {
  readonly name: string;
  /** In order of x. A point that is not finite, not above 0 on a logarithmic axis, or off a given axis breaks the line. */
  readonly points: readonly (readonly [x: number, y: number])[];
  readonly dashed?: boolean;
  /** Which colour; default: the series' number. Series that belong together share one. */
  readonly colour?: number;
  /** Show each point. */
  readonly dots?: boolean;
}

/** A vertical line at an x. */
export interface Mark {
  readonly x: number;
  readonly label: string;
}

export interface Plot {
  readonly title: string;
  /** Small, below the title: what was run, and where. */
  readonly subtitle?: string;
  readonly x: Axis;
  readonly y: Axis;
  readonly series: readonly Series[];
  readonly marks?: readonly Mark[];
}

const WIDTH = 860;
const HEIGHT = 460;
const [LEFT, TOP, BOTTOM] = [76, 62, 56];
const PLOT_WIDTH = 540;
const PLOT_HEIGHT = HEIGHT - TOP - BOTTOM;

/** Told apart by people with colour-blindness too (Okabe and Ito, 2008). */
const COLOURS = ['#0072b2', '#d55e00', '#009e73', '#cc79a7', '#e69f00', '#56b4e9', '#7a5195', '#000000'];

/** Writes a chart as an SVG document. */
export function lineChart(plot: Plot): string {
  const x = scaleOf(plot.x, valuesOf(plot, 0), LEFT, PLOT_WIDTH);
  const y = scaleOf(plot.y, valuesOf(plot, 1), TOP + PLOT_HEIGHT, -PLOT_HEIGHT);
  const right = LEFT + PLOT_WIDTH;
  const bottom = TOP + PLOT_HEIGHT;
  const parts: string[] = [
    `<rect width="${WIDTH}" height="${HEIGHT}" fill="#fff"/>`,
    text(LEFT, 26, plot.title, 'font-size="16" font-weight="bold"'),
  ];
  if (plot.subtitle !== undefined) parts.push(text(LEFT, 46, plot.subtitle, 'fill="#555"'));
  for (const { at, label } of x.ticks)
    parts.push(line(at, TOP, at, bottom, '#e5e5e5'), text(at, bottom + 18, label, 'text-anchor="middle"'));
  for (const { at, label } of y.ticks)
    parts.push(line(LEFT, at, right, at, '#e5e5e5'), text(LEFT - 8, at + 4, label, 'text-anchor="end"'));
  parts.push(line(LEFT, bottom, right, bottom, '#333'), line(LEFT, TOP, LEFT, bottom, '#333'));
  parts.push(text(LEFT + PLOT_WIDTH / 2, HEIGHT - 14, plot.x.title, 'text-anchor="middle"'));
  const middle = TOP + PLOT_HEIGHT / 2;
  parts.push(text(18, middle, plot.y.title, `text-anchor="middle" transform="rotate(-90 18 ${middle})"`));
  for (const [i, { x: value, label }] of (plot.marks ?? []).entries()) {
    const at = x.place(value);
    if (at === undefined) continue;
    // Beside the line, a little lower than the one before, so that neighbours stay legible.
    const height = TOP + 14 + (i % 6) * 15;
    const side = at > LEFT + 0.7 * PLOT_WIDTH ? 'text-anchor="end"' : '';
    parts.push(line(at, TOP, at, bottom, '#888', 'stroke-dasharray="2 3"'));
    parts.push(text(at + (side === '' ? 4 : -4), height, label, `fill="#555" font-size="11" ${side}`));
  }
  for (const [i, series] of plot.series.entries()) parts.push(...drawn(series, i, x, y), ...legend(series, i));
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" width="${WIDTH}" height="${HEIGHT}" viewBox="0 0 ${WIDTH} ${HEIGHT}" font-family="system-ui, sans-serif" font-size="12">`,
    `<title>${xml(plot.title)}</title>`,
    ...parts,
    '</svg>\n',
  ].join('\n');
}

/** The share of values that are at most x, as a line: what `lineChart` draws of a distribution. */
export function cumulative(values: readonly number[], most = 200): [x: number, share: number][] {
  const sorted = values.filter(Number.isFinite).sort((a, b) => a - b);
  const n = sorted.length;
  const count = Math.min(n, most);
  return Array.from({ length: count }, (_, i) => {
    const rank = count === 1 ? n : 1 + Math.round((i * (n - 1)) / (count - 1));
    return [sorted[rank - 1]!, rank / n];
  });
}

interface Scale {
  /** Where a value is on the sheet; undefined when it has no place. */
  readonly place: (value: number) => number | undefined;
  readonly ticks: readonly { readonly at: number; readonly label: string }[];
}

function valuesOf({ series, marks, x: axis }: Plot, which: 0 | 1): number[] {
  const values = series.flatMap((s) => s.points.filter((p) => p.every(Number.isFinite)).map((p) => p[which]));
  // A mark off the data has no place on a given axis, and widens a free one.
  return which === 0 && axis.max === undefined ? [...values, ...(marks ?? []).map((m) => m.x)] : values;
}

function scaleOf(axis: Axis, values: readonly number[], start: number, length: number): Scale {
  const log = axis.scale === 'log';
  const usable = values.filter((v) => drawable(v, log));
  let low = axis.min ?? usable.reduce((a, b) => Math.min(a, b), Number.POSITIVE_INFINITY);
  let high = axis.max ?? usable.reduce((a, b) => Math.max(a, b), Number.NEGATIVE_INFINITY);
  if (!(low <= high)) [low, high] = log ? [1, 10] : [0, 1];
  // Differences that doubles hardly resolve are none.
  if (!log && high - low <= 1e-9 * Math.max(Math.abs(low), Math.abs(high), 1e-90)) high = low;
  // A linear axis shows its zero unless the data is far from it.
  if (!log && axis.min === undefined && low > 0 && low < 0.5 * high) low = 0;
  if (low === high) {
    const half = Math.abs(low) < 1e-90 ? 1 : 0.5 * Math.abs(low);
    [low, high] = log ? [low / 2, high * 2] : [low - half, high + half];
  }
  const marks = log ? logTicks(low, high) : linearTicks(low, high);
  if (axis.min === undefined) low = Math.min(low, marks[0] ?? low);
  if (axis.max === undefined) high = Math.max(high, marks.at(-1) ?? high);
  const edge = 1e-9 * (high - low);
  const of = log ? Math.log : (v: number) => v;
  const place = (v: number): number | undefined =>
    drawable(v, log) && v >= low - edge && v <= high + edge
      ? start + (length * (of(v) - of(low))) / (of(high) - of(low))
      : undefined;
  const ticks = marks.filter((v) => v >= low && v <= high).map((v) => ({ at: place(v)!, label: number(v) }));
  return { place, ticks };
}

/** Whether a number has a place on an axis; the ends of what doubles can hold are left out, where sums overflow. */
function drawable(v: number, log: boolean): boolean {
  return Math.abs(v) <= 1e100 && (!log || v >= 1e-100);
}

/** About six round values that hold [low, high]. */
function linearTicks(low: number, high: number): number[] {
  const rough = (high - low) / 6;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 2.5, 5, 10].map((m) => m * power).find((s) => s >= rough * 0.999)!;
  const first = Math.floor(low / step + 1e-9);
  const last = Math.ceil(high / step - 1e-9);
  return Array.from({ length: last - first + 1 }, (_, i) => Number(((first + i) * step).toPrecision(12)));
}

/** Powers of ten with 2 and 5 between them where there is room, that hold [low, high] closely. */
function logTicks(low: number, high: number): number[] {
  const decades = Math.log10(high / low);
  const between = decades > 5 ? [1] : decades > 2.5 ? [1, 3] : [1, 2, 5];
  const every = Math.max(1, Math.ceil(decades / 8));
  const all: number[] = [];
  for (let d = Math.floor(Math.log10(low)) - 1; d <= Math.ceil(Math.log10(high)) + 1; d++)
    if (d % every === 0) for (const m of between) all.push(Number(`${m}e${d}`));
  const from = all.findLastIndex((v) => v <= low * 1.0001);
  const to = all.findIndex((v) => v >= high * 0.9999);
  return all.slice(Math.max(0, from), to < 0 ? all.length : to + 1);
}

function drawn({ points, dashed, dots, colour: own }: Series, index: number, x: Scale, y: Scale): string[] {
  const colour = COLOURS[(own ?? index) % COLOURS.length]!;
  const parts: string[] = [];
  let run: string[] = [];
  const end = () => {
    if (run.length > 1)
      parts.push(
        `<polyline points="${run.join(' ')}" fill="none" stroke="${colour}" stroke-width="2"${dashed ? ' stroke-dasharray="6 4"' : ''}/>`,
      );
    run = [];
  };
  for (const [px, py] of points) {
    const [at, height] = [x.place(px), y.place(py)];
    if (at === undefined || height === undefined) {
      end();
      continue;
    }
    run.push(`${round(at)},${round(height)}`);
    if (dots || points.length === 1)
      parts.push(`<circle cx="${round(at)}" cy="${round(height)}" r="3" fill="${colour}"/>`);
  }
  end();
  return parts;
}

/** Characters of a name that fit beside the chart. */
const FITS = 32;

function legend({ name, dashed, colour }: Series, index: number): string[] {
  const x = LEFT + PLOT_WIDTH + 16;
  const y = TOP + 10 + 19 * index;
  const dash = dashed ? 'stroke-dasharray="6 4"' : '';
  const shown = name.length > FITS ? `${name.slice(0, FITS - 1)}…` : name;
  return [
    line(x, y - 4, x + 22, y - 4, COLOURS[(colour ?? index) % COLOURS.length]!, `stroke-width="2" ${dash}`),
    text(x + 28, y, shown),
  ];
}

const round = (v: number): string => String(Math.round(v * 10) / 10);

/** `0.02`, `1,500`, `2e7`. */
function number(v: number): string {
  if (v === 0) return '0';
  const size = Math.abs(v);
  if (size >= 1e6 || size < 1e-3) return v.toExponential().replace('e+', 'e');
  return v.toLocaleString('en', { maximumSignificantDigits: 6 });
}

function line(x1: number, y1: number, x2: number, y2: number, colour: string, more = ''): string {
  return `<line x1="${round(x1)}" y1="${round(y1)}" x2="${round(x2)}" y2="${round(y2)}" stroke="${colour}" ${more}/>`;
}

function text(x: number, y: number, content: string, more = ''): string {
  return `<text x="${round(x)}" y="${round(y)}" ${more}>${xml(content)}</text>`;
}

/** Any text as XML; what XML cannot hold at all is left out. */
function xml(content: string): string {
  return (
    content
      // biome-ignore lint/suspicious/noControlCharactersInRegex: those are what XML 1.0 forbids, with halves of pairs
      .replace(/[\u0000-\u0008\u000b\u000c\u000e-\u001f\ufffe\uffff\p{Cs}]/gu, '')
      .replaceAll('&', '&amp;')
      .replaceAll('<', '&lt;')
      .replaceAll('>', '&gt;')
      .replaceAll('"', '&quot;')
  );
}
