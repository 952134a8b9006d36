// Cutting one request: level by level, where a level is what lies between recurrences, every value that something later
// reads is given as rows where that is proved, whole where it is not, and gets its place in the request's block. Picture a
// net spread over the graph whose knots are the recurrences. What the model as a whole knows (levels, proofs, graphs of
// stages) is cells.ts.
import { type Attribute, type Graph, type Node, readsOf } from '../graph/graph.js';
import { resolve } from '../operators/evaluate.js';
import type { TensorInfo } from '../operators/operator.js';
import { formatNode, SkepError } from '../tensor/errors.js';
import { sizeOf } from '../tensor/shape.js';
import { byteLength, type DataType } from '../tensor/types.js';
import type { BatchInput } from './batch-axis.js';
import type { Cut, Place, Sequence, Stage, StepsStage, Uncut } from './cell-stages.js';
import type { Cutter, Recurrence } from './cells.js';
import { SLACK } from './plan.js';
import { nodesFor } from './shapes.js';
import { shareOutside } from './share-outside.js';

/** Times of a chunk: a product is as efficient with four rows as with many. */
const CHUNK = 8;
/** With fewer times a recurrence is not worth tasks of its own. */
const LEAST_TIMES = 4;
/** Where more of the operations than this lie outside recurrences and rows, whole requests are merged better. */
const MOST_OUTSIDE = 0.5;

const align = (bytes: number) => Math.ceil(bytes / 64) * 64;

/** A value that a `rows` stage is to give, and what it takes. */
interface Target {
  readonly name: string;
  readonly times: number;
  readonly nodes: readonly Node[];
  readonly inputs: ReadonlyMap<string, number>;
  readonly axis: number;
}

/** One request being cut. */
export class Cutting {
  readonly #cutter: Cutter;
  readonly #nodes: readonly Node[];
  readonly #plain: readonly Node[];
  readonly #known: Map<string, TensorInfo>;
  readonly #fed: ReadonlyMap<string, TensorInfo>;
  readonly #wanted: readonly string[];
  readonly #places = new Map<string, Place>();
  /** Where values that are sequences have their time. */
  readonly #axes = new Map<string, number>();
  readonly #stages: Stage[] = [];
  #candidate: ReadonlyMap<string, number> | undefined;
  #bytes = 0;

  constructor(
    cutter: Cutter,
    nodes: readonly Node[],
    known: Map<string, TensorInfo>,
    fed: ReadonlyMap<string, TensorInfo>,
    wanted: readonly string[],
  ) {
    this.#cutter = cutter;
    this.#nodes = nodes;
    this.#plain = nodes.filter((n) => cutter.recurrence(n) === undefined);
    this.#known = known;
    this.#fed = fed;
    this.#wanted = wanted;
  }

