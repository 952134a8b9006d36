// The operators that move, select, shape or make data, and those of control flow and of values that are not tensors, in
// one list for the registry. Adding a family of that kind is adding it here.
import { control } from './control.js';
import { einsums } from './einsum.js';
import { fouriers } from './fourier.js';
import { gathers } from './gather.js';
import { generators } from './generators.js';
import { joining } from './joining.js';
import { labelOperators } from './labels.js';
import type { Operator } from './operator.js';
import { padding } from './padding.js';
import { randoms } from './random.js';
import { resizes } from './resize.js';
import { samplings } from './sampling.js';
import { scatters } from './scatter.js';
import { selections } from './selection.js';
import { sequences } from './sequences.js';
import { shapes } from './shapes.js';
import { signals } from './signal.js';
import { text } from './text.js';
import { views } from './views.js';

export const dataOperators: readonly Operator[] = [
  ...shapes,
  ...views,
  ...joining,
  ...padding,
  ...gathers,
  ...scatters,
  ...generators,
  ...resizes,
  ...samplings,
  ...selections,
  ...signals,
  ...fouriers,
  ...einsums,
  ...randoms,
  ...control,
  ...sequences,
  ...text,
  ...labelOperators,
];
