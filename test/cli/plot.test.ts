// The SVG writer: documents that any parser takes, points where the axes say, legible ticks, whatever comes in.
import fc from 'fast-check';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { cumulative, lineChart, type Plot } from '../../src/cli/plot.js';

/** Throws unless the text is well-formed XML of elements, attributes in double quotes and escaped text; gives its tags. */
function parse(svg: string): { tag: string; attributes: Record<string, string>; text: string }[] {
  const open: string[] = [];
  const tags: { tag: string; attributes: Record<string, string>; text: string }[] = [];
  const token = /<(\/?)([a-zA-Z]+)((?:\s+[\w:-]+="[^"<&]*(?:&(?:amp|lt|gt|quot);[^"<&]*)*")*)\s*(\/?)>|([^<]+)/gy;
  for (let end = 0; end < svg.length; end = token.lastIndex) {
    const m = token.exec(svg);
    assert.ok(m !== null, `not well-formed at ${svg.slice(end, end + 60)}`);
    const [, closing, tag, attributes = '', empty, content] = m;
    if (content !== undefined) {
      assert.ok(!/&(?!(amp|lt|gt|quot);)/.test(content), content);
      if (content.trim() !== '' && tags.length > 0) tags.at(-1)!.text += content;
    } else if (closing === '/') assert.is(open.pop(), tag);
    else {
      const found = Object.fromEntries([...attributes.matchAll(/([\w:-]+)="([^"]*)"/g)].map((a) => [a[1]!, a[2]!]));
      tags.push({ tag: tag!, attributes: found, text: '' });
      if (empty !== '/') open.push(tag!);
    }
  }
  assert.equal(open, []);
  return tags;
}

const plot: Plot = {
  title: 'Latency against load',
  x: { title: 'load', max: 1 },
  y: { title: 'p90, ms', scale: 'log' },
  series: [
    {
      name: 'cellular',
      points: [
        [0.1, 10],
        [0.5, 20],
        [0.9, 1000],
      ],
      dots: true,
    },
    {
      name: 'overloaded',
      points: [
        [0.1, 10],
        [0.5, Number.POSITIVE_INFINITY],
        [0.6, 20],
        [0.9, 40],
      ],
      dashed: true,
    },
  ],
  marks: [{ x: 0.5, label: 'they cross' }],
};

test('titles, units, legend and marks are on the sheet', () => {
  const texts = parse(lineChart(plot))
    .filter((t) => t.tag === 'text')
    .map((t) => t.text);
  for (const wanted of [
    'Latency against load',
    'load',
    'p90, ms',
    'cellular',
    'overloaded',
    'they cross',
    '10',
    '1,000',
  ])
    assert.ok(texts.includes(wanted), `${wanted} in ${texts.join(' | ')}`);
});

test('a logarithmic axis puts equal ratios at equal distances, larger values higher', () => {
  const dots = parse(lineChart(plot)).filter((t) => t.tag === 'circle');
  const heights = dots.map((d) => Number(d.attributes.cy));
  assert.is(heights.length, 3);
  const perDecade = (heights[0]! - heights[2]!) / 2;
  assert.ok(Math.abs(heights[0]! - heights[1]! - perDecade * Math.log10(2)) < 0.2, heights.join(' '));
  assert.ok(heights[0]! > heights[1]! && heights[1]! > heights[2]!);
});

test('what is not finite breaks the line and is not drawn', () => {
  const lines = parse(lineChart(plot)).filter((t) => t.tag === 'polyline');
  assert.is(lines.length, 2, 'a single point on the left of the break is no line');
  assert.is(lines[1]!.attributes.points!.split(' ').length, 2);
});

test('the cumulative share ends at the largest value with all of them', () => {
  assert.equal(cumulative([3, 1, 2, 4]), [
    [1, 0.25],
    [2, 0.5],
    [3, 0.75],
    [4, 1],
  ]);
  const many = cumulative(
    Array.from({ length: 10_000 }, (_, i) => i),
    50,
  );
  assert.is(many.length, 50);
  assert.equal(
    [many[0], many.at(-1)],
    [
      [0, 1 / 10_000],
      [9999, 1],
    ],
  );
  assert.equal(cumulative([5]), [[5, 1]]);
  assert.equal(cumulative([]), []);
});

test('any data and any words give a document whose points lie on the sheet: property', () => {
  const value = fc.oneof(fc.double(), fc.double({ min: 1e-3, max: 1e6 }), fc.constantFrom(0, -1, 1, 1e300, 5e-324));
  const axis = fc.record({
    title: fc.string({ unit: 'binary' }),
    scale: fc.constantFrom('linear' as const, 'log' as const),
  });
  const series = fc.record({
    name: fc.string({ unit: 'binary' }),
    points: fc.array(fc.tuple(value, value), { maxLength: 20 }),
    dots: fc.constant(true),
  });
  fc.assert(
    fc.property(fc.string(), axis, axis, fc.array(series, { maxLength: 9 }), (title, x, y, all) => {
      const tags = parse(lineChart({ title, x, y, series: all }));
      for (const { tag, attributes } of tags.filter((t) => t.tag === 'circle')) {
        const [cx, cy] = [Number(attributes.cx), Number(attributes.cy)];
        assert.ok(cx >= 0 && cx <= 860 && cy >= 0 && cy <= 460, `${tag} at ${cx}, ${cy}`);
      }
      const ticks = tags.filter((t) => t.tag === 'text').length;
      assert.ok(ticks >= 4 && ticks < 80, `${ticks} texts`);
    }),
    { numRuns: 300 },
  );
});

test.run();
