// The operators that move, select, shape or make data, and those of control flow and of values that are not tensors, in
// one list for the registry. Adding a family of that kind is adding it here.
import { gathers } from './gather.js';
import { generators } from './generators.js';
import { joining } from './joining.js';
import type { Operator } from './operator.js';
import { padding } from './padding.js';
import { scatters } from './scatter.js';
import { shapes } from './shapes.js';
import { views } from './views.js';

export const dataOperators: readonly Operator[] = [
  ...shapes,
  ...views,
  ...joining,
  ...padding,
  ...gathers,
  ...scatters,
  ...generators,
];
