// What to say of an operator that is not there: what it may have been meant to be, where it exists, and how the model can
// be exported otherwise.
import type { Node } from '../graph/graph.js';
import { nearest } from '../tensor/words.js';
import type { Operator } from './operator.js';

/** By domain: where its operators come from, and what to do. */
const domains: Readonly<Record<string, string>> = {
  'org.pytorch.aten': 'the exporter left a PyTorch operator in: use torch.onnx.export(…, dynamo=True)',
  aten: 'the exporter left a PyTorch operator in: use torch.onnx.export(…, dynamo=True)',
  prim: 'the exporter left a PyTorch operator in: use torch.onnx.export(…, dynamo=True)',
  'com.microsoft':
    "onnxruntime's optimizer makes such operators: give the model as it was exported, or optimize it at level 'basic'",
  'com.microsoft.nchwc':
    "onnxruntime saved the model for one kind of processor: save it optimized at level 'extended' or lower",
  'ai.onnx.contrib': 'it is of onnxruntime-extensions: export the model without its pre- and post-processing',
  'ai.onnx.ml': 'classical machine learning is left out but for what docs/operators.md lists',
  'ai.onnx.training': 'training is left out: export the model for inference',
  'ai.onnx.preview.training': 'training is left out: export the model for inference',
};

const domainOf = (o: { readonly domain: string }) => o.domain || 'ai.onnx';

/** Words for a node whose operator `all` does not have. */
export function missing(node: Node, all: readonly Operator[]): string {
  const said = `operator of domain '${domainOf(node)}' version ${node.opset} is not supported`;
  const elsewhere = all.filter((o) => o.name === node.op && o.domain !== 'skep');
  if (elsewhere.length > 0) return `${said}; ${node.op} of domain '${elsewhere.map(domainOf).join("' and '")}' is`;
  const near = nearest(
    node.op,
    all.filter((o) => o.domain === node.domain).map((o) => o.name),
  );
  if (near !== undefined) return `${said}; did you mean ${near}?`;
  const hint = Object.hasOwn(domains, node.domain) ? domains[node.domain] : undefined;
  if (hint !== undefined) return `${said}: ${hint}`;
  if (node.domain === '')
    return `${said}; export the model so that it is made of others (docs/operators.md lists those there are)`;
  return `${said}; if it is a function, save the model with its functions`;
}
