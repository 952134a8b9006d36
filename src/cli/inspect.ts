// skep inspect: what a model is, and what it becomes when compiled for concrete shapes. Nothing is computed.

import { describeStages, type Uncut } from '../compiler/cell-stages.js';
import { Cutter } from '../compiler/cells.js';
import { type Dim, type Graph, type Node, subgraphsOf, type ValueInfo, type ValueType } from '../graph/graph.js';
import { weightTypes } from '../kernels/int8.js';
import { type Build, defaultBuild } from '../kernels/module.js';
import { ignoredIn } from '../operators/evaluate.js';
import { findOperator } from '../operators/registry.js';
import { type Batching, batchingOf } from '../serving/batching.js';
import { timeAxes } from '../serving/cells.js';
import { formatType } from '../serving/feeds.js';
import { formatShape, SkepError } from '../tensor/errors.js';
import { bytesOf, Tensor } from '../tensor/tensor.js';
import { choiceOption, command, UsageError } from './command.js';
import {
  type Compilation,
  compileForInspection,
  type InspectedFeed,
  operatorName,
  withSubgraphs,
} from './compilation.js';
import { readInput, readModelFile, splitAssignment } from './files.js';
import { formatBytes, formatCount, formatTime, print, printJson, table } from './terminal.js';

/** What is not supported, and why; `nodes` are all that are concerned, `why` names the first. */
interface Unsupported {
  readonly operator: string;
  readonly nodes: readonly string[];
  readonly why: string;
}

export const inspect = command({
  name: 'inspect',
  synopsis: 'MODEL [--shape NAME=D,D,… …]',
  summary: 'graph, inputs, outputs, operators, weights, FLOPs, what is not supported',
  details: `
Compiles the model for the shapes it declares; a dimension it leaves open is 1 unless --shape says otherwise. Where a
shape or a branch depends on an input's elements the plan is cut: --value gives an input its elements (a literal such as
16000 or [1, 2], or a .npy or .pb file), and inspection goes on.

Operators: nodes run by a kernel, by the slow reference, not at all (constants, views, branches not taken), or not known
because they come after a cut.`,
  positionals: [1, 1],
  options: {
    shape: { type: 'string', multiple: true, value: 'NAME=D,D,…', help: 'the shape of an input: x=1,3,640,640' },
    value: { type: 'string', multiple: true, value: 'NAME=VALUE', help: 'the elements of an input' },
    build: { type: 'string', value: 'BUILD', help: 'compile for kernels of this build: plain or fma' },
    weights: {
      type: 'string',
      value: 'TYPE',
      help: 'keep weights as float32, float16 or int8, and show how far they move',
    },
  },
  async run({ positionals, options, json }) {
    const file = positionals[0]!;
    const build: Build = choiceOption(options.build, 'build', ['plain', 'fma']) ?? defaultBuild();
    const weightType = choiceOption(options.weights, 'weights', weightTypes);
    const model = readModelFile(file);
    const { graph } = model;
    const feeds = feedsOf(graph, options.shape ?? [], options.value ?? []);
    const unsupported = unsupportedNodes(graph);
    const ignored = ignoredIn(graph);
    let compilation: Compilation | undefined;
    /** Why the shapes that were assumed cannot be. */
    let impossible: string | undefined;
    if (unsupported.length === 0) {
      try {
        compilation = compileForInspection(graph, feeds, build, weightType);
      } catch (error) {
        if (!(error instanceof SkepError)) throw error;
        if (error.code === 'UNSUPPORTED') unsupported.push({ operator: '', nodes: [], why: error.message });
        else if ([...feeds.values()].some((f) => f.assumed)) impossible = error.message;
        else throw error;
      }
    }
    const batching = unsupported.length === 0 ? batchingFor(graph, feeds) : undefined;
    const cells = unsupported.length === 0 ? cellsFor(graph, feeds) : undefined;
    const weights = weightsOf(graph);
    if (json) {
      const { operators, ...compiled } = compilation ?? { operators: undefined };
      printJson({
        graph: graph.name,
        irVersion: model.irVersion,
        producer: model.producer,
        opsets: Object.fromEntries([...model.opsets].map(([domain, v]) => [domain || 'ai.onnx', v])),
        inputs: realInputs(graph).map(describeJson),
        outputs: graph.outputs.map(describeJson),
        weights,
        nodes: countNodes(graph),
        operators: operators ?? countOperators(graph),
        compiled:
          compilation === undefined
            ? null
            : { build, shapes: Object.fromEntries([...feeds].map(([n, f]) => [n, f.dims])), ...compiled },
        batching: batching ?? null,
        cells: cells ?? null,
        unsupported,
        ignored,
        ...(impossible === undefined ? {} : { impossible }),
      });
      return 0;
    }
    print(`${file}: graph '${graph.name}'`);
    print(
      `  format    IR ${model.irVersion}, ${[...model.opsets].map(([d, v]) => `${d || 'ai.onnx'} ${v}`).join(', ')}${model.producer === '' ? '' : `, by ${model.producer}`}`,
    );
    for (const i of realInputs(graph)) print(`  input     ${i.name}: ${typeInWords(i.type)}`);
    for (const o of graph.outputs) print(`  output    ${o.name}: ${typeInWords(o.type)}`);
    print(`  weights   ${formatBytes(weights.bytes)} in ${weights.tensors} tensors`);
    print(`  nodes     ${countNodes(graph)}`);
    if (cells !== undefined && 'why' in cells) print(`  cells     not cut into steps: ${cells.why}`);
    else if (cells !== undefined)
      for (const [i, stage] of cells.stages.entries()) print(`  ${i === 0 ? 'cells' : '     '}     ${i + 1}. ${stage}`);
    if (batching !== undefined && (cells === undefined || 'why' in cells))
      print(`  batching  ${batchingInWords(batching)}`);
    print();
    if (compilation === undefined)
      printRows(
        ['operator', 'nodes'],
        countOperators(graph).map((o) => [o.operator, o.nodes]),
      );
    else printCompilation(compilation, feeds, build);
    if (impossible !== undefined) {
      print();
      print(`Not compiled: with open dimensions taken as 1, ${impossible}. Give the shapes: --shape NAME=D,D,…`);
    }
    if (ignored.length > 0) {
      print();
      print('Attributes that operators do not have, ignored:');
      for (const line of ignored) print(`  ${line}`);
    }
    if (unsupported.length > 0) {
      print();
      print('Not supported:');
      for (const { why, nodes } of unsupported)
        print(`  ${why}${nodes.length > 1 ? ` (and ${nodes.length - 1} more)` : ''}`);
    }
    return 0;
  },
});

