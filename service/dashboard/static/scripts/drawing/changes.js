/**
 * What rewriting changed, block by block and what is alike together.
 * @module drawing/changes
 */

import { commonName, nameOfAlike, nameWithoutNumbers } from "../site-names.js";

/** @typedef {import("./sides.js").Changes} Changes */
/** @typedef {import("./sides.js").Change} Change */
/** @typedef {Map<number, Map<number, string>>} Reads of each row the rows that it reads, with their names */
/** Blocks that changed alike: the first row, how many there are, and texts before and after.
 * @typedef {{row: number, count: number, name: string, names: string[], change: Change, operator: [string, string], result: [string, string],
 *   what: string[], rules: string[]}} FoldedChange */

/** What attributes are, in words. @type {Record<string, string>} */
export const ATTRIBUTES = { expr: "computes", labels: "indices of inputs", dims: "sizes" };

const SHORT = 60; // letters of inputs that are named
const ORDER = { changed: 0, made: 1, removed: 2, kept: 3 };

/** The operator and the result of a row before and after, empty where it is not. @param {Changes} changes @param {number} row
 * @returns {{site: [string, string], operator: [string, string], result: [string, string]}} */
function textsOf({ before, after, blocks }, row) {
  const [old, now] = [blocks.before[row], blocks.after[row]];
  const both = (/** @type {(side: any, block: number) => string} */ read) =>
    /** @type {[string, string]} */ ([old < 0 ? "" : read(before, old), now < 0 ? "" : read(after, now)]);
  return {
    site: both((side, k) => side.blocks.site[k]),
    operator: both((side, k) => side.operators[side.blocks.operator[k]]),
    result: both((side, k) => side.types[side.blocks.type[k]]),
  };
}

/** The changes that are alike together, those of most blocks first within each kind. @param {Changes} changes @returns {FoldedChange[]} */
export function foldedChanges(changes) {
  const { change, what, rules } = changes.blocks;
  const reads = readsOf(changes);
  /** @type {Map<string, FoldedChange>} */
  const found = new Map();
  for (let row = 0; row < change.length; row += 1) {
    if (change[row] === "kept") continue;
    const { site, operator, result } = textsOf(changes, row);
    const names = rules[row].map((rule) => changes.rules[rule]);
    const alike = nameWithoutNumbers(site[0] || site[1]);
    const texts = what[row].map((one) => whatText(changes, reads, row, one));
    const key = JSON.stringify([change[row], alike, operator, result, what[row], names]);
    const known = found.get(key);
    if (known) {
      known.count += 1;
      known.names.push(site[0] || site[1]);
      known.what = known.what.map((text, k) => (text === texts[k] ? text : what[row][k]));
    } else {
      const name = site[0] || site[1];
      found.set(key, { row, count: 1, name, names: [name], change: change[row], operator, result, what: texts, rules: names });
    }
  }
  const uses = new Map();
  for (const { name } of found.values()) uses.set(nameWithoutNumbers(name), (uses.get(nameWithoutNumbers(name)) ?? 0) + 1);
  for (const each of found.values()) each.name = nameOfAlike(each.names, uses.get(nameWithoutNumbers(each.name)) > 1);
  return [...found.values()].sort((a, b) => ORDER[a.change] - ORDER[b.change] || b.count - a.count || a.row - b.row);
}

/**
 * What of a block changed, from what to what where that is short; inputs without their numbers, where these are not what changed.
 * @param {Changes} changes @param {Reads[]} reads of both sides @param {number} row @param {string} what
 */
function whatText(changes, reads, row, what) {
  const arrow = (/** @type {string} */ was, /** @type {string} */ is) => `${was || "none"} → ${is || "none"}`;
  const { gone, come } = inputsOf(changes, row, reads);
  const common = [gone, come].map((names) => names.map((name) => commonName(name)).join(", "));
  const [was, is] = common[0] === common[1] ? [gone, come].map((names) => names.join(", ")) : common;
  if (what === "inputs" && gone.length + come.length && was.length + is.length <= SHORT) return `inputs: ${arrow(was, is)}`;
  const found = what === "attributes" ? changes.blocks.attributes[row].map(([name, old, now]) => `${ATTRIBUTES[name] ?? name}: ${arrow(old, now)}`) : [];
  return found.length ? found.join("; ") : what;
}

/**
 * The names of what a row reads on one side only.
 * @param {Changes} changes @param {number} row @param {Reads[]} [reads] of both sides, where they are known
 */
export function inputsOf(changes, row, reads = readsOf(changes)) {
  const none = /** @type {Map<number, string>} */ (new Map());
  const [was, is] = reads.map((one) => one.get(row) ?? none);
  if (changes.blocks.before[row] < 0 || changes.blocks.after[row] < 0) return { gone: [], come: [] };
  return {
    gone: [...was].filter(([of]) => !is.has(of)).map(([, name]) => name),
    come: [...is].filter(([of]) => !was.has(of)).map(([, name]) => name),
  };
}

/** Rows that each row reads, with their names, on both sides. @param {Changes} changes @returns {Reads[]} */
function readsOf({ before, after, blocks }) {
  return [[before, blocks.before], [after, blocks.after]].map(([side, column]) => {
    const rows = new Map(/** @type {number[]} */ (column).map((block, row) => [block, row]));
    const { edges, blocks: own } = /** @type {any} */ (side);
    /** @type {Reads} */
    const found = new Map();
    edges.to.forEach((/** @type {number} */ to, /** @type {number} */ k) => {
      const row = rows.get(to) ?? -1;
      if (!found.has(row)) found.set(row, new Map());
      found.get(row)?.set(rows.get(edges.from[k]) ?? -1, own.site[edges.from[k]]);
    });
    return found;
  });
}

/** Every block that changed as a row of a file, the first row has the names. @param {Changes} changes @returns {unknown[][]} */
export function changeRows(changes) {
  const { change, what, rules } = changes.blocks;
  const heads = ["change", "block before", "block after", "operator before", "operator after"];
  const rows = change.flatMap((kind, row) => {
    if (kind === "kept") return [];
    const { site, operator, result } = textsOf(changes, row);
    return [[kind, ...site, ...operator, ...result, what[row].join(" "), rules[row].map((rule) => changes.rules[rule]).join(" ")]];
  });
  return [[...heads, "result before", "result after", "what changed", "rules"], ...rows];
}
