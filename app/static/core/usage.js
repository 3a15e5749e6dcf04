/** Sums of the API's usage objects, whose `input_tokens` exclude cached ones. */

/** All input tokens, cached or not. */
export const promptTokens = (usage) => usage.input_tokens + usage.cache_read_tokens + usage.cache_write_tokens;

export const totalTokens = (usage) => promptTokens(usage) + usage.output_tokens;

/** The share of input tokens read from the provider's cache, 0 to 1; null without input. */
export function cacheReuse(usage) {
  const read = promptTokens(usage);
  return read === 0 ? null : usage.cache_read_tokens / read;
}

/** The sum of usages; its cost is null if one of theirs is unknown, as in the server's sums. */
export function sumUsage(usages) {
  const sum = { ...NOTHING };
  for (const usage of usages) {
    for (const name of TOKENS) sum[name] += usage[name];
    const isKnown = sum.cost_usd !== null && usage.cost_usd !== null;
    sum.cost_usd = isKnown ? sum.cost_usd + usage.cost_usd : null;
  }
  return sum;
}

const TOKENS = ["input_tokens", "cache_read_tokens", "cache_write_tokens", "output_tokens", "reasoning_tokens"];
const NOTHING = { ...Object.fromEntries(TOKENS.map((name) => [name, 0])), cost_usd: 0 };
