/**
 * What rewriting changed, block by block and equal layers together.
 * @module drawing/changes
 */

import { nameWithoutNumbers } from "../site-names.js";

/** @typedef {import("./sides.js").Changes} Changes */
/** @typedef {import("./sides.js").Change} Change */
/** Blocks that changed alike: the first row, how many there are, and texts before and after.
 * @typedef {{row: number, count: number, name: string, change: Change, operator: [string, string], result: [string, string],
 *   what: string[], rules: string[]}} FoldedChange */

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

/** The changes of equal layers together, those of most blocks first within each kind. @param {Changes} changes @returns {FoldedChange[]} */
export function foldedChanges(changes) {
  const { change, what, rules } = changes.blocks;
  /** @type {Map<string, FoldedChange>} */
  const found = new Map();
  for (let row = 0; row < change.length; row += 1) {
    if (change[row] === "kept") continue;
    const { site, operator, result } = textsOf(changes, row);
    const names = rules[row].map((rule) => changes.rules[rule]);
    const alike = nameWithoutNumbers(site[0] || site[1]);
    const key = JSON.stringify([change[row], alike, operator, result, what[row], names]);
    const known = found.get(key);
    if (known) {
      known.count += 1;
      known.name = alike;
    } else {
      const name = site[0] || site[1];
      found.set(key, { row, count: 1, name, change: change[row], operator, result, what: what[row], rules: names });
    }
  }
  return [...found.values()].sort((a, b) => ORDER[a.change] - ORDER[b.change] || b.count - a.count || a.row - b.row);
}

/** The names of what a row reads on one side only. @param {Changes} changes @param {number} row */
export function inputsOf({ before, after, blocks }, row) {
  const [was, is] = [readsOf(before, blocks.before, row), readsOf(after, blocks.after, row)];
  if (blocks.before[row] < 0 || blocks.after[row] < 0) return { gone: [], come: [] };
  return {
    gone: [...was].filter(([of]) => !is.has(of)).map(([, name]) => name),
    come: [...is].filter(([of]) => !was.has(of)).map(([, name]) => name),
  };
}

/** Rows that a row reads, with their names. @param {any} side @param {number[]} column @param {number} row @returns {Map<number, string>} */
function readsOf(side, column, row) {
  const found = new Map();
  side.edges.to.forEach((/** @type {number} */ to, /** @type {number} */ k) => {
    const from = side.edges.from[k];
    if (to === column[row]) found.set(column.indexOf(from), side.blocks.site[from]);
  });
  return found;
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
