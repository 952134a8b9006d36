// The matcher of RegexFullMatch against JavaScript's own RegExp, where the two syntaxes mean the same, and where they do not.
import fc from 'fast-check';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { fullMatcher } from '../../src/operators/regular-expression.js';
import { PatternError } from '../../src/operators/regular-expression-parser.js';

const atom = fc.constantFrom(
  'a',
  'b',
  '1',
  '_',
  '\\n',
  '[ab]',
  '[^a]',
  '[a-c1]',
  '\\d',
  '\\w',
  '\\W',
  '\\D',
  '\\b',
  '^',
  '$',
  '\\x61',
);
const pattern = fc.letrec<{ any: string; piece: string }>((tie) => ({
  piece: fc.oneof(
    { depthSize: 'small' },
    atom,
    fc
      .tuple(tie('any'), fc.constantFrom('', '*', '+', '?', '*?', '{2}', '{0,2}', '{1,}'))
      .map(([p, r]) => `(?:${p})${r}`),
  ),
  any: fc.oneof(
    { depthSize: 'small' },
    fc.array(tie('piece'), { maxLength: 4 }).map((p) => p.join('')),
    fc.tuple(tie('any'), tie('any')).map(([a, b]) => `${a}|${b}`),
  ),
})).any;
const text = fc
  .array(fc.constantFrom('a', 'b', 'c', '1', '_', '\n', ' ', 'A', '😀'), { maxLength: 8 })
  .map((c) => c.join(''));

test('what JavaScript matches, it matches, and nothing else', () => {
  fc.assert(
    fc.property(
      pattern,
      fc.array(text, { minLength: 4, maxLength: 4 }),
      fc.constantFrom('', 'i', 'm'),
      (p, texts, f) => {
        const matches = fullMatcher(f === '' ? p : `(?${f})${p}`);
        const native = new RegExp(`^(?:${p})$`, `u${f}`);
        // With m, the ends of `^(?:…)$` would be those of lines.
        const whole = (t: string) => (f === 'm' ? native.exec(t)?.[0] === t : native.test(t));
        if (f === 'm' && /[|?]/.test(p)) return; // the first match need not be the whole one
        for (const t of texts) assert.is(matches(t), whole(t), JSON.stringify([p, f, t]));
      },
    ),
    { numRuns: 2000 },
  );
});

test('patterns that make others backtrack for ever take no time', () => {
  const long = 'a'.repeat(20_000);
  for (const p of ['(a+)+b', '(a|a)*b', '(a|aa)+b', '(a*)*b', '([a-z]+)*=', '(?:a?){50}a{50}b', '(x+x+)+y'])
    assert.is(fullMatcher(p)(long), false);
  assert.is(fullMatcher('(a*)*')(long), true);
});

test('syntax of RE2 that is not JavaScript’s', () => {
  const yes: [string, string][] = [
    ['(?i)straße', 'STRAßE'],
    ['(?i:a)b', 'Ab'],
    ['(?P<name>a)', 'a'],
    ['\\Aab\\z', 'ab'],
    ['\\Q(.*)\\E', '(.*)'],
    ['[[:alpha:]_]+', 'ab_'],
    ['\\x{1F600}', '😀'],
    ['\\pL+', 'äß'],
    ['\\p{Greek}+', 'λόγος'],
    ['\\PL', '1'],
    ['[]a]+', 'a]'],
    ['(?s).', '\n'],
    ['.', '\r'],
    ['(?U)a+', 'aaa'],
    ['\\0101', '\u00081'],
    ['a{,2}', 'a{,2}'],
    ['', ''],
  ];
  for (const [p, t] of yes) assert.ok(fullMatcher(p)(t), `${p} matches ${t}`);
  const no: [string, string][] = [
    ['(?i:a)b', 'aB'],
    ['.', '\n'],
    ['\\w', 'ä'],
    ['(?i)\\W', 's'],
    ['\\s', '\u000b'],
    ['\\d', '٣'],
    ['a', 'ab'],
  ];
  for (const [p, t] of no) assert.not(fullMatcher(p)(t), `${p} does not match ${t}`);
});

test('what is no pattern is said in words', () => {
  const cases: [string, RegExp][] = [
    ['(a)\\1', /back-references/],
    ['(?=a)', /look-around/],
    ['(?<!a)', /look-around/],
    ['(', /'\(' without/],
    ['a)', /'\)' without/],
    ['[a', /too early/],
    ['[b-a]', /out of order/],
    ['*', /nothing to repeat/],
    ['a**', /repetition of a repetition/],
    ['a{1001}', /at most 1000/],
    ['((a{1000}){1000}){1000}', /more than 20000/],
    ['((((){1000}){1000}){1000}){1000}', /more than 20000/],
    ['('.repeat(10_000), /groups in each other/],
    ['\\p{Klingon}', /no Unicode property/],
    ['\\x{110000}', /no character/],
    ['\\C', /not supported/],
    ['\\', /too early/],
  ];
  for (const [p, say] of cases)
    assert.throws(
      () => fullMatcher(p),
      (e: unknown) => e instanceof PatternError && say.test(e.message),
    );
});

test.run();
