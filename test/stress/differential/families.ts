// All generators by operator.

import { contrib } from './contrib.js';
import { control } from './control.js';
import { elementwise } from './elementwise.js';
import type { Family } from './generator.js';
import { indexing } from './indexing.js';
import { linear } from './linear.js';
import { movement } from './movement.js';
import { quantized } from './quantized.js';
import { recurrentFamily } from './recurrent.js';
import { reductions } from './reductions.js';
import { sampling } from './sampling.js';

export const families: Family = {
  ...elementwise,
  ...movement,
  ...indexing,
  ...reductions,
  ...linear,
  ...recurrentFamily,
  ...quantized,
  ...sampling,
  ...control,
  ...contrib,
};
