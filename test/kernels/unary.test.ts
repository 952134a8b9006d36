import { readFileSync } from 'node:fs';
import fc from 'fast-check';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { activations, erf } from '../../src/kernels/activation.js';
import { unaryBlock, unaryCodes } from '../../src/kernels/unary.js';
import { builds, KernelModule } from './module.js';

const modules = builds.map((b) => [b, new KernelModule(b)] as const);

function run(m: KernelModule, x: ArrayLike<number>, kind: number, alpha = 0, beta = 0, shift = 0): Float32Array {
  m.reset();
  const n = x.length;
  const from = m.put(x, shift);
  const to = m.alloc(n * 4 + 4, shift);
  m.f32(to, n + 1)[n] = 12345;
  const units = Math.ceil(n / unaryBlock);
  for (let u = 0; u < units; u++) m.call('unaryF32', { x: from, y: to, size: n, kind, alpha, beta }, u, u + 1);
  assert.is(m.f32(to, n + 1)[n], 12345, 'nothing is written past the end');
  return m.f32(to, n).slice();
}

const specials = [
  0,
  -0,
  1,
  -1,
  Number.NaN,
  Infinity,
  -Infinity,
  1e-40,
  -1e-40,
  3.4e38,
  -3.4e38,
  88.8,
  -88.8,
  -104,
  0.5,
];

/** A dense sweep of [from, to], and points at every binary order of magnitude. */
function sweep(from: number, to: number): Float32Array {
  const points: number[] = [];
  for (let i = 0; i <= 20000; i++) points.push(from + ((to - from) * i) / 20000);
  for (let e = -40; e < 7; e++)
    for (let k = 1; k < 16; k++) for (const s of [1, -1]) points.push(s * (1 + k / 16) * 2 ** e);
  return Float32Array.from(points.filter((p) => p >= from && p <= to));
}

interface Accuracy {
  readonly code: number;
  readonly f: (x: number) => number;
  readonly range: readonly [number, number];
  readonly absolute: number;
  readonly relative: number;
}

const accurate: Record<string, Accuracy> = {
  exp: { code: unaryCodes.exp, f: Math.exp, range: [-103, 88.7], absolute: 1.5e-45, relative: 2.4e-7 },
  log: { code: unaryCodes.log, f: Math.log, range: [1e-42, 1000], absolute: 0, relative: 2.4e-7 },
  tanh: { code: activations.tanh.code, f: Math.tanh, range: [-12, 12], absolute: 0, relative: 4e-7 },
  sigmoid: {
    code: activations.sigmoid.code,
    f: (x) => 1 / (1 + Math.exp(-x)),
    range: [-86, 88],
    absolute: 0,
    relative: 3e-7,
  },
  erf: { code: unaryCodes.erf, f: erf, range: [-5, 5], absolute: 0, relative: 4e-7 },
};

