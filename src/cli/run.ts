// skep run: one request through the engine, from files to files.
import { mkdirSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import type { ValueType } from '../graph/graph.js';
import { type FeedValue, load, type Model } from '../index.js';
import type { HostValue } from '../operators/operator.js';
import { writeNpy } from '../tensor/npy.js';
import { writeValueProto } from '../tensor/sequence-proto.js';
import { Tensor } from '../tensor/tensor.js';
import { type DataType, dataTypes } from '../tensor/types.js';
import { command, UsageError } from './command.js';
import { describe } from './compare.js';
import { checkModelFile, readInput, splitAssignment } from './files.js';
import { formatTime, print, printJson, table } from './terminal.js';

export const run = command({
  name: 'run',
  synopsis: 'MODEL --input NAME=FILE …',
  summary: 'run a model once: .npy or TensorProto .pb in, .npy out',
  details: `
FILE is a .npy or .pb file, or a literal: sr=16000, x=[[1,2],[3,4]]. Outputs are printed as type and shape, small ones
with their elements; with --output they are also written to a folder, one NAME.npy each (NAME.pb for what is no tensor).
Characters of a name that a file cannot have become '_'.`,
  positionals: [1, 1],
  options: {
    input: { type: 'string', multiple: true, short: 'i', value: 'NAME=FILE', help: 'an input' },
    output: { type: 'string', short: 'o', value: 'DIR', help: 'write outputs to this folder' },
    outputs: { type: 'string', value: 'A,B', help: 'only these outputs' },
  },
  async run({ positionals, options, json }) {
    const started = performance.now();
    checkModelFile(positionals[0]!);
    const model = await load(positionals[0]!);
    try {
      const feeds = readFeeds(model, options.input ?? []);
      const loaded = performance.now();
      const wanted = options.outputs?.split(',');
      const outputs = Object.entries(await model.run(feeds, wanted === undefined ? {} : { outputs: wanted })) as [
        string,
        HostValue,
      ][];
      const times = { load: loaded - started, run: performance.now() - loaded };
      const files = options.output === undefined ? undefined : writeOutputs(options.output, outputs);
      if (json)
        printJson({
          outputs: outputs.map(([name, value]) => ({ name, ...toJson(value), file: files?.get(name) })),
          milliseconds: times,
        });
      else {
        const rows = outputs.map(([name, v]) => [name, describe(v), files?.get(name) ?? preview(v)]);
        for (const line of table(['output', 'type', files === undefined ? 'elements' : 'file'], rows)) print(line);
        print(`loaded in ${formatTime(times.load)}, ran in ${formatTime(times.run)}`);
      }
      return 0;
    } finally {
      await model.close();
    }
  },
});

function readFeeds(model: Model, given: readonly string[]): Record<string, FeedValue> {
  const feeds: Record<string, FeedValue> = Object.create(null);
  for (const text of given) {
    const [name, file] = splitAssignment(text, 'input');
    const input = model.inputs.find((i) => i.name === name);
    if (input === undefined)
      throw new UsageError(
        `--input ${text}: the model has no input '${name}'; it has ${model.inputs.map((i) => i.name).join(', ')}`,
      );
    feeds[name] = readInput(file, declaredType(input));
  }
  return feeds;
}

/** As much of an input's type as reading a file needs: which message a .pb is, and a literal's element type. */
function declaredType({ type, shape }: Model['inputs'][number]): ValueType | undefined {
  if (Object.hasOwn(dataTypes, type))
    return { kind: 'tensor', type: type as DataType, ...(shape ? { dims: shape } : {}) };
  const element: ValueType = { kind: 'tensor', type: 'float32' };
  return type === 'sequence' || type === 'optional' ? { kind: type, element } : undefined;
}

/** Writes every output; gives the files by name. */
function writeOutputs(folder: string, outputs: readonly (readonly [string, HostValue])[]): Map<string, string> {
  mkdirSync(folder, { recursive: true });
  const files = new Map<string, string>();
  const taken = new Set<string>();
  for (const [name, value] of outputs) {
    // A model is no reason to leave the folder.
    const safe = name.replace(/[^\w.-]/g, '_').replace(/^\.+/, '_');
    let base = safe;
    for (let n = 2; taken.has(base.toLowerCase()); n++) base = `${safe}_${n}`;
    taken.add(base.toLowerCase());
    const tensor = value instanceof Tensor;
    const file = path.join(folder, `${base}.${tensor ? 'npy' : 'pb'}`);
    writeFileSync(file, tensor ? writeNpy(value) : writeValueProto(value));
    files.set(name, file);
  }
  return files;
}

/** Elements printed of an output. */
const PREVIEW = 8;

function preview(value: HostValue): string {
  if (!(value instanceof Tensor)) return '';
  const shown = Array.from(value.data as ArrayLike<unknown>)
    .slice(0, PREVIEW)
    .map(String);
  return `${shown.join(' ')}${value.data.length > PREVIEW ? ' …' : ''}`;
}

function toJson(value: HostValue): Record<string, unknown> {
  return value instanceof Tensor ? { type: value.type, shape: value.dims } : { type: describe(value) };
}
