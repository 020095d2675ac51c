/**
 * A small program as an SVG element, with the blocks that a rule changes set off.
 * @module rules/sketch
 */

import { layered } from "../drawing/layered.js";

/** @typedef {{operators: string[], types: string[], blocks: {site: string[], operator: number[], kind: string[], type: number[]},
 *   edges: {from: number[], to: number[]}, changed: number[], cost: {blocks: number, flops: number, bytes: number}}} Side */

const SPACE = "http://www.w3.org/2000/svg";
const LETTER = 6.7; // px of the monospaced font
const LONGEST = 30; // letters of a line
const HEIGHT = 40;
const PADDING = 10;
const MARGIN = 6;
const BOUNDARY = ["source", "sink"];

/**
 * @param {Side} side @param {"removed" | "made"} change what the changed blocks are @param {string} label
 * @returns {SVGElement}
 */
export function sketchOf(side, change, label) {
  const count = side.blocks.site.length;
  const lines = Array.from({ length: count }, (_, k) => linesOf(side, k));
  const widths = lines.map((own) => 2 * PADDING + LETTER * Math.max(...own.map((text) => text.length)));
  const heights = new Float64Array(count).fill(HEIGHT);
  const { from, to } = side.edges;
  const layout = layered(widths, heights, Int32Array.from(from), Int32Array.from(to));
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
    ...layout.routes.map((route, k) => edge(layout, route, from[k], to[k])),
    ...lines.map((own, k) =>
      node(own, layout.x[k], layout.y[k], widths[k], [
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
  const points = items.map((item, k) => [
    x[item],
    y[item] + (k === 0 ? HEIGHT / 2 : k === items.length - 1 ? -HEIGHT / 2 - 4 : 0),
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
