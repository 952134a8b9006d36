// All generators by operator; those of other domains by `domain:name`.

import { attention } from './attention.js';
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
import { transformers } from './transformers.js';
import { values } from './values.js';

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
  ...attention,
  ...values,
  ...contrib,
  ...transformers,
};
