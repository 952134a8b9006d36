// What the fusion tests share: a graph run fused and unfused, every build, results compared, and the operators that ran.
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { GraphBuilder, type Value } from '../../src/graph/builder.js';
import type { Graph } from '../../src/graph/graph.js';
import type { HostValue } from '../../src/operators/operator.js';
import { allOperators } from '../../src/operators/registry.js';
import { sizeOf } from '../../src/tensor/shape.js';
import { Tensor } from '../../src/tensor/tensor.js';
import { assertClose, builds, runGraph, type Tolerance } from '../operators/harness.js';

/** Numbers that are the same on every run, between −2 and 2, none of them special. */
export function numbers(dims: readonly number[], seed = 1): Tensor<'float32'> {
  const data = Float32Array.from({ length: sizeOf(dims) }, (_, i) => 2 * Math.sin((i + 1) * 12.9898 * seed + seed));
  return new Tensor('float32', data, dims);
}

/** A graph of one input `x` (and more by `g.input`), every value `build` gives an output. */
export function graphOf(
  dims: readonly number[],
  build: (g: GraphBuilder, x: Value) => Value | readonly Value[],
  opset = 20,
): Graph {
  const g = new GraphBuilder('test', { opset });
  const made = build(g, g.input('x', 'float32', dims));
  for (const [i, y] of (Array.isArray(made) ? (made as Value[]) : [made as Value]).entries()) g.output(`y${i}`, y);
  return g.graph();
}

/** The feeds of a graph's inputs. */
export function feedsOf(graph: Graph): Map<string, HostValue> {
  return new Map(
    graph.inputs.map(({ name, type }, i) => [name, numbers((type as { dims: readonly number[] }).dims, 1 + i / 7)]),
  );
}

/** Runs a graph fused and unfused and compares; asserts which operators the fused plan runs, in order. */
export function checkFusion(graph: Graph, operators: readonly string[], tolerance: Tolerance = {}): void {
  const feeds = feedsOf(graph);
  for (const build of builds) {
    const fused = runGraph(graph, feeds, build);
    const plain = runGraph(graph, feeds, build, { fuse: false });
    assert.equal(
      fused.operators.filter((op, i) => op !== fused.operators[i - 1]),
      operators,
      `${build}: operators after fusion`,
    );
    for (const { name } of graph.outputs)
      assertClose(fused.outputs.get(name)!, plain.outputs.get(name)!, { rtol: 2e-5, atol: 2e-5, ...tolerance }, name);
  }
}

/** Asserts that fusion leaves a graph as it is, though it looks at it. */
export function checkUntouched(graph: Graph): void {
  const feeds = feedsOf(graph);
  const fused = runGraph(graph, feeds);
  const plain = runGraph(graph, feeds, 'plain', { fuse: false });
  assert.equal(fused.operators, plain.operators, 'operators after fusion');
  for (const { name } of graph.outputs)
    assertClose(fused.outputs.get(name)!, plain.outputs.get(name)!, { rtol: 0, atol: 0 }, name);
}

/** `test`, or a visible skip where operators are not there yet. */
export function testWith(operators: string, name: string, run: () => void): void {
  const there = new Set(allOperators().map((o) => o.name));
  const lacking = operators.split(' ').filter((o) => !there.has(o));
  if (lacking.length === 0) test(name, run);
  else console.log(`SKIPPED ${name}: no ${lacking.join(', ')}`);
}
