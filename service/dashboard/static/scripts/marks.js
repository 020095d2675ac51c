/**
 * The plans that say most about a frontier: the fastest, the smallest, and the knee between all objectives.
 * @module marks
 */

/** @typedef {{count: number, schedule: string, blocks: number[]}} Stages */
/** @typedef {{id: string, plan: string, cost: Record<string, number>, devices: string, micro_batches: number,
 *   recompute: {blocks: number, bytes: number, flops: number} | null, stages: Stages | null,
 *   offload: {values: number, states: number, bytes: number} | null, move_count: number, feasible: boolean,
 *   origin: {kind: string, name: string} | null, verified: any, cost_model: number, cost_model_note: string | null,
 *   time: import("./time-errors.js").Time | null, lead?: import("./time-errors.js").Lead | null}} Plan */

/** @type {Record<string, string>} */
const MEANINGS = {
  fastest: "least time",
  knee: "nearest to the best of all objectives together",
  smallest: "least peak memory",
};

/** Where plans come from, in words, and what that means. @type {Record<string, {word: string, meaning: string}>} */
const ORIGINS = {
  seed: { word: "seed", meaning: "a first plan, placed by propagation or whole on every device" },
  exact: { word: "exact", meaning: "a plan of least weighted cost, by the exact solver" },
  earlier_run: { word: "earlier run", meaning: "a plan of an earlier run, as far as this program and mesh have it" },
  search: { word: "search", meaning: "found by the search, presearch included" },
};

/** The kinds of origins other than the search. */
export const SOURCES = ["seed", "exact", "earlier_run"];

/** The kind of a plan's origin, one of `SOURCES`; empty where the search found the plan, or nothing is known. @param {Plan} plan */
export function sourceOf({ origin }) {
  return origin && SOURCES.includes(origin.kind) ? origin.kind : "";
}

/** The word for a kind of origins. @param {string} kind */
export function originWord(kind) {
  return ORIGINS[kind]?.word ?? kind;
}

/** What a kind of origins means. @param {string} kind */
export function originMeaning(kind) {
  return ORIGINS[kind]?.meaning ?? "";
}

/** Where a plan comes from, such as `seed: data parallel 8`; empty where nothing is known. @param {Plan} plan */
export function originText({ origin }) {
  if (!origin) return "";
  return origin.name ? `${originWord(origin.kind)}: ${origin.name}` : originWord(origin.kind);
}

/** What a mark says. @param {string} mark */
export function meaningOf(mark) {
  return MEANINGS[mark] ?? "the best of this frontier";
}

/** The stages of a plan, such as `4 x 1f1b`; empty for a plan without. @param {Plan} plan */
export function stagesText({ stages }) {
  return stages ? `${stages.count} x ${stages.schedule}` : "";
}

/**
 * Marks by plan id: the best of each objective, and the knee between all.
 * @param {Plan[]} plans
 * @param {{name: string, title: string}[]} objectives
 * @returns {Map<string, string[]>}
 */
export function marksOf(plans, objectives) {
  const marks = new Map();
  if (!plans.length) return marks;
  const add = (/** @type {Plan} */ plan, /** @type {string} */ mark) =>
    marks.set(plan.id, [...(marks.get(plan.id) ?? []), mark]);
  add(least(plans, "time_s", "peak_memory_bytes"), "fastest");
  add(knee(plans, objectives.map(({ name }) => name)), "knee");
  add(least(plans, "peak_memory_bytes", "time_s"), "smallest");
  for (const { name, title } of objectives)
    if (!["time_s", "peak_memory_bytes"].includes(name)) add(least(plans, name, "time_s"), `least ${title}`);
  return marks;
}

/** @param {Plan[]} plans @param {string} first @param {string} second */
function least(plans, first, second) {
  return plans.reduce((best, plan) => {
    const by = plan.cost[first] - best.cost[first] || plan.cost[second] - best.cost[second];
    return by < 0 || (by === 0 && plan.id < best.id) ? plan : best;
  });
}

/**
 * The plan nearest to the ideal point once every objective is scaled to [0, 1] on a logarithmic scale.
 * @param {Plan[]} plans @param {string[]} objectives
 */
function knee(plans, objectives) {
  const distances = plans.map(() => 0);
  for (const name of objectives) {
    const logs = plans.map((plan) => Math.log(plan.cost[name] + 1e-9));
    const low = logs.reduce((a, b) => Math.min(a, b));
    const spread = Math.max(logs.reduce((a, b) => Math.max(a, b)) - low, 1e-12);
    logs.forEach((log, k) => (distances[k] += ((log - low) / spread) ** 2));
  }
  return plans[distances.reduce((best, distance, k) => (distance < distances[best] ? k : best), 0)];
}
