/**
 * Colors of nodes by what they are or cost: a fixed set of hues for operators, one scale from light to strong for
 * amounts.
 * @module drawing/coloring
 */

import { plain } from "../units.js";

/** @typedef {import("./visible.js").VisibleNode} VisibleNode */
/** @typedef {import("./visible.js").Drawing} Drawing */

export const COLORINGS = {
  kind: "what a block is",
  operator: "operator",
  flops: "work",
  bytes: "bytes moved",
  seconds: "time",
  energy: "energy",
  received: "bytes received",
  memory: "results on a device",
  split: "mesh axes",
  stage: "devices, by stage",
};

/** Amounts with their units. */
export const UNITS = { flops: "flop", bytes: "B", seconds: "s", energy: "J", received: "B", memory: "B" };

/** Hues that can be told from one another by most eyes (Okabe and Ito, 2008), as light fills. */
const HUES = ["#9ad0f5", "#f5c77e", "#8fd9bb", "#f2e58a", "#b8c4f0", "#f0b094", "#e3b8d8", "#c9d1c0"];
const OTHERS = "#aab0b8"; // all names that have no hue of their own
const AMOUNT = "265 65%"; // hue and saturation, other than those of edges on which something moves
const DARK = 60.5; // % of lightness, below which text is light
const LEAST_LIGHT = 38; // % of lightness, of the largest amount
const MOST_LIGHT = 96;

/** The colorings of a drawing: of a plan's also those by its sharding. @param {Drawing} drawing @returns {[string, string][]} */
export function coloringsOf({ blocks }) {
  const own = /** @type {Record<string, any>} */ (blocks);
  return Object.entries(COLORINGS).filter(([name]) => name === "kind" || own[name] !== undefined);
}

/**
 * The fill of every node; null where the color is that of its kind.
 * @param {keyof typeof COLORINGS} by @param {Drawing} drawing @param {VisibleNode[]} nodes
 * @returns {{fills: (string | null)[], legend: {fill: string, text: string}[], most: number}}
 */
export function coloring(by, drawing, nodes) {
  if (by === "operator") return byName(operatorsOf(drawing, nodes));
  if (by === "split" || by === "stage") return byName(nodes.map((node) => node[by] || null));
  if (by in UNITS) {
    const amount = /** @type {keyof typeof UNITS} */ (by);
    const most = nodes.reduce((found, node) => Math.max(found, node[amount]), 0);
    const fills = nodes.map((node) => (node[amount] > 0 ? amountFill(node[amount] / most) : null));
    return { fills, legend: [], most };
  }
  return { fills: nodes.map(() => null), legend: [], most: 0 };
}

/** @param {number} share of the largest; small ones differ, too: the scale is that of square roots */
export function amountFill(share) {
  return `hsl(${AMOUNT} ${MOST_LIGHT - (MOST_LIGHT - LEAST_LIGHT) * Math.sqrt(share)}%)`;
}

/** The color of text that is easiest to read on a fill. @param {string} fill */
export function inkOn(fill) {
  const lightness = Number(/([\d.]+)%\)$/.exec(fill)?.[1] ?? 100);
  return lightness < DARK ? "#ffffff" : "#000000";
}

/** The operators of nodes that are blocks. @param {Drawing} drawing @param {VisibleNode[]} nodes @returns {(string | null)[]} */
function operatorsOf({ operators, blocks }, nodes) {
  return nodes.map(({ block }) =>
    block < 0 || blocks.kind[block] === "parameter" ? null : operators[blocks.operator[block]],
  );
}

/** The most frequent names have hues of their own, all others one. @param {(string | null)[]} names of nodes */
function byName(names) {
  const counts = new Map();
  for (const name of names) if (name !== null) counts.set(name, (counts.get(name) ?? 0) + 1);
  const all = [...counts].sort((a, b) => b[1] - a[1] || (a[0] < b[0] ? -1 : 1));
  const named = all.slice(0, all.length > HUES.length + 1 ? HUES.length : HUES.length + 1);
  const hueOf = new Map(named.map(([name], k) => [name, HUES[k] ?? OTHERS]));
  const legend = named.map(([name, count]) => ({ fill: hueOf.get(name), text: `${name} (${count})` }));
  const rest = all.slice(named.length);
  const blocks = rest.reduce((sum, [, count]) => sum + count, 0);
  if (rest.length) legend.push({ fill: OTHERS, text: `${plain(rest.length)} others (${plain(blocks)})` });
  return { fills: names.map((name) => (name === null ? null : (hueOf.get(name) ?? OTHERS))), legend, most: 0 };
}
