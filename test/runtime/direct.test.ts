// Inputs are read where the caller put them and results written where the answer wants them, whenever that is possible; and
// the answers are the same bits when it is not.
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { Program } from '../../src/compiler/program.js';
import type { GraphBuilder, Value } from '../../src/graph/builder.js';
import type { Graph } from '../../src/graph/graph.js';
import { bindKernels, compileKernelsSync } from '../../src/kernels/module.js';
import type { HostValue } from '../../src/operators/operator.js';
import { SharedConstants } from '../../src/runtime/constants.js';
import { Executor } from '../../src/runtime/executor.js';
import { Heap, ModelMemory } from '../../src/runtime/memory.js';
import { type Carried, copyOut, type Staged } from '../../src/runtime/staged.js';
import { createTeamBuffer, TeamLeader } from '../../src/runtime/team.js';
import { fillBlock, layValues, readValues, writeValues } from '../../src/runtime/wire.js';
import { Tensor } from '../../src/tensor/tensor.js';
import { graphOf } from '../compiler/fusion.js';
import { assertSameBits } from '../operators/harness.js';

const module = compileKernelsSync('plain');

/** A machine that runs a graph as an instance does, its inputs in one block and its answer in another. */
class Machine {
  readonly memory = new ModelMemory();
  readonly heap = new Heap(this.memory);
  readonly #executor: Executor;
  readonly #program: Program;

  constructor(graph: Graph) {
    const { memory, heap } = this;
    const team = new TeamLeader(createTeamBuffer(), bindKernels(module, memory.memory), 1, false);
    this.#executor = new Executor(memory, team, heap);
    const constants = new SharedConstants(SharedConstants.createBuffer(), memory, heap);
    this.#program = new Program(graph, { build: 'plain' }, constants);
  }

  /** Results, and whether each was computed in its place. `placed` false: nobody says where results go. */
  run(names: readonly string[], inputs: readonly Carried[], wanted: readonly string[], placed = true) {
    const { memory, heap } = this;
    let block: ReturnType<typeof layValues> | undefined;
    let direct: boolean[] = [];
    const values = this.#executor.run<HostValue[]>(
      this.#program,
      new Map(names.map((n, i) => [n, inputs[i]!])),
      wanted,
      (found) => {
        if (block === undefined) return found.map((v) => copyOut(memory, v));
        direct = found.map((v, i) => (v as Staged).address === block!.places[i]);
        fillBlock(memory, block, found);
        return readValues(memory, block.address).map((v) => copyOut(memory, v!));
      },
      undefined,
      placed
        ? (known) => {
            block = layValues(memory, heap, known);
            return block.places;
          }
        : undefined,
    );
    if (block !== undefined) heap.free(block.address);
    return { values, direct };
  }
}

const data = Float32Array.from({ length: 60 }, (_, i) => Math.sin(i));
const x = new Tensor('float32', data, [3, 20]);

type Build = (g: GraphBuilder, x: Value) => Value | readonly Value[];

/** Name → the graph, and which of its outputs must come without a copy. */
const cases: Record<string, readonly [build: Build, direct: readonly boolean[]]> = {
  'one step': [(g, v) => g.exp(v), [true]],
  'steps that run in place': [(g, v) => g.exp(g.neg(g.tanh(v))), [true]],
  'a result that is read again': [
    (g, v) => {
      const a = g.exp(v);
      return [a, g.neg(a)];
    },
    [true, true],
  ],
  'a result seen with another shape': [(g, v) => g.reshape(g.exp(v), [5, 12]), [true]],
  'a result and the same with another shape': [
    (g, v) => {
      const a = g.exp(v);
      return [a, g.reshape(a, [60])];
    },
    [true, false],
  ],
  'an input': [(g, v) => [g.reshape(v, [4, 15]), g.exp(v)], [false, true]],
  'a constant': [(g, v) => [g.constant('float32', [1, 2], [2]), g.exp(v)], [false, true]],
  'a reference step': [(g, v) => g.op('Det', [g.reshape(g.slice(v, [0, 0], [3, 3], [0, 1]), [3, 3])]), [true]],
  'a cut': [
    (g, v) => g.op('Transpose', [g.op('NonZero', [g.op('Greater', [v, g.scalar('float32', 0.5)])])], { perm: [1, 0] }),
    [true],
  ],
};

for (const [name, [build, expected]] of Object.entries(cases))
  test(`${name}: the same bits with places and without, inputs untouched`, () => {
    const graph = graphOf([3, 20], (g, v) => build(g, v) as Value);
    const machine = new Machine(graph);
    const wanted = graph.outputs.map((o) => o.name);
    const host = machine.run(['x'], [x], wanted, false).values as Tensor[];
    for (let i = 0; i < 3; i++) {
      // Other allocations in between: addresses change from run to run.
      const between = machine.heap.allocate(64 * (1 + i));
      const block = writeValues(machine.memory, machine.heap, [x]);
      const [staged] = readValues(machine.memory, block) as Staged[];
      const { values, direct } = machine.run(['x'], [staged!], wanted);
      assert.equal(direct, expected);
      for (const [o, v] of values.entries()) assertSameBits(v, host[o]!, `${name} ${o}`);
      assert.equal((copyOut(machine.memory, staged!) as Tensor).data, data);
      machine.heap.free(block);
      machine.heap.free(between);
    }
  });

test('a value wanted twice is computed once and given twice', () => {
  const graph = graphOf([3, 20], (g, v) => g.exp(v));
  const machine = new Machine(graph);
  const name = graph.outputs[0]!.name;
  const { values } = machine.run(['x'], [x], [name, name]);
  assertSameBits(values[0]!, values[1]!, 'twice');
});

test('nothing is left allocated but words, scratch and constants', () => {
  const graph = graphOf([3, 20], (g, v) => g.exp(g.matmul(v, g.weights([20, 7]))));
  const machine = new Machine(graph);
  const wanted = graph.outputs.map((o) => o.name);
  machine.run(['x'], [x], wanted);
  const used = machine.heap.usedBytes;
  for (let i = 0; i < 10; i++) machine.run(['x'], [x], wanted);
  assert.is(machine.heap.usedBytes, used);
});

test.run();
