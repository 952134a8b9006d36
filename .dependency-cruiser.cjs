// The layers of src/ as rules: imports point only downward. One row a layer, with everything it may import; a folder that
// is not in the table may not exist. The scheduling half (cellular, optimizer, simulator) is pure: no engine, no Node.

const engine = ['tensor', 'kernels', 'graph', 'operators', 'onnx', 'compiler', 'runtime'];
const scheduling = ['cellular', 'optimizer', 'simulator'];
const live = [...engine, ...scheduling, 'serving'];

/** @type {Record<string, readonly string[]>} */
const layers = {
  tensor: [],
  kernels: [],
  graph: ['tensor'],
  operators: ['tensor', 'kernels', 'graph'],
  onnx: ['tensor', 'kernels', 'graph', 'operators'],
  compiler: ['tensor', 'kernels', 'graph', 'operators', 'onnx'],
  runtime: ['tensor', 'kernels', 'graph', 'operators', 'onnx', 'compiler'],
  cellular: [],
  optimizer: [],
  simulator: ['cellular', 'optimizer'],
  serving: [...engine, ...scheduling],
  http: live,
  ort: live,
  stepper: live,
  cli: [...live, 'http', 'ort', 'stepper'],
};

const names = Object.keys(layers);
const within = (folders) => `^src/(${folders.join('|')})/`;

module.exports = {
  forbidden: [
    ...names.map((name) => ({
      name: `layer-${name}`,
      comment: `src/${name} may import ${layers[name].join(', ') || 'no other layer'}`,
      severity: 'error',
      from: { path: within([name]) },
      // The command line is a user of the public API, too.
      to: {
        path: '^src/',
        pathNot:
          name === 'cli' ? `${within([name, ...layers[name]])}|^src/index\\.ts$` : within([name, ...layers[name]]),
      },
    })),
    {
      name: 'layer-unknown',
      comment: 'every folder of src/ is a layer of the table above',
      severity: 'error',
      from: { path: '^src/[^/]+/', pathNot: within(names) },
      to: {},
    },
    {
      name: 'entry-not-to-cli',
      comment: 'what a user imports does not bring the command line along',
      severity: 'error',
      from: { path: '^src/[^/]+\\.ts$' },
      to: { path: within(['cli']) },
    },
    {
      name: 'pure',
      comment:
        'scheduling has no threads, no clock of its own and no I/O, so that it runs live, simulated and in a page',
      severity: 'error',
      from: { path: within(scheduling) },
      to: { dependencyTypes: ['core', 'npm', 'npm-dev', 'npm-optional', 'npm-peer', 'npm-no-pkg', 'npm-unknown'] },
    },
    {
      name: 'models-are-graphs',
      comment: 'models/ is written with the graph builder',
      severity: 'error',
      from: { path: '^models/' },
      to: { path: '^src/', pathNot: within(['graph', 'tensor']) },
    },
    {
      name: 'models-are-for-faces',
      comment: 'the engine knows no particular network',
      severity: 'error',
      from: { path: '^src/', pathNot: within(['cli', 'stepper']) },
      to: { path: '^models/' },
    },
    {
      name: 'product-stands-alone',
      comment: 'the product imports neither tests, benches, examples nor devDependencies',
      severity: 'error',
      from: { path: '^(src|models)/' },
      to: {
        path: '^(test|bench|examples)/|(^|/)node_modules/',
        pathNot: 'node_modules/@types/node/',
        dependencyTypesNot: ['npm'],
      },
    },
    {
      name: 'no-circular',
      severity: 'error',
      from: {},
      to: { circular: true, viaOnly: { dependencyTypesNot: ['type-only'] } },
    },
    { name: 'resolvable', severity: 'error', from: {}, to: { couldNotResolve: true } },
  ],
  options: {
    doNotFollow: { path: 'node_modules' },
    tsConfig: { fileName: 'tsconfig.json' },
    tsPreCompilationDeps: true,
    enhancedResolveOptions: { exportsFields: ['exports'], conditionNames: ['import', 'types', 'default'] },
  },
};
