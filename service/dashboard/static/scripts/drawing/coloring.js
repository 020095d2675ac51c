/**
 * Colors of nodes by what they are or cost: a fixed set of hues for operators, one scale from light to strong for
 * amounts.
 * @module drawing/coloring
 */

/** @typedef {import("./visible.js").VisibleNode} VisibleNode */
/** @typedef {import("./visible.js").Drawing} Drawing */

export const COLORINGS = { kind: "what a block is", operator: "operator", flops: "work", bytes: "bytes moved" };

/** Hues that can be told from one another by most eyes (Okabe and Ito, 2008), as light fills. */
const HUES = ["#9ad0f5", "#f5c77e", "#8fd9bb", "#f2e58a", "#b8c4f0", "#f0b094", "#e3b8d8", "#c9d1c0"];
const LEAST_LIGHT = 38; // % of lightness, of the largest amount
const MOST_LIGHT = 96;

/**
 * The fill of every node; null where the color is that of its kind.
 * @param {keyof typeof COLORINGS} by @param {Drawing} drawing @param {VisibleNode[]} nodes
 * @returns {{fills: (string | null)[], legend: {fill: string, text: string}[], most: number}}
 */
export function coloring(by, drawing, nodes) {
  if (by === "operator") return byOperator(drawing, nodes);
  if (by === "flops" || by === "bytes") {
    const most = nodes.reduce((found, node) => Math.max(found, node[by]), 0);
    const fills = nodes.map((node) => (node[by] > 0 ? amountFill(node[by] / most) : null));
    return { fills, legend: [], most };
  }
  return { fills: nodes.map(() => null), legend: [], most: 0 };
}

/** @param {number} share of the largest; small ones differ, too: the scale is that of square roots */
export function amountFill(share) {
  return `hsl(24 85% ${MOST_LIGHT - (MOST_LIGHT - LEAST_LIGHT) * Math.sqrt(share)}%)`;
}

/** The most frequent operators have hues of their own. @param {Drawing} drawing @param {VisibleNode[]} nodes */
function byOperator({ operators, blocks }, nodes) {
  const counts = new Map();
  for (const { block } of nodes) {
    if (block >= 0 && blocks.kind[block] !== "parameter")
      counts.set(blocks.operator[block], (counts.get(blocks.operator[block]) ?? 0) + 1);
  }
  const named = [...counts].sort((a, b) => b[1] - a[1] || a[0] - b[0]).slice(0, HUES.length);
  const hueOf = new Map(named.map(([operator], k) => [operator, HUES[k]]));
  return {
    fills: nodes.map(({ block }) => (block < 0 ? null : (hueOf.get(blocks.operator[block]) ?? null))),
    legend: named.map(([operator, count]) => ({ fill: hueOf.get(operator), text: `${operators[operator]} (${count})` })),
    most: 0,
  };
}