  cut(): Cut | Uncut {
    const recurrences = this.#nodes.flatMap((n) => this.#cutter.recurrence(n) ?? []);
    if (recurrences.length === 0) return { why: 'no recurrent layer is needed for these outputs' };
    const shapes = recurrences.map((r) => this.#shapeOf(r.node));
    for (const [i, s] of shapes.entries()) {
      const { node } = recurrences[i]!;
      const where = formatNode(node);
      const { type, value } = this.#info(node.inputs[0]!);
      if (value !== undefined) return { why: `${where}: its input is constant` };
      if (type !== 'float32') return { why: `${where}: only float32 layers run step by step` };
      if (s.times * s.rows * s.hidden === 0) return { why: `${where}: its input has no elements` };
    }
    const times = Math.max(...shapes.map((s) => s.times));
    if (times < LEAST_TIMES) return { why: `a sequence of ${times} is run whole` };
    const last = Math.max(...recurrences.map((r) => r.level)) + 1;
    for (let level = 0; level <= last; level++) this.#level(level, recurrences, last);
    const outside = shareOutside(this.#stages, this.#known);
    if (outside > MOST_OUTSIDE)
      return { why: `${Math.round(100 * outside)} % of its operations do not go step by step` };
    // Kernels may read a little past a value's end.
    return { stages: this.#stages, bytes: this.#bytes + SLACK };
  }

  /** What lies at one level: first what is not proved, then rows, each followed by the recurrences it feeds. */
  #level(level: number, recurrences: readonly Recurrence[], last: number): void {
    const here = recurrences.filter((r) => r.level === level);
    const targets: Target[] = [];
    const whole: string[] = [];
    for (const { node } of here) {
      const x = node.inputs[0]!;
      const own = this.#place(x) === undefined ? this.#rowsOf(x, this.#timeAxis(node)) : undefined;
      if (own !== undefined) targets.push(this.#projected(node, own));
      else {
        const axis = this.#timeAxis(node);
        if (this.#place(x) === undefined) whole.push(x);
        else if (this.#fed.has(x)) this.#axes.set(x, axis);
        const info = this.#info(x);
        targets.push(
          this.#projected(node, { name: x, times: info.dims[axis]!, nodes: [], inputs: new Map([[x, axis]]), axis }),
        );
      }
    }
    const needed = this.#neededAt(level);
    for (const name of needed) {
      if (this.#place(name) !== undefined || whole.includes(name)) continue;
      const own = this.#rowsOf(name);
      if (own === undefined) whole.push(name);
      else targets.push(own);
    }
    if (level < last && whole.length > 0) this.#whole(level, whole);
    const byTimes = new Map<number, Target[]>();
    for (const t of targets) byTimes.set(t.times, [...(byTimes.get(t.times) ?? []), t]);
    for (const group of byTimes.values()) {
      this.#rows(level, group);
      for (const { node } of here) if (group.some((t) => t.name === productsOf(node))) this.#steps(node);
    }
    if (level === last) this.#end(whole);
  }

  /** Values of this level that others read, or the caller wants. A recurrence of the level reads its X as products. */
  #neededAt(level: number): Set<string> {
    const needed = new Set<string>();
    const produced = new Set(this.#plain.flatMap((n) => n.outputs));
    const add = (name: string) => {
      if (name !== '' && produced.has(name) && this.#cutter.level(name) === level) needed.add(name);
    };
    for (const node of this.#nodes) {
      const recurrence = this.#cutter.recurrence(node);
      if (recurrence !== undefined) {
        node.inputs.forEach((name, i) => {
          if (i > 0 || recurrence.level > level) add(name);
        });
      } else if (node.outputs.some((o) => o !== '' && this.#cutter.level(o) > level)) readsOf(node).forEach(add);
    }
    this.#wanted.forEach(add);
    return needed;
  }

  /** The value as rows of a stage, if that is proved; with its time along `axis` where that is asked for. */
  #rowsOf(name: string, axis?: number): Target | undefined {
    const nodes = nodesFor(this.#plain, [name], (n) => this.#given(n));
    if (nodes.length === 0) return undefined;
    const reads = new Set(nodes.flatMap((n) => [...readsOf(n)]));
    const inputs = [...reads].filter((n) => this.#given(n));
    if (inputs.length === 0) return undefined;
    const id = `${name} < ${inputs.join()}`;
    const graph = this.#cutter.stageGraph(id, nodes, inputs, [name]);
    for (const candidate of this.#candidate === undefined ? this.#cutter.candidates : [this.#candidate]) {
      const axes = inputs.map((n) => this.#axes.get(n) ?? candidate.get(n));
      if (axes.some((a) => a === undefined)) continue;
      const given = new Map<string, BatchInput>();
      const times = new Set<number>();
      inputs.forEach((n, i) => {
        const { type, dims } = this.#info(n);
        given.set(n, { type, dims, axis: axes[i]! });
        times.add(dims[axes[i]!] ?? -1);
      });
      const [length] = times;
      if (times.size !== 1 || length === undefined || length < 1) continue;
      const found = this.#cutter.prove(graph, name, given);
      if (found === undefined || (axis !== undefined && found !== axis)) continue;
      // What has its batch where another has its time is proved as well: the first recurrence says which is which.
      const guessed = inputs.some((n) => this.#fed.has(n) && !this.#axes.has(n));
      if (this.#candidate === undefined && axis === undefined && guessed) continue;
      if (guessed) this.#candidate = candidate;
      return { name, times: length, nodes, inputs: new Map(inputs.map((n, i) => [n, axes[i]!])), axis: found };
    }
    return undefined;
  }

  /** The products of a recurrence's X, of which `x` says how it is made. */
  #projected(node: Node, x: Target): Target {
    const product: Node = {
      op: 'Projection',
      domain: 'skep',
      opset: 1,
      name: node.name,
      inputs: [node.inputs[0]!, node.inputs[1]!],
      outputs: [productsOf(node)],
      attributes: {},
    };
    const s = this.#shapeOf(node);
    const dims = [s.directions, ...this.#info(node.inputs[0]!).dims.slice(0, 2), s.width];
    this.#known.set(productsOf(node), { type: 'float32', dims });
    return { ...x, name: productsOf(node), nodes: [...x.nodes, product], axis: x.axis + 1 };
  }

  #rows(level: number, targets: readonly Target[]): void {
    if (targets.length === 0) return;
    const names = targets.map((t) => t.name);
    const nodes = [...new Set(targets.flatMap((t) => [...t.nodes]))];
    // In the graph's order, the products last.
    const all = [...this.#plain.filter((n) => nodes.includes(n)), ...nodes.filter((n) => !this.#plain.includes(n))];
    const axes = new Map(targets.flatMap((t) => [...t.inputs]));
    const sequences = (found: ReadonlyMap<string, number>) =>
      [...found].map(([name, axis]): Sequence => ({ name, place: this.#placeOf(name), axis }));
    const inputs = sequences(axes);
    for (const t of targets) this.#allocate(t.name, t.axis);
    const outputs = sequences(new Map(targets.map((t) => [t.name, t.axis])));
    const { times } = targets[0]!;
    const rows = this.#rowsAtATime();
    const chunk = Math.min(times, Math.max(1, Math.floor(CHUNK / rows)));
    const id = `rows ${names.join()} < ${inputs.map((i) => i.name).join()}`;
    const shapes = inputs.map((i) => `${i.place.type}[${i.place.dims.map((d, a) => (a === i.axis ? '*' : d)).join()}]`);
    const before = this.#stages.at(-1);
    const forward = before?.kind === 'steps' && before.times === times && isForward(before);
    this.#stages.push({
      kind: 'rows',
      id,
      type: `${id} ${level} ${shapes.join()} by ${chunk}`,
      graph: this.#cutter.stageGraph(
        id,
        all,
        inputs.map((i) => i.name),
        names,
      ),
      times,
      chunk,
      rows,
      inputs,
      outputs,
      length: Math.ceil(times / chunk),
      order: before === undefined ? 'first' : forward ? 'stepwise' : 'after',
    });
  }

  #steps(node: Node): void {
    const s = this.#shapeOf(node);
    const states = node.op === 'LSTM' ? 2 : 1;
    const [y = '', ...last] = node.outputs;
    const read = (name: string) =>
      name !== '' && (this.#wanted.includes(name) || this.#nodes.some((n) => readsOf(n).has(name)));
    const withY = read(y);
    if (withY) this.#allocate(y, s.batchFirst ? 1 : 0);
    const input = (i: number) => {
      const name = node.inputs[i];
      return name === undefined || name === '' ? undefined : this.#placeOf(name);
    };
    const kept = Array.from({ length: states }, (_, i) => {
      const dims = s.batchFirst ? [s.rows, s.directions, s.hidden] : [s.directions, s.rows, s.hidden];
      const name = last[i] ?? '';
      const place = this.#reserve('float32', dims);
      if (name !== '') this.#places.set(name, place);
      return { from: input(5 + i), place };
    });
    const id = `steps ${node.outputs.join()}${withY ? ' y' : ''}`;
    const before = this.#stages.at(-1)!;
    const stage: StepsStage = {
      kind: 'steps',
      id,
      type: id,
      graph: this.#stepsGraph(id, node, withY),
      node,
      ...s,
      products: this.#placeOf(productsOf(node)),
      lengths: input(4),
      y: withY ? this.#placeOf(y) : undefined,
      states: kept,
      length: s.times,
      order: 'after',
    };
    // It may follow its products as they come, if it begins where they do.
    const follows = before.kind === 'rows' && before.times === s.times && isForward(stage);
    this.#stages.push({ ...stage, order: follows ? 'stepwise' : 'after' });
  }

  #stepsGraph(id: string, node: Node, withY: boolean): Graph {
    const states = node.op === 'LSTM' ? ['h', 'c'] : ['h'];
    const weight = (i: number) => node.inputs[i] ?? '';
    const attributes: Record<string, Attribute> = { ...node.attributes };
    delete attributes.layout;
    const steps: Node = {
      op: `${node.op}Steps`,
      domain: 'skep',
      opset: 1,
      name: node.name,
      inputs: ['g', '', weight(2), weight(3), 'lengths', ...states, ...(node.op === 'LSTM' ? [weight(7)] : [])],
      outputs: [withY ? 'y' : '', ...states.map((n) => `${n}Next`)],
      attributes,
    };
    const outputs = [...(withY ? ['y'] : []), ...states.map((n) => `${n}Next`)];
    return this.#cutter.stageGraph(id, [steps], ['g', 'lengths', ...states], outputs);
  }

  #whole(level: number, names: readonly string[]): void {
    const { graph, inputs, id } = this.#wholeGraph(`whole ${level}`, names);
    const outputs = new Map(names.map((n) => [n, this.#allocate(n)] as const));
    const order = this.#stages.length === 0 ? 'first' : 'after';
    this.#stages.push({ kind: 'whole', id, graph, inputs, outputs, length: 1, order });
  }

  #end(names: readonly string[]): void {
    const whole = names.length === 0 ? undefined : this.#wholeGraph('end', names);
    this.#stages.push({
      kind: 'end',
      id: whole?.id ?? 'end',
      graph: whole?.graph,
      inputs: whole?.inputs ?? new Map(),
      outputs: this.#wanted.map((name) => ({ name, place: this.#place(name) })),
      length: 1,
      order: 'after',
    });
  }

  #wholeGraph(kind: string, names: readonly string[]) {
    const nodes = nodesFor(this.#plain, names, (n) => this.#given(n));
    const reads = new Set(nodes.flatMap((n) => [...readsOf(n)]));
    const inputs = [...reads].filter((n) => this.#given(n));
    const id = `${kind} ${names.join()} < ${inputs.join()}`;
    const graph = this.#cutter.stageGraph(id, nodes, inputs, names);
    return { id, graph, inputs: new Map(inputs.map((n) => [n, this.#placeOf(n)] as const)) };
  }

  /** Whether a stage finds the value where another, or the caller, has put it. */
  #given(name: string): boolean {
    return this.#places.has(name) || this.#fed.has(name);
  }

  #placeOf(name: string): Place {
    const place = this.#place(name);
    if (place === undefined) throw new SkepError('INTERNAL', `'${name}' has no place`);
    return place;
  }

  /** Where a value is, if it needs no computing: it has been placed, is fed, is constant, or is one of those seen otherwise. */
  #place(name: string): Place | undefined {
    const placed = this.#places.get(name);
    if (placed !== undefined) return placed;
    const info = this.#known.get(name);
    if (info === undefined) return undefined;
    const { type, dims, value } = info;
    if (this.#fed.has(name)) return { kind: 'input', type, dims, name };
    if (value !== undefined) return { kind: 'constant', type, dims, value };
    const node = this.#plain.find((n) => n.outputs.includes(name));
    if (node === undefined || !this.#isView(node)) return undefined;
    const base = this.#place(node.inputs[0]!);
    return base === undefined || base.kind === 'constant' ? undefined : { ...base, dims };
  }

  /** Whether the node's result is its first input's elements in their order. */
  #isView(node: Node): boolean {
    if (node.domain !== '') return false;
    if (['Identity', 'Squeeze', 'Unsqueeze', 'Reshape', 'Flatten'].includes(node.op)) return true;
    if (node.op !== 'Transpose') return false;
    const { dims } = this.#info(node.inputs[0]!);
    const perm = node.attributes.perm;
    const order = perm?.kind === 'ints' ? perm.value : dims.map((_, i) => dims.length - 1 - i);
    const moved = order.filter((axis) => dims[axis] !== 1);
    return moved.every((axis, i) => i === 0 || axis > moved[i - 1]!);
  }

  #allocate(name: string, axis?: number): Place {
    const { type, dims } = this.#info(name);
    const place = this.#reserve(type, dims);
    this.#places.set(name, place);
    if (axis !== undefined) this.#axes.set(name, axis);
    return place;
  }

  #reserve(type: DataType, dims: readonly number[]): Place {
    const offset = this.#bytes;
    this.#bytes += align(byteLength(type, sizeOf(dims)));
    return { kind: 'block', type, dims, offset };
  }

  #info(name: string): TensorInfo {
    const info = this.#known.get(name);
    if (info === undefined) throw new SkepError('INTERNAL', `nothing is known of '${name}'`);
    return info;
  }

  #timeAxis(node: Node): number {
    return this.#shapeOf(node).batchFirst ? 1 : 0;
  }

  /** Rows of a batch at one time: those of the first recurrence. */
  #rowsAtATime(): number {
    return this.#shapeOf(this.#nodes.find((n) => this.#cutter.recurrence(n) !== undefined)!).rows;
  }

  #shapeOf(node: Node) {
    const { dims } = this.#info(node.inputs[0]!);
    const r = this.#info(node.inputs[2]!).dims;
    const { direction, layout } = resolve(node).attributes as { direction: string; layout: number };
    const batchFirst = layout === 1;
    const directions = r[0]!;
    return {
      times: dims[batchFirst ? 1 : 0]!,
      rows: dims[batchFirst ? 0 : 1]!,
      directions,
      hidden: r[2]!,
      width: r[1]!,
      batchFirst,
      backwards: directions === 2 ? [false, true] : [direction === 'reverse'],
    };
  }
}

function productsOf(node: Node): string {
  return `products of ${node.outputs.find((o) => o !== '')}`;
}

function isForward(stage: StepsStage): boolean {
  return !stage.backwards.includes(true);
}