function printCompilation(c: Compilation, feeds: ReadonlyMap<string, InspectedFeed>, build: Build): void {
  const shapes = [...feeds].map(
    ([name, f]) => `${name} ${formatShape(f.dims)}${f.assumed ? ' (open dimensions taken as 1)' : ''}`,
  );
  print(`Compiled for ${shapes.join(', ')}, ${build} build, in ${formatTime(c.milliseconds)}:`);
  print(`  steps     ${c.steps.kernel} kernel calls, ${c.steps.reference} by the reference`);
  print(`  FLOPs     ${formatCount(c.flops)}`);
  print(`  arena     ${formatBytes(c.arenaBytes)}`);
  print(`  constants ${formatBytes(c.constantBytes)}`);
  if (c.cut !== undefined) print(`  cut       ${c.cut}`);
  if (c.rounded.length > 0) {
    print();
    printRows(
      ['rounded weights', 'mean error', 'largest'],
      c.rounded.map((r) => [r.name, percent(r.mean), percent(r.max)]),
    );
  }
  print();
  printRows(
    ['operator', 'nodes', 'kernel', 'reference', 'no step', 'unknown'],
    c.operators.map((o) => [o.operator, o.nodes, o.kernel, o.reference, o.none, o.unknown]),
  );
}

/** A share of the weights' root mean square. */
const percent = (share: number) => `${(share * 100).toFixed(2)} %`;

/** Whether concurrent requests of these shapes may be computed together. */
function batchingFor(graph: Graph, feeds: ReadonlyMap<string, InspectedFeed>): Batching {
  const inputs = realInputs(graph);
  const given = inputs.map(({ name }) => {
    const feed = feeds.get(name);
    return feed && { name, type: feed.type, dims: feed.dims, ...(feed.value !== undefined && { value: feed.value }) };
  });
  return batchingOf(graph, inputs, given);
}

/** Times of a sequence whose length is left open. */
const TIMES = 16;

/** How requests of a recurrent model are cut, or why not; undefined for other models. */
function cellsFor(
  graph: Graph,
  feeds: ReadonlyMap<string, InspectedFeed>,
): { readonly stages: readonly string[] } | Uncut | undefined {
  const inputs = realInputs(graph);
  const axes = timeAxes(inputs);
  const cutter = new Cutter(graph, axes);
  if (!cutter.recurrent) return undefined;
  const wanted = graph.outputs.map((o) => o.name);
  let first: Uncut | undefined;
  // An open dimension may be the time: each that may is tried.
  for (const times of [new Map<string, number>(), ...axes]) {
    const fed = [...feeds].map(([name, { type, dims, assumed }]) => {
      const open = inputs.find((i) => i.name === name)?.type;
      const declared = open?.kind === 'tensor' ? (open.dims ?? []) : [];
      const longer = (d: number, i: number) =>
        assumed && times.get(name) === i && typeof declared[i] !== 'number' ? TIMES : d;
      return [name, { type, dims: dims.map(longer) }] as const;
    });
    const cut = cutter.cut(new Map(fed), wanted);
    if (!('why' in cut)) return { stages: describeStages(cut) };
    first ??= cut;
  }
  return first;
}

