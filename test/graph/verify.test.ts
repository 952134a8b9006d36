// The verifier and the topological order: each rule broken once, and random graphs.
import * as fc from 'fast-check';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import type { Attribute, Graph, Model, Node } from '../../src/graph/graph.js';
import { sortNodes } from '../../src/graph/order.js';
import { verify } from '../../src/graph/verify.js';
import { Tensor } from '../../src/tensor/tensor.js';

const node = (op: string, inputs: string[], outputs: string[], body?: Graph): Node => {
  const attributes: Record<string, Attribute> = body === undefined ? {} : { body: { kind: 'graph', value: body } };
  return { op, domain: '', opset: 17, name: `n${op}`, inputs, outputs, attributes };
};

const graph = (inputs: string[], nodes: Node[], outputs: string[], weights: string[] = []): Graph => ({
  name: 'g',
  inputs: inputs.map((name) => ({ name })),
  outputs: outputs.map((name) => ({ name })),
  initializers: new Map(weights.map((name) => [name, new Tensor('float32', [1], [1])])),
  nodes,
});

const refuses = (g: Graph, pattern: RegExp) => assert.throws(() => verify(g), pattern);

test('a graph that holds together', () => {
  const body = graph(['i'], [node('Add', ['i', 'x'], ['s'])], ['s', 'w']);
  verify(
    graph(
      ['x', 'd'],
      [node('Loop', ['x', '', 'w'], ['y', ''], body), node('Neg', ['y'], ['z'])],
      ['z', 'x'],
      ['w', 'd'],
    ),
  );
});

test('each broken rule names the node and the value', () => {
  refuses(graph(['x', 'x'], [], []), /'x' is defined by an input and again by an input/);
  refuses(graph(['x'], [node('A', [], ['x'])], []), /'x' is defined by an input and again by A 'nA'/);
  refuses(graph([], [node('A', [], ['y']), node('B', [], ['y'])], []), /by A 'nA' and again by B 'nB'/);
  refuses(graph([], [node('A', [], ['y', 'y'])], []), /by A 'nA' and again by A 'nA'/);
  refuses(graph([], [node('A', ['q'], ['y'])], []), /A 'nA' reads 'q', which nothing defines/);
  refuses(
    graph([], [node('A', ['z'], ['y']), node('B', [], ['z'])], []),
    /A 'nA' reads 'z', which B 'nB' defines only later/,
  );
  refuses(graph([], [node('A', ['y'], ['y'])], []), /reads 'y', which A 'nA' defines only later/);
  refuses(graph([], [], ['q']), /an output reads 'q', which nothing defines/);
  refuses(graph([], [], ['']), /an output has no name/);
  refuses(graph([''], [], []), /an input has no name/);
  const body = graph(['i'], [node('Add', ['i', 'late'], ['s'])], ['s']);
  refuses(
    graph([], [node('Loop', [], ['y'], body)], []),
    /subgraph 'body' of Loop 'nLoop' reads 'late', which nothing/,
  );
  refuses(graph([], [node('Loop', [], ['y'], body), node('C', [], ['late'])], []), /which C 'nC' defines only later/);
  const shadow = graph(['x'], [], ['x']);
  refuses(
    graph(['x'], [node('Loop', [], ['y'], shadow)], []),
    /'x' is defined by a graph around it and again by an input/,
  );
  const model: Model = {
    graph: graph(['x'], [], ['x', 'x']),
    irVersion: 8,
    opsets: new Map(),
    producer: '',
    metadata: new Map(),
  };
  assert.throws(() => verify(model), /output 'x' is there twice/);
});

test('shuffled nodes are sorted, in order ones left alone', () => {
  const nodes = fc
    .integer({ min: 1, max: 12 })
    .chain((n) =>
      fc.tuple(
        fc.array(fc.array(fc.nat(), { maxLength: 3 }), { minLength: n, maxLength: n }),
        fc.shuffledSubarray([...Array(n).keys()], { minLength: n }),
      ),
    );
  fc.assert(
    fc.property(nodes, ([reads, order]) => {
      const made = reads.map((r, i) => node('N', i === 0 ? [] : r.map((k) => `v${k % i}`), [`v${i}`]));
      const kept = sortNodes(made);
      assert.ok('nodes' in kept && kept.nodes.every((m, i) => m === made[i]));
      const sorted = sortNodes(order.map((i) => made[i]!));
      assert.ok('nodes' in sorted);
      if ('nodes' in sorted) verify(graph([], [...sorted.nodes], []));
    }),
  );
});

test('a cycle is found, also through a subgraph, and its nodes are given', () => {
  const body = graph([], [node('Id', ['c'], ['inner'])], ['inner']);
  const order = sortNodes([node('A', [], ['a']), node('B', ['a'], ['b'], body), node('C', ['b'], ['c'])]);
  assert.ok('cycle' in order);
  if ('cycle' in order)
    assert.equal(
      order.cycle.map((n) => n.op),
      ['B', 'C'],
    );
});

test('a chain of a hundred thousand nodes, backwards, does not overflow the stack', () => {
  const chain = Array.from({ length: 100_000 }, (_, i) => node('N', [`v${i + 1}`], [`v${i}`]));
  const order = sortNodes(chain);
  assert.ok('nodes' in order && order.nodes[0] === chain[99_999]);
});

test.run();
