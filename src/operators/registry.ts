// Every operator by domain and name. A family file exports its operators as a list; adding a family is adding it here.

import type { Node } from '../graph/graph.js';
import { formatNode, SkepError } from '../tensor/errors.js';
import { checkShape } from '../tensor/shape.js';
import { activationOperators } from './activations.js';
import { arithmeticOperators } from './arithmetic.js';
import { attentionOperators } from './attention.js';
import { castOperators } from './cast.js';
import { contribOperators } from './contrib.js';
import { contribAttentionOperators } from './contrib-attention.js';
import { contribEmbeddingOperators } from './contrib-embedding.js';
import { contribGroupedOperators } from './contrib-grouped.js';
import { contribMultiHeadOperators } from './contrib-multi-head.js';
import { contribNormalizationOperators } from './contrib-normalization.js';
import { contribProductOperators } from './contrib-products.js';
import { contribQuantizedOperators } from './contrib-quantized.js';
import { convOperators } from './conv.js';
import { convTransposeOperators } from './conv-transpose.js';
import { dataOperators } from './data.js';
import { deformConvOperators } from './deform-conv.js';
import { fusedOperators } from './fused.js';
import { gemmOperators } from './gemm.js';
import { gruOperators } from './gru.js';
import { identityOperators } from './identity.js';
import { linearAttentionOperators } from './linear-attention.js';
import { logicOperators } from './logic.js';
import { lstmOperators } from './lstm.js';
import { matMulOperators } from './matmul.js';
import { missing } from './missing.js';
import { normalizationOperators } from './normalization.js';
import { olderNormalizationOperators } from './normalization-older.js';
import { callError, type InferCall, type Inferred, type Operator } from './operator.js';
import { poolOperators } from './pool.js';
import { projectionOperators } from './projection.js';
import { quantizeOperators } from './quantize.js';
import { quantizedConvOperators } from './quantized-conv.js';
import { quantizedGemmOperators } from './quantized-gemm.js';
import { quantizedMatMulOperators } from './quantized-matmul.js';
import { reduceOperators } from './reduce.js';
import { rnnOperators } from './rnn.js';
import { rotaryOperators } from './rotary.js';
import { checkTypes } from './signatures.js';
import { softmaxOperators } from './softmax.js';
import { unaryOperators } from './unary.js';

// biome-ignore format: one a line, so that families can be added side by side
const families: readonly (readonly Operator[])[] = [
  convOperators,
  convTransposeOperators,
  dataOperators,
  fusedOperators,
  gemmOperators,
  gruOperators,
  lstmOperators,
  matMulOperators,
  unaryOperators,
  activationOperators,
  arithmeticOperators,
  logicOperators,
  castOperators,
  identityOperators,
  attentionOperators,
  rotaryOperators,
  linearAttentionOperators,
  deformConvOperators,
  contribOperators,
  contribNormalizationOperators,
  contribProductOperators,
  contribEmbeddingOperators,
  contribAttentionOperators,
  contribMultiHeadOperators,
  contribGroupedOperators,
  contribQuantizedOperators,
  quantizeOperators,
  quantizedConvOperators,
  quantizedMatMulOperators,
  quantizedGemmOperators,
  rnnOperators,
  reduceOperators,
  softmaxOperators,
  normalizationOperators,
  olderNormalizationOperators,
  poolOperators,
  projectionOperators,
];

const byName = new Map<string, Operator>();
for (const family of families) for (const op of family) byName.set(`${op.domain}:${op.name}`, strict(op));

/** Operators whose first inputs may be omitted though others follow. */
const leadingOptional = new Set(['Loop', 'Scan']);

/** The operator with its shape rule asked strictly: see `inferStrictly`. */
function strict(op: Operator): Operator {
  return { ...op, infer: (call) => inferStrictly(op, call) };
}

/**
 * What holds for every operator, whoever asks its rule: input types fit the signature, the outputs a node names exist
 * and have shapes that can be, and an error names the node.
 */
function inferStrictly(op: Operator, call: InferCall<never>): Inferred {
  try {
    for (let i = 0; i < op.inputs[0]; i++)
      if (call.node.inputs[i] === '' && op.domain === '' && !leadingOptional.has(op.name))
        throw call.error(`input ${i} is missing`);
    checkTypes(call);
    const outputs = op.infer(call);
    if (outputs === 'dynamic') return outputs;
    for (let i = 0; i < call.outputCount; i++)
      if (call.wants(i) && outputs[i] === undefined)
        throw call.error(`it has no output ${i} ('${call.node.outputs[i]}')`);
    outputs.forEach((o, i) => {
      if (o !== undefined) checkShape(o.dims, `shape of output ${i}`);
    });
    return outputs;
  } catch (error) {
    const name = formatNode(call.node);
    if (!(error instanceof SkepError) || error.message.startsWith(name)) throw error;
    throw new SkepError(error.code, `${name}: ${error.message}`, { cause: error });
  }
}

/** All operators. */
export function allOperators(): Operator[] {
  return [...byName.values()];
}

/** The operator of a node. Throws UNSUPPORTED with the node, the version and what would work. */
export function findOperator(node: Node): Operator {
  const found = byName.get(`${node.domain}:${node.op}`);
  if (found === undefined) throw callError(node, missing(node, allOperators()), 'UNSUPPORTED');
  if (node.opset < found.since[0]!)
    throw callError(
      node,
      `version ${node.opset} is not supported; versions ${found.since[0]} and later are`,
      'UNSUPPORTED',
    );
  const { ended } = found;
  if (ended !== undefined && node.opset >= ended.version)
    throw callError(
      node,
      `it ended with version ${ended.version - 1}, and the model is of version ${node.opset}: ${ended.use} replaces it`,
      'UNSUPPORTED',
    );
  return found;
}