function batchingInWords(batching: Batching): string {
  if (!batching.proven)
    return `one request at a time: ${batching.node === undefined ? '' : `${batching.node}: `}${batching.why}`;
  const axes = Object.entries(batching.axes).map(
    ([name, axis]) => `${name} ${axis === null ? 'the same' : `axis ${axis}`}`,
  );
  return `concurrent requests together: ${axes.join(', ')}`;
}

function printRows(head: readonly string[], rows: readonly (readonly (string | number)[])[]): void {
  for (const line of table(head, rows)) print(`  ${line}`);
}

/** The inputs a caller must give: without those an initializer is the default of. */
function realInputs(graph: Graph): ValueInfo[] {
  return graph.inputs.filter((i) => !graph.initializers.has(i.name));
}

function feedsOf(graph: Graph, shapes: readonly string[], values: readonly string[]): Map<string, InspectedFeed> {
  const inputs = new Map(realInputs(graph).map((i) => [i.name, i]));
  const known = (name: string, option: string) => {
    const found = inputs.get(name);
    if (found === undefined)
      throw new UsageError(`--${option}: the model has no input '${name}'; it has ${[...inputs.keys()].join(', ')}`);
    return found;
  };
  const feeds = new Map<string, InspectedFeed>();
  for (const { name, type } of inputs.values()) {
    if (type !== undefined && type.kind !== 'tensor') continue;
    const declared: readonly Dim[] = type?.dims ?? [];
    const dims = declared.map((d) => (typeof d === 'number' ? d : 1));
    feeds.set(name, {
      type: type?.type ?? 'float32',
      dims,
      assumed: type?.dims === undefined || declared.some((d) => typeof d !== 'number'),
    });
  }
  for (const text of shapes) {
    const [name, list] = splitAssignment(text, 'shape');
    const { type } = known(name, 'shape');
    const dims = list === '' ? [] : list.split(',').map(Number);
    if (!dims.every((d) => Number.isInteger(d) && d >= 0))
      throw new UsageError(`--shape ${text}: '${list}' is no shape`);
    if (type?.kind === 'tensor' && type.dims !== undefined && type.dims.length !== dims.length)
      throw new UsageError(`--shape ${text}: '${name}' has ${type.dims.length} dimensions: ${formatShape(type.dims)}`);
    feeds.set(name, { type: type?.kind === 'tensor' ? type.type : 'float32', dims, assumed: false });
  }
  for (const text of values) {
    const [name, rest] = splitAssignment(text, 'value');
    const value = readInput(rest, known(name, 'value').type);
    if (!(value instanceof Tensor)) throw new UsageError(`--value ${text}: only tensors`);
    feeds.set(name, { type: value.type, dims: value.dims, value, assumed: false });
  }
  return feeds;
}

function allNodes(graph: Graph): Node[] {
  return graph.nodes.flatMap(withSubgraphs);
}

function countNodes(graph: Graph): number {
  return allNodes(graph).length;
}

function countOperators(graph: Graph): { operator: string; nodes: number }[] {
  const counts = new Map<string, number>();
  for (const n of allNodes(graph)) counts.set(operatorName(n), (counts.get(operatorName(n)) ?? 0) + 1);
  return [...counts].map(([operator, nodes]) => ({ operator, nodes })).sort((a, b) => b.nodes - a.nodes);
}

/** Nodes whose operator or its version Skep lacks, one entry an operator and version. */
function unsupportedNodes(graph: Graph): Unsupported[] {
  const found = new Map<string, { operator: string; nodes: string[]; why: string }>();
  for (const node of allNodes(graph)) {
    try {
      findOperator(node);
    } catch (error) {
      if (!(error instanceof SkepError)) throw error;
      const key = `${operatorName(node)} ${node.opset}`;
      const entry = found.get(key) ?? { operator: operatorName(node), nodes: [], why: error.message };
      entry.nodes.push(node.name);
      found.set(key, entry);
    }
  }
  return [...found.values()];
}

function weightsOf(graph: Graph): { tensors: number; bytes: number } {
  let tensors = 0;
  let bytes = 0;
  const visit = (g: Graph) => {
    for (const t of g.initializers.values()) {
      tensors++;
      if (t.type !== 'string') bytes += bytesOf(t).length;
    }
    for (const n of g.nodes) {
      // Constant nodes hold weights too in models exported by old tools.
      for (const a of Object.values(n.attributes))
        if (a.kind === 'tensor' && a.value.type !== 'string') {
          tensors++;
          bytes += bytesOf(a.value).length;
        }
      for (const [, sub] of subgraphsOf(n)) visit(sub);
    }
  };
  visit(graph);
  return { tensors, bytes };
}

function typeInWords(type: ValueType | undefined): string {
  return type === undefined ? 'type not declared' : formatType(type);
}

function describeJson({ name, type }: ValueInfo) {
  if (type?.kind !== 'tensor') return { name, type: typeInWords(type) };
  return { name, type: type.type, shape: type.dims ?? null };
}
