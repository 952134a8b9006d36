// skep export: a network of models/ as an ONNX file, for trying Skep and for feeding other engines the same model.
import { mkdirSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { networks } from '../../models/index.js';
import { type BuildOptions, type Network, type Settings, sizes } from '../../models/network.js';
import type { Model, ValueInfo } from '../graph/graph.js';
import { writeModel } from '../onnx/writer.js';
import { formatType } from '../serving/feeds.js';
import { choiceOption, command, numberOption, UsageError } from './command.js';
import { splitAssignment } from './files.js';
import { formatBytes, formatCount, formatTime, print, printJson, table } from './terminal.js';

export const exportNetwork = command({
  name: 'export',
  synopsis: 'NAME | --list',
  summary: 'write a network of a paper as an ONNX file',
  details: `
Weights are random, from the seed, scaled so that activations stay in range: the same seed gives the same file on every
machine. 'skep export --list' says which networks there are and what can be set of each.`,
  positionals: [0, 1],
  options: {
    list: { type: 'boolean', help: 'say what there is' },
    size: { type: 'string', value: 'SIZE', help: `${sizes.join(', ')}; default paper` },
    set: {
      type: 'string',
      multiple: true,
      value: 'NAME=N,…',
      help: "instead of the size's numbers: hidden=256,layers=2",
    },
    seed: { type: 'string', value: 'N', help: 'seed of the weights; default 1' },
    opset: { type: 'string', value: 'N', help: 'operator set of ai.onnx, 17 to 27; default 20' },
    output: { type: 'string', short: 'o', value: 'FILE', help: 'the file; default NAME.onnx' },
    'external-data': { type: 'boolean', help: 'weights in a file of their own beside it, FILE.data' },
  },
  async run({ positionals, options, json }) {
    const name = positionals[0];
    if (options.list === true) {
      if (name !== undefined) throw new UsageError(`--list takes no name, got '${name}'`);
      if (json) printJson({ networks: [...networks.values()].map(describe) });
      else printList();
      return 0;
    }
    if (name === undefined) throw new UsageError('export NAME: which network? --list says what there is');
    const network = networks.get(name);
    if (network === undefined)
      throw new UsageError(`there is no network '${name}'; there are ${[...networks.keys()].join(', ')}`);
    const size = choiceOption(options.size, 'size', sizes);
    const seed = wholeOption(options.seed, 'seed');
    const opset = wholeOption(options.opset, 'opset');
    const set = settingsOf(network, options.set ?? []);
    const build: BuildOptions = {
      set,
      ...(size === undefined ? {} : { size }),
      ...(seed === undefined ? {} : { seed }),
      ...(opset === undefined ? {} : { opset }),
    };
    const file = options.output ?? `${name}.onnx`;
    const started = performance.now();
    const model = network.build(build);
    const bytes = write(model, file, options['external-data'] === true);
    const milliseconds = performance.now() - started;
    const { inputs, outputs } = model.graph;
    const parameters = parametersOf(model);
    if (json) {
      printJson({
        file,
        bytes,
        network: name,
        settings: network.settings(build),
        parameters,
        inputs: inputs.map(typed),
        outputs: outputs.map(typed),
        milliseconds,
      });
      return 0;
    }
    print(
      `${file}: ${formatCount(parameters)} parameters, ${formatBytes(bytes)}, written in ${formatTime(milliseconds)}`,
    );
    for (const i of inputs) print(`  input   ${i.name}: ${typed(i).type}`);
    for (const o of outputs) print(`  output  ${o.name}: ${typed(o).type}`);
    return 0;
  },
});

/** Writes the model; gives the bytes it takes. */
function write(model: Model, file: string, external: boolean): number {
  mkdirSync(path.dirname(file), { recursive: true });
  if (!external) {
    const bytes = writeModel(model);
    writeFileSync(file, bytes);
    return bytes.length;
  }
  const { model: bytes, data } = writeModel(model, { externalData: `${path.basename(file)}.data` });
  writeFileSync(file, bytes);
  writeFileSync(`${file}.data`, data);
  return bytes.length + data.length;
}

/** `hidden=256,layers=2`, once or several times. */
function settingsOf(network: Network, given: readonly string[]): Settings {
  const settings: Record<string, number> = {};
  for (const text of given.flatMap((g) => g.split(','))) {
    const [key, value] = splitAssignment(text, 'set');
    if (!Object.hasOwn(network.options, key))
      throw new UsageError(
        `--set ${text}: ${network.name} has no option '${key}'; it has ${Object.keys(network.options).join(', ')}`,
      );
    const number = wholeOption(value, `set ${key}`);
    if (number === undefined || number < 1) throw new UsageError(`--set ${text}: '${value}' must be at least 1`);
    settings[key] = number;
  }
  return settings;
}

function wholeOption(text: string | undefined, name: string): number | undefined {
  const x = numberOption(text, name);
  if (x !== undefined && (!Number.isSafeInteger(x) || x < 0))
    throw new UsageError(`--${name} must be a whole number, got '${text}'`);
  return x;
}

/** Weights, statistics of batch normalization included; constants of formulas are not. */
function parametersOf({ graph }: Model): number {
  let count = 0;
  for (const t of graph.initializers.values()) if (t.type === 'float32' && t.dims.length > 0) count += t.size;
  return count;
}

function describe(network: Network) {
  const { name, summary, options, sizes: presets } = network;
  return { name, summary, options, sizes: presets, parameters: parametersOf(network.build({ zeros: true })) };
}

function printList(): void {
  const rows = [...networks.values()].map((n) => {
    const { parameters } = describe(n);
    return [n.name, formatCount(parameters), n.summary];
  });
  for (const line of table(['network', 'parameters', ''], rows)) print(line);
  print();
  print('What can be set (--set), with the numbers of the sizes:');
  for (const n of networks.values()) {
    print();
    const settings = Object.entries(n.options).map(([key, help]) => [
      `  ${n.name}`,
      key,
      ...sizes.map((s) => n.sizes[s][key]!),
      help,
    ]);
    for (const line of table(['', '', ...sizes, ''], settings)) print(line);
  }
}

function typed({ name, type }: ValueInfo): { name: string; type: string } {
  return { name, type: type === undefined ? 'not declared' : formatType(type) };
}
