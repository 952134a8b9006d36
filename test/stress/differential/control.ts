// Cases of control flow, sequences and text. Values that are not tensors stay inside: a node gets and gives tensors only,
// so sequences are exercised by bodies.
import type { Graph, Node } from '../../../src/graph/graph.js';
import { Tensor } from '../../../src/tensor/tensor.js';
import { attributes, type Family, f, int64, NUMBERS } from './generator.js';

function node(
  op: string,
  inputs: readonly string[],
  outputs: readonly string[],
  opset: number,
  attrs: Parameters<typeof attributes>[0] = {},
): Node {
  return { op, domain: '', opset, name: '', inputs, outputs, attributes: attributes(attrs) };
}

const one = (name: string, type: 'float32' | 'bool' | 'int64', dims?: readonly number[]) => ({
  name,
  type: { kind: 'tensor' as const, type, ...(dims ? { dims } : {}) },
});

function body(
  inputs: Graph['inputs'],
  outputs: readonly string[],
  nodes: readonly Node[],
  initializers = new Map<string, Tensor>(),
): Graph {
  const kinds: Record<string, 'bool'> = { go: 'bool' };
  return { name: 'body', inputs, outputs: outputs.map((n) => one(n, kinds[n] ?? 'float32')), nodes, initializers };
}

export const control: Family = {
  If: (g, opset) => {
    const branch = (op: string) =>
      body(
        [],
        ['r'],
        [
          node('Constant', [], ['c'], opset, { value: { kind: 'tensor', value: g.tensor('float32', g.dims(0, 2)) } }),
          node(op, ['c'], ['r'], opset),
        ],
      );
    return {
      inputs: [g.tensor('bool', g.pick([[], [1]]))],
      attributes: attributes({
        then_branch: { kind: 'graph', value: branch('Neg') },
        else_branch: { kind: 'graph', value: branch('Exp') },
      }),
    };
  },
  Loop: (g, opset) => {
    const dims = g.dims(0, 2, 3, false);
    const limit = g.int(0, 6);
    // Goes on while the trip number is below a limit; scans the carried value and the number.
    const graph = body(
      [one('i', 'int64', []), one('going', 'bool', []), one('v', 'float32')],
      ['go', 'w', 's'],
      [
        node('Less', ['i', 'limit'], ['go'], opset),
        node('Mul', ['v', 'two'], ['w'], opset),
        node('Cast', ['i'], ['fi'], opset, { to: 1 }),
        node('Add', ['w', 'fi'], ['s'], opset),
      ],
      new Map<string, Tensor>([
        ['limit', new Tensor('int64', [limit], [])],
        ['two', new Tensor('float32', [2], [])],
      ]),
    );
    const inputs = [
      g.maybe(() => int64([g.int(0, 5)], g.pick([[], [1]])), 0.7),
      g.maybe(() => g.tensor('bool', []), 0.5),
      g.tensor('float32', dims),
    ];
    return { inputs, attributes: attributes({ body: { kind: 'graph', value: graph } }), outputs: 2 };
  },
  Scan: (g, opset) => {
    const n = g.int(1, 4);
    const axis = opset >= 9 ? g.int(0, 1) : 0;
    const other = g.int(1, 3);
    const x = g.tensor('float32', opset === 8 ? [1, n, other] : axis === 0 ? [n, other] : [other, n]);
    const state = g.tensor('float32', opset === 8 ? [1, other] : [other]);
    const graph = body(
      [one('v', 'float32', [other]), one('x', 'float32', [other])],
      ['w', 's'],
      [node('Add', ['v', 'x'], ['w'], opset), node('Mul', ['w', 'x'], ['s'], opset)],
    );
    if (opset === 8)
      return {
        inputs: [undefined, state, x],
        attributes: attributes({
          body: { kind: 'graph', value: graph },
          num_scan_inputs: 1,
          directions: g.maybe(() => [g.int(0, 1)]),
        }),
        outputs: 2,
      };
    return {
      inputs: [state, x],
      attributes: attributes({
        body: { kind: 'graph', value: graph },
        num_scan_inputs: 1,
        scan_input_axes: axis === 0 ? undefined : [g.pick([axis, axis - 2])],
        scan_input_directions: g.maybe(() => [g.int(0, 1)]),
        scan_output_directions: g.maybe(() => [g.int(0, 1)]),
        scan_output_axes: g.maybe(() => [g.pick(opset >= 11 ? [0, 1, -1] : [0, 1])]),
      }),
      outputs: 2,
    };
  },
  StringNormalizer: (g) => ({
    inputs: [g.tensor('string', g.chance(0.5) ? [g.int(1, 5)] : [1, g.int(1, 5)])],
    attributes: attributes({
      case_change_action: g.maybe(() => g.pick(['LOWER', 'UPPER', 'NONE'])),
      is_case_sensitive: g.maybe(() => g.int(0, 1)),
      stopwords: g.maybe(() => ['the', 'a']),
    }),
  }),
  StringConcat: (g) => {
    const dims = g.dims();
    return { inputs: [g.tensor('string', g.broadcast(dims)), g.tensor('string', g.broadcast(dims))] };
  },
  StringSplit: (g) => ({
    inputs: [g.tensor('string', g.dims(0, 3))],
    attributes: attributes({ delimiter: g.maybe(() => g.pick([',', '', ' '])), maxsplit: g.maybe(() => g.int(1, 2)) }),
    outputs: 2,
  }),
  RegexFullMatch: (g) => ({
    inputs: [g.tensor('string', g.dims(0, 3))],
    attributes: attributes({ pattern: g.pick(['a', '.*', '[a-zß]+', '\\d+', '(The|the)']) }),
  }),
  Constant: (g, opset) => ({
    inputs: [],
    attributes: attributes(
      opset >= 12
        ? g.pick([
            { value_float: f(1.5) },
            { value_int: 3 },
            { value_ints: [1, 2] },
            { value_floats: { kind: 'floats' as const, value: [1.5, 2] } },
            { value_string: 'ab' },
            { value_strings: ['a', 'b'] },
            { value: { kind: 'tensor' as const, value: g.tensor(g.pick(NUMBERS), g.dims()) } },
          ])
        : { value: { kind: 'tensor', value: g.tensor(g.pick(NUMBERS), g.dims()) } },
    ),
  }),
  TensorScatter: (g) => {
    const [b, h, m, d] = [g.int(1, 2), g.int(1, 2), g.int(2, 6), g.int(1, 3)];
    const s = g.int(1, m);
    const mode = g.maybe(() => g.pick(['linear', 'circular']));
    return {
      inputs: [
        g.tensor('float32', [b, h, m, d]),
        g.tensor('float32', [b, h, s, d]),
        ...(g.chance(0.7) ? [int64(g.ints(b, 0, mode === 'circular' ? m - 1 : m - s))] : []),
      ],
      attributes: attributes({ mode }),
    };
  },
};
