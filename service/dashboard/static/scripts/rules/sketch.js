/**
 * A small program before and after a move as SVG elements, with the blocks that change set off. What stays is at the same
 * place in both: the blocks of both are placed together.
 * @module rules/sketch
 */

import { layered } from "../drawing/layered.js";

/** @typedef {{operators: string[], types: string[], blocks: {site: string[], operator: number[], kind: string[], type: number[]},
 *   edges: {from: number[], to: number[]}, changed: number[], cost: {blocks: number, flops: number, bytes: number}}} Side */

/** @typedef {{layout: import("../drawing/layered.js").Layered, rowsOf: Int32Array[],
 *   edgeOf: (from: number, to: number) => number}} Places the row of each block by side, the number of an edge between rows */

const SPACE = "http://www.w3.org/2000/svg";
const LETTER = 6.7; // px of the monospaced font
const LONGEST = 30; // letters of a line
const HEIGHT = 40;
const PADDING = 10;
const MARGIN = 6;
const BOUNDARY = ["source", "sink"];

/**
 * The places of all blocks and edges of both sides. `rows` has the blocks of both, -1 where one is not on a side.
 * @param {Side} before @param {Side} after @param {{before: number[], after: number[]}} rows
 * @returns {Places}
 */
export function commonPlaces(before, after, rows) {
  const count = rows.before.length;
  const widths = new Float64Array(count);
  const [from, to] = [/** @type {number[]} */ ([]), /** @type {number[]} */ ([])];
  const edges = new Map();
  const rowsOf = [rows.before, rows.after].map((column, k) => {
    const side = k ? after : before;
    const rowOf = new Int32Array(side.blocks.site.length);
    column.forEach((block, row) => {
      if (block < 0) return;
      rowOf[block] = row;
      widths[row] = Math.max(widths[row], widthOf(linesOf(side, block)));
    });
    side.edges.from.forEach((start, edge) => {
      const [a, b] = [rowOf[start], rowOf[side.edges.to[edge]]];
      if (edges.has(a * count + b)) return;
      edges.set(a * count + b, from.length);
      from.push(a);
      to.push(b);
    });
    return rowOf;
  });
  const heights = new Float64Array(count).fill(HEIGHT);
  const layout = layered(widths, heights, Int32Array.from(from), Int32Array.from(to));
  return { layout, rowsOf, edgeOf: (a, b) => /** @type {number} */ (edges.get(a * count + b)) };
}

/** @param {string[]} lines */
function widthOf(lines) {
  return 2 * PADDING + LETTER * Math.max(...lines.map((text) => text.length));
}

/**
 * @param {Side} side @param {"removed" | "made"} change what the changed blocks are @param {string} label
 * @param {Places} places @returns {SVGElement}
 */
export function sketchOf(side, change, label, { layout, rowsOf, edgeOf }) {
  const rowOf = rowsOf[change === "made" ? 1 : 0];
  const lines = side.blocks.site.map((_, k) => linesOf(side, k));
  const { from, to } = side.edges;
  const [width, height] = [layout.width + 2 * MARGIN, layout.height + 2 * MARGIN];
  const changed = new Set(side.changed);
  return shape(
    "svg",
    {
      viewBox: `${-MARGIN} ${-MARGIN} ${width} ${height}`,
      width: Math.ceil(width),
      height: Math.ceil(height),
      role: "img",
      "aria-label": label,
      class: "sketch",
    },
    ...from.map((start, k) => {
      const [a, b] = [rowOf[start], rowOf[to[k]]];
      return edge(layout, layout.routes[edgeOf(a, b)], a, b);
    }),
    ...lines.map((own, k) =>
      node(own, layout.x[rowOf[k]], layout.y[rowOf[k]], widthOf(own), [
        BOUNDARY.includes(kindOf(side, k)) ? "boundary" : "",
        changed.has(k) ? change : "",
      ]),
    ),
  );
}

/** The name and the type of a block. @param {Side} side @param {number} k */
function linesOf({ operators, types, blocks }, k) {
  const operator = operators[blocks.operator[k]];
  const name = BOUNDARY.includes(operator) ? blocks.site[k] : operator;
  return [shortened(name), shortened(types[blocks.type[k]])];
}

/** @param {Side} side @param {number} k */
function kindOf({ operators, blocks }, k) {
  return operators[blocks.operator[k]];
}

/** @param {string} text */
function shortened(text) {
  return text.length > LONGEST ? `${text.slice(0, LONGEST - 1)}…` : text;
}

/** @param {string[]} lines @param {number} x @param {number} y @param {number} width @param {string[]} kinds */
function node(lines, x, y, width, kinds) {
  return shape(
    "g",
    { class: ["node", ...kinds].join(" ") },
    shape("rect", { x: x - width / 2, y: y - HEIGHT / 2, width, height: HEIGHT, rx: 5 }),
    shape("text", { x, y: y - 7, class: "name" }, lines[0]),
    shape("text", { x, y: y + 9, class: "type" }, lines[1]),
  );
}

/**
 * @param {import("../drawing/layered.js").Layered} layout @param {Int32Array} route @param {number} from @param {number} to
 */
function edge({ x, y }, route, from, to) {
  const items = route.length ? Array.from(route) : [from, to];
  if (items[0] !== from) items.reverse(); // of two that change places, one side's edges go upward
  const way = y[from] <= y[to] ? 1 : -1;
  const points = items.map((item, k) => [
    x[item],
    y[item] + way * (k === 0 ? HEIGHT / 2 : k === items.length - 1 ? -HEIGHT / 2 - 4 : 0),
  ]);
  let path = `M${points[0][0]} ${points[0][1]}`;
  for (let k = 1; k < points.length; k += 1) {
    const [[ax, ay], [bx, by]] = [points[k - 1], points[k]];
    const middle = (ay + by) / 2;
    path += `C${ax} ${middle} ${bx} ${middle} ${bx} ${by}`;
  }
  const [endX, endY] = points[points.length - 1];
  return shape(
    "g",
    { class: "edge" },
    shape("path", { d: path }),
    shape("path", { class: "tip", d: `M${endX - 4} ${endY - 3}h8l-4 7Z` }),
  );
}

/** @param {string} tag @param {Record<string, any>} properties @param {...(Node | string)} children @returns {SVGElement} */
function shape(tag, properties, ...children) {
  const made = document.createElementNS(SPACE, tag);
  for (const [name, value] of Object.entries(properties)) made.setAttribute(name, String(value));
  made.append(...children);
  return /** @type {SVGElement} */ (made);
}
