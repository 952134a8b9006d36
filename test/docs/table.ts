// docs/operators.md as text: the table of operators from what was measured (measure.ts) and the cases counted, and the
// lists of what is left out. Counts of cases need ONNX's test cases, the rest only the code.
import type { OperatorTotal } from '../../src/cli/cases.js';
import type { DataType } from '../../src/tensor/types.js';
import { leftOut, openCases } from './left-out.js';
import type { OperatorRow, Way } from './measure.js';

/** The count of cases by operator, as it stands in the table: `12`, or `11 of 12`. */
export type CaseCounts = ReadonlyMap<string, string>;

const short: Readonly<Record<DataType, string>> = {
  float32: 'f32',
  float64: 'f64',
  float16: 'f16',
  bfloat16: 'bf16',
  int8: 'i8',
  int16: 'i16',
  int32: 'i32',
  int64: 'i64',
  uint8: 'u8',
  uint16: 'u16',
  uint32: 'u32',
  uint64: 'u64',
  bool: 'bool',
  string: 'string',
  complex64: 'c64',
  complex128: 'c128',
  float8e4m3fn: 'f8e4m3fn',
  float8e4m3fnuz: 'f8e4m3fnuz',
  float8e5m2: 'f8e5m2',
  float8e5m2fnuz: 'f8e5m2fnuz',
  float8e8m0: 'f8e8m0',
  float4e2m1: 'f4e2m1',
  int4: 'i4',
  uint4: 'u4',
  int2: 'i2',
  uint2: 'u2',
};

/** Names for types that often come together, so that a line can be read. */
const groups: readonly (readonly [string, readonly DataType[]])[] = [
  ['float8', ['float8e4m3fn', 'float8e4m3fnuz', 'float8e5m2', 'float8e5m2fnuz', 'float8e8m0']],
  ['small ints', ['int4', 'uint4', 'int2', 'uint2']],
  ['ints', ['int8', 'int16', 'int32', 'int64', 'uint8', 'uint16', 'uint32', 'uint64']],
  ['floats', ['float32', 'float64', 'float16', 'bfloat16']],
  ['complex', ['complex64', 'complex128']],
];

function typesInWords(types: readonly DataType[]): string {
  const left = new Set(types);
  const found: string[] = [];
  for (const [name, members] of groups)
    if (members.every((t) => left.has(t))) {
      found.push(name);
      for (const t of members) left.delete(t);
    }
  for (const t of Object.keys(short) as DataType[]) if (left.has(t)) found.push(short[t]);
  const order = ['f32', 'floats', 'f64', 'f16', 'bf16', 'ints'];
  const rank = (t: string) => (order.includes(t) ? order.indexOf(t) : order.length);
  return found.sort((a, b) => rank(a) - rank(b)).join(', ');
}

function line({ name, versions, types }: OperatorRow, cases: CaseCounts): string {
  const of = (way: Way) => [...types].filter(([, w]) => w === way).map(([t]) => t);
  const some = (way: Way, suffix: string) => {
    const found = of(way);
    return found.length === 0 ? [] : [`${typesInWords(found)}${suffix}`];
  };
  const kernel = [...some('kernel', ''), ...some('view', ' (no step)'), ...some('mixed', ' (some forms)')];
  const reference = some('reference', '');
  return `| ${name} | ${versions.join(' ')} | ${kernel.join('; ')} | ${reference.join()} | ${cases.get(name) ?? ''} |`;
}

/** How many of the cases that contain an operator pass. */
export function countsOf(totals: readonly OperatorTotal[]): CaseCounts {
  return new Map(
    totals.map(({ operator, passed, failed, unsupported }) => {
      const all = passed + failed + unsupported;
      return [operator, passed === all ? String(all) : `${passed} of ${all}`] as const;
    }),
  );
}

/** The counts a rendered document holds. */
export function countsIn(document: string): CaseCounts {
  const counts = new Map<string, string>();
  for (const row of document.split('\n')) {
    const cells = row.split(' | ');
    if (cells.length === 5 && cells[0]!.startsWith('| ')) {
      const count = cells[4]!.replace(/ ?\|$/, '').trim();
      if (/^\d/.test(count)) counts.set(cells[0]!.slice(2), count);
    }
  }
  return counts;
}

/** docs/operators.md. */
export function render(rows: readonly OperatorRow[], cases: CaseCounts): string {
  const withKernel = rows.filter((r) => [...r.types.values()].some((w) => w !== 'reference')).length;
  return `# Operators

Made by \`npm run docs:operators\` from the code; do not edit. ${rows.length} operators; ${withKernel} have kernels (or need none: views of
another shape, and what is known when a plan is made). The others run by their reference semantics: exact, slow, on the
instance's first thread. \`skep inspect MODEL\` says which of a model's nodes do.

- **versions**: operator set versions at which something changes that Skep heeds; the first is the oldest it takes. Newer
  versions are taken as the newest listed.
- **kernel**, **reference**: element types of the main input (of the output where there is no input) in the newest version,
  found by compiling random nodes of each type. *Some forms* have no kernel: an attribute or an optional input decides.
  *No step*: nothing is computed when the plan runs.
- **cases**: of ONNX's backend test cases (v1.22) that contain the operator, how many pass, on kernels.

Types: ${groups.map(([name, members]) => `*${name}* are ${members.map((t) => short[t]).join(', ')}`).join('; ')}. Tensors of these and of complex numbers can
be moved and reshaped by every operator that takes any type. float16, bfloat16, float8 and the small ones are computed in
higher precision and rounded once.

| operator | versions | kernel | reference | cases |
| --- | --- | --- | --- | --- |
${rows.map((r) => line(r, cases)).join('\n')}

## What is left out

${leftOut.map(([what, why]) => `- **${what}**: ${why}`).join('\n')}

## Cases that cannot pass

${openCases.length === 0 ? 'None of the cases tried.' : openCases.map(([name, why]) => `- \`${name}\`: ${why}`).join('\n')}
`;
}