for (const [build, m] of modules) {
  for (const [name, { code, f, range, absolute, relative }] of Object.entries(accurate)) {
    test(`${name} is within its error bound (${build})`, () => {
      const x = sweep(...range);
      const y = run(m, x, code);
      for (let i = 0; i < x.length; i++) {
        const t = f(x[i]!);
        const e = Math.abs(y[i]! - t);
        if (!(e <= absolute + relative * Math.abs(t))) assert.unreachable(`${name}(${x[i]}) = ${y[i]}, expected ${t}`);
      }
    });
  }

  test(`every activation agrees with its definition (${build})`, () => {
    const x = sweep(-20, 20);
    for (const [name, { code, alpha, beta, apply }] of Object.entries(activations)) {
      const a = Math.fround(alpha || 0.75);
      const b = Math.fround(beta || 1.25);
      const y = run(m, x, code, a, b);
      for (let i = 0; i < x.length; i++) {
        const t = apply(x[i]!, a, b);
        if (!(Math.abs(y[i]! - t) <= 1e-6 * Math.abs(t) + 4e-7 * Math.abs(x[i]!)))
          assert.unreachable(`${name}(${x[i]}) = ${y[i]}, expected ${t}`);
      }
    }
  });

  test(`negative arguments keep relative accuracy near 0 where the function has it (${build})`, () => {
    const x = sweep(-0.01, -1e-30);
    for (const name of ['elu', 'celu', 'selu', 'tanh'] as const) {
      const { code, alpha, beta, apply } = activations[name];
      const y = run(m, x, code, alpha, beta);
      for (let i = 0; i < x.length; i++) {
        const t = apply(x[i]!, alpha, beta);
        if (!(Math.abs(y[i]! - t) <= 4e-7 * Math.abs(t)))
          assert.unreachable(`${name}(${x[i]}) = ${y[i]}, expected ${t}`);
      }
    }
  });

  test(`special values give the limits (${build})`, () => {
    const table: [string, number, (x: number) => number][] = [
      ['exp', unaryCodes.exp, Math.exp],
      ['log', unaryCodes.log, Math.log],
      ['sqrt', unaryCodes.sqrt, Math.sqrt],
      ['abs', unaryCodes.abs, Math.abs],
      ['neg', unaryCodes.neg, (x) => -x],
      ['reciprocal', unaryCodes.reciprocal, (x) => 1 / x],
      ['floor', unaryCodes.floor, Math.floor],
      ['ceil', unaryCodes.ceil, Math.ceil],
      ['sign', unaryCodes.sign, Math.sign],
      ['erf', unaryCodes.erf, erf],
      ...Object.entries(activations).map(
        ([name, a]) =>
          [name, a.code, (x: number) => a.apply(x, Math.fround(0.75), 1.25)] as [string, number, (x: number) => number],
      ),
    ];
    for (const [name, code, f] of table) {
      const y = run(m, specials, code, 0.75, 1.25);
      specials.forEach((v, i) => {
        const x = Math.fround(v);
        const t = Math.fround(f(x));
        // 1e-5: rounding alpha·x is an error of 66 ulp inside an exponential; 3e-39: sigmoid loses denormal results.
        const same = Object.is(y[i], t) || Math.abs(y[i]! - t) <= 1e-5 * Math.abs(t) + 3e-39;
        if (!same) assert.unreachable(`${name}(${x}) = ${y[i]}, expected ${t}`);
      });
    }
  });

  test(`an element gets the same bits wherever it stands (${build})`, () => {
    fc.assert(
      fc.property(
        fc.array(fc.float({ noNaN: true }), { minLength: 1, maxLength: 40 }),
        fc.constantFrom(...Object.values(activations).map((a) => a.code), ...Object.values(unaryCodes)),
        fc.integer({ min: 0, max: 3 }),
        (values, kind, shift) => {
          const together = run(m, values, kind, 0.5, 1.5, shift * 4);
          for (const [i, v] of values.entries()) assert.ok(Object.is(run(m, [v], kind, 0.5, 1.5)[0], together[i]));
        },
      ),
      { numRuns: 40 },
    );
  });
}

test('rounding is to the nearest, ties to even', () => {
  const y = run(modules[0]![1], [0.5, 1.5, 2.5, -0.5, -1.5, 2.4, 1e9], unaryCodes.round);
  assert.equal(
    [...y].map((v) => v + 0),
    [0, 2, 2, 0, -2, 2, 1e9],
  );
});

test('codes are the same on both sides', () => {
  const constantsOf = (file: string) => {
    const text = readFileSync(new URL(`../../../assembly/${file}.ts`, import.meta.url), 'utf8');
    return new Map([...text.matchAll(/const ([A-Z_]+): i32 = (\d+);/g)].map((f) => [f[1]!, Number(f[2])]));
  };
  const upper = (name: string) => name.replace(/[A-Z]/g, '_$&').toUpperCase();
  const inActivation = constantsOf('activation');
  for (const [name, { code }] of Object.entries(activations)) assert.is(inActivation.get(upper(name)), code, name);
  const inUnary = constantsOf('unary');
  assert.is(inUnary.get('BLOCK'), unaryBlock);
  for (const [name, code] of Object.entries(unaryCodes)) assert.is(inUnary.get(upper(name)), code, name);
});

test.run();
