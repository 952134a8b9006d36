// Where onnxruntime-web 1.30 differs from the specification, or the specification leaves it open: what it says there is not
// compared, and why. A case is still run by the reference and the kernels.
import { Tensor } from '../../../src/tensor/tensor.js';
import type { Case } from './generator.js';

function integers(c: Case, name: string): readonly number[] | undefined {
  const a = c.attributes?.[name];
  return a?.kind === 'ints' ? a.value : a?.kind === 'int' ? [a.value] : undefined;
}

function text(c: Case, name: string): string | undefined {
  const a = c.attributes?.[name];
  return a?.kind === 'string' ? a.value : undefined;
}

/** Whether an axis of Resize, other than those that are not resized at all, keeps its size by a scale or size. */
function keepsAnAxis(c: Case): boolean {
  const [x, roi, scales, sizes] = c.inputs as readonly (Tensor | undefined)[];
  const axes = integers(c, 'axes') ?? x?.dims.map((_, i) => i) ?? [];
  const crop = Array.from((roi?.data ?? []) as ArrayLike<number>);
  return axes.some((axis, i) => {
    const cropped = crop[i] !== 0 || crop[i + axes.length] !== 1;
    const same =
      scales !== undefined && scales.size > 0 ? scales.data[i] === 1 : Number(sizes?.data[i]) === x?.dims.at(axis);
    return cropped && same;
  });
}

/** Whether an axis comes out as long as it was though its scale is not 1. */
function scaledToItself(c: Case): boolean {
  const [x, , scales, sizes] = c.inputs as readonly (Tensor | undefined)[];
  if (x === undefined || (sizes !== undefined && text(c, 'keep_aspect_ratio_policy') !== undefined)) return true;
  const axes = integers(c, 'axes') ?? x.dims.map((_, i) => i);
  return axes.some((axis, i) => {
    const scale = Number(scales?.data[i] ?? 1);
    const n = x.dims.at(axis)!;
    return scale !== 1 && Math.floor(Math.fround(scale * n)) === n;
  });
}

/** Why the oracle's answer to a case is not asked, or undefined. */
export function exceptions(c: Case): string | undefined {
  const [x, second] = c.inputs as readonly (Tensor | undefined)[];
  const some = (name: string, test: (v: number) => boolean): boolean => integers(c, name)?.some(test) === true;
  switch (c.op) {
    case 'Gather':
      return x?.type === 'string' ? 'strings beyond the first of a run come empty' : undefined;
    case 'OneHot':
      return x?.type === 'float32' ? 'indices are to be cast to int64, and are not' : undefined;
    case 'NonZero':
      return x?.dims.length === 0 ? 'a scalar gives [0, N] by the specification' : undefined;
    case 'Gemm':
      return x?.size === 0 ? 'beta is left out when K is 0' : undefined;
    case 'Slice':
      return 'an end of INT_MAX with a negative step means the front there';
    case 'Clip':
      return 'an absent bound clips infinities';
    case 'Cast':
      return 'float64 is printed with few digits';
    case 'Dropout':
      return c.opset < 12 ? 'the mask of the versions without training is open' : undefined;
    case 'MeanVarianceNormalization':
      return 'no epsilon: variance 0 gives NaN';
    case 'ConvTranspose':
      return text(c, 'auto_pad')?.startsWith('SAME') ? 'an output beyond the kernel is cut short' : undefined;
    case 'StringNormalizer':
      return text(c, 'case_change_action') === 'UPPER' ? 'ß has no capital of two letters there' : undefined;
    case 'Sign':
      return x?.type === 'float16' ? 'NaN gives 0' : undefined;
    case 'MaxPool':
    case 'AveragePool':
    case 'LpPool':
      return text(c, 'auto_pad')?.startsWith('SAME') && some('dilations', (d) => d > 1)
        ? 'SAME forgets dilations'
        : undefined;
    case 'Resize':
    case 'Upsample':
      if (x?.type !== 'float32' && text(c, 'mode') !== 'nearest')
        return 'integers are cut off after float32 arithmetic';
      if (text(c, 'coordinate_transformation_mode') === 'tf_crop_and_resize' && keepsAnAxis(c))
        return 'an axis that keeps its size is not cropped';
      if (scaledToItself(c))
        return 'an axis that keeps its size is not resampled with antialias, and nothing is if none changes';
      // onnx-cases' resize_downsample_scales_*_align_corners say the same as Skep.
      if (text(c, 'coordinate_transformation_mode') === 'align_corners')
        return 'the resized length is rounded down first';
      return undefined;
    case 'GridSample':
      if (/cubic/.test(text(c, 'mode') ?? '')) return 'coordinates are not padded before cubic taps are taken';
      return undefined;
    case 'AffineGrid':
      return second instanceof Tensor &&
        Array.from(second.data as BigInt64Array)
          .slice(2)
          .includes(1n)
        ? 'align_corners of one pixel is open'
        : undefined;
    case 'Col2Im':
      return some('dilations', (d) => d > 1) ? 'dilation over several axes reads other elements' : undefined;
    case 'HannWindow':
    case 'HammingWindow':
    case 'BlackmanWindow':
      return x !== undefined && Number(x.data[0]) === 1 ? 'a window of one is 0/0 by the formula' : undefined;
    case 'StringSplit':
      return 'an empty string with a delimiter has one part, not none';
    case 'Attention': {
      const cap = c.attributes?.softcap;
      const capped = c.domain === '' && cap?.kind === 'float' && cap.value !== 0;
      return capped ? 'softcap after the mask, as the specification had it at first' : undefined;
    }
    case 'Bernoulli':
      return 'the chance of 1 is 1 − p there';
    default:
      return c.op.startsWith('Reduce') && x?.size === 0 ? 'axes of empty tensors are mistaken' : undefined;
  }
}
