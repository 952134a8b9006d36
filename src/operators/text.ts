// String operators: StringConcat, StringSplit, StringNormalizer, RegexFullMatch. String tensors live outside WebAssembly
// memory, so there are references only. LabelEncoder is in labels.ts; TfIdfVectorizer is not here.
import { formatShape } from '../tensor/errors.js';
import { sizeOf } from '../tensor/shape.js';
import { Tensor } from '../tensor/tensor.js';
import { int, required, string, strings } from './attributes.js';
import { type Operator, operator, type ReferenceCall } from './operator.js';
import { outputOf } from './pick.js';
import { broadcastOf, forEachBroadcast } from './reference.js';
import { fullMatcher } from './regular-expression.js';
import { PatternError } from './regular-expression-parser.js';

function stringsOf(call: ReferenceCall<unknown>, i: number): Tensor<'string'> {
  const t = call.tensor(i);
  if (t.type !== 'string') throw call.error(`input ${i} must be a string tensor, got ${t.type}`);
  return t as Tensor<'string'>;
}

const StringConcat = operator({
  name: 'StringConcat',
  since: [20],
  inputs: [2, 2],
  attributes: {},
  infer: (call) => [outputOf(call, 'string', broadcastOf(call))],
  reference(call) {
    const [a, b] = [stringsOf(call, 0), stringsOf(call, 1)];
    const dims = broadcastOf(call);
    outputOf(call, 'string', dims);
    const out = new Array<string>(sizeOf(dims));
    forEachBroadcast([a, b], dims, ([i, j], k) => {
      out[k] = a.data[i!]! + b.data[j!]!;
    });
    return [new Tensor('string', out, dims)];
  },
});

/** Splits at most `most` times; an empty delimiter splits at runs of whitespace, as Python does. */
function split(text: string, delimiter: string, most: number): string[] {
  const parts: string[] = [];
  let rest = delimiter === '' ? text.trimStart() : text;
  while (parts.length < most) {
    const found = delimiter === '' ? rest.search(/\s/) : rest.indexOf(delimiter);
    if (found < 0) break;
    parts.push(rest.slice(0, found));
    rest = rest.slice(found + delimiter.length);
    if (delimiter === '') rest = rest.trimStart();
  }
  if (delimiter !== '' || rest !== '') parts.push(delimiter === '' && parts.length < most ? rest.trimEnd() : rest);
  return parts;
}

const StringSplit = operator({
  name: 'StringSplit',
  since: [20],
  inputs: [1, 1],
  attributes: { delimiter: string(''), maxsplit: int() },
  infer: () => 'dynamic',
  reference(call) {
    const t = stringsOf(call, 0);
    const { delimiter, maxsplit } = call.attributes;
    const most = maxsplit === undefined || maxsplit < 0 ? Number.POSITIVE_INFINITY : maxsplit;
    const lists = t.data.map((s) => (s === '' && delimiter !== '' ? [''] : split(s, delimiter, most)));
    const longest = Math.max(0, ...lists.map((l) => l.length));
    const dims = [...t.dims, longest];
    outputOf(call, 'string', dims);
    const padded = lists.flatMap((l) => [...l, ...new Array<string>(longest - l.length).fill('')]);
    return [
      new Tensor('string', padded, dims),
      new Tensor(
        'int64',
        lists.map((l) => l.length),
        t.dims,
      ),
    ];
  },
});

const StringNormalizer = operator({
  name: 'StringNormalizer',
  since: [10],
  inputs: [1, 1],
  attributes: {
    case_change_action: string('NONE'),
    is_case_sensitive: int(0),
    locale: string('en_US'),
    stopwords: strings([]),
  },
  infer: () => 'dynamic',
  reference(call) {
    const t = stringsOf(call, 0);
    const { case_change_action: action, is_case_sensitive, locale, stopwords } = call.attributes;
    if (t.dims.length > 2 || t.dims.length === 0 || (t.dims.length === 2 && t.dims[0] !== 1))
      throw call.error(`expected a shape [C] or [1, C], got ${formatShape(t.dims)}`);
    if (!['NONE', 'LOWER', 'UPPER'].includes(action))
      throw call.error(`case_change_action must be NONE, LOWER or UPPER, got '${action}'`);
    const tag = locale.split('.')[0]!.replace('_', '-');
    const lower = (s: string) => s.toLocaleLowerCase(tag);
    const fold = (s: string) => (is_case_sensitive !== 0 ? s : lower(s));
    const stop = new Set(stopwords.map(fold));
    const kept = t.data
      .filter((s) => !stop.has(fold(s)))
      .map((s) => (action === 'LOWER' ? lower(s) : action === 'UPPER' ? s.toLocaleUpperCase(tag) : s));
    // A tensor of no strings is not allowed: one empty string stands for it.
    const out = kept.length === 0 ? [''] : kept;
    return [new Tensor('string', out, t.dims.length === 2 ? [1, out.length] : [out.length])];
  },
});

const RegexFullMatch = operator({
  name: 'RegexFullMatch',
  since: [20],
  inputs: [1, 1],
  attributes: { pattern: required(string()) },
  infer: (call) => [{ type: 'bool', dims: call.input(0).dims }],
  reference(call) {
    const t = stringsOf(call, 0);
    const { pattern } = call.attributes;
    let matches: (text: string) => boolean;
    try {
      matches = fullMatcher(pattern);
    } catch (cause) {
      if (!(cause instanceof PatternError)) throw cause;
      throw call.error(`pattern '${pattern}' is not a regular expression: ${cause.message}`);
    }
    return [
      new Tensor(
        'bool',
        Uint8Array.from(t.data, (s) => (matches(s) ? 1 : 0)),
        t.dims,
      ),
    ];
  },
});

export const text: readonly Operator[] = [StringConcat, StringSplit, StringNormalizer, RegexFullMatch];
