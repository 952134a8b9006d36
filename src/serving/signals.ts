// Waiting for AbortSignals. One signal often ends many requests (a server's shutdown, a page that closes): each signal gets
// one listener of ours, whatever the number of requests that wait for it, so that Node sees no leak where there is none.

const waiting = new WeakMap<AbortSignal, { readonly callbacks: Set<() => void>; readonly listener: () => void }>();

/** Calls `callback` once when the signal aborts. Gives a function that ends the waiting. */
export function onAbort(signal: AbortSignal, callback: () => void): () => void {
  let entry = waiting.get(signal);
  if (entry === undefined) {
    const callbacks = new Set<() => void>();
    const listener = () => {
      waiting.delete(signal);
      for (const f of callbacks) f();
    };
    entry = { callbacks, listener };
    waiting.set(signal, entry);
    signal.addEventListener('abort', listener, { once: true });
  }
  // A function of its own: the same callback may wait twice.
  const own = () => callback();
  const { callbacks, listener } = entry;
  callbacks.add(own);
  return () => {
    callbacks.delete(own);
    if (callbacks.size > 0 || waiting.get(signal)?.callbacks !== callbacks) return;
    waiting.delete(signal);
    signal.removeEventListener('abort', listener);
  };
}
