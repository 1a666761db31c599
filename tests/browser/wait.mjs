// Waiting for something to become so, and measures of what was waited for.

import { setTimeout as pause } from "node:timers/promises";

/** How long a shared machine may take for what takes a fraction of a second. */
export const PATIENCE_MS = 20000;

/** Looks until there is something to see; it is returned. `what` completes the sentence "it did not come to be that …". */
export async function until(what, look, { patience = PATIENCE_MS, last = () => "" } = {}) {
  for (const end = Date.now() + patience; ;) {
    const seen = await look();
    if (seen) return seen;
    if (Date.now() > end) throw new Error(`it did not come to be within ${patience} ms that ${what}. ${await last()}`.trim());
    await pause(25);
  }
}

/** Lets go of what takes too long. */
export async function within(ms, what, work) {
  const timer = new AbortController();
  const late = pause(ms, null, { signal: timer.signal }).then(() => { throw new Error(`${what} took more than ${ms} ms`); });
  try {
    return await Promise.race([work, late]);
  } finally {
    timer.abort();
    late.catch(() => {});
  }
}

export function median(numbers) {
  const sorted = numbers.slice().sort((a, b) => a - b);
  return sorted[Math.floor(sorted.length / 2)];
}
