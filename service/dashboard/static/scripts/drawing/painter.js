/**
 * Painting of a layered drawing: only the rows in view, and only as much of each node as can be read.
 * @module drawing/painter
 */

import { inkOn } from "./coloring.js";

/** @typedef {import("./layered.js").Layered} Layered */
/** @typedef {{x: number, y: number, width: number, height: number, scale: number}} View of the drawing */
/** @typedef {{title: string, text: string, kind: string, fill: string | null, mark?: string}} Face of a node; the mark is what
 *   happened to it: kept, made, removed, changed */
/** @typedef {{layout: Layered, widths: Float64Array, heights: Float64Array, faces: Face[],
 *   from: Int32Array, to: Int32Array, bytes: Float64Array, traffic: Float64Array, moved: Uint8Array, most: number,
 *   shown?: Uint8Array}} Picture where not all nodes are shown, which; `most` is the traffic of the widest edge */

export const READABLE = 0.45; // scale from which on names are written
const LEAST_SEEN = 1; // px of the screen, of each node
const ROUND = 5;
const WIDTHS = 6; // classes of edges on which something is redistributed
const LEAST_MOVED = 1.6; // px of the drawing
const MOST_MOVED = 11;

/** Segments of edges by the upper of the rows that they join. @param {Layered} layout */
export function segmentsOf(layout) {
  /** @type {number[][]} */
  const found = layout.rows.map(() => []);
  layout.routes.forEach((route, edge) => {
    for (let k = 1; k < route.length; k += 1) found[layout.row[route[k - 1]]].push(edge, route[k - 1], route[k]);
  });
  return found;
}

/** The first and last row that a view shows. @param {Layered} layout @param {number} top @param {number} bottom */
function rowsIn({ tops, rows }, top, bottom) {
  let low = 0;
  let high = rows.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (tops[middle + 1] < top) low = middle + 1;
    else high = middle;
  }
  let last = low;
  while (last < rows.length && tops[last] <= bottom) last += 1;
  return [low, last - 1];
}

/**
 * @param {CanvasRenderingContext2D} pen @param {Picture} picture @param {number[][]} segments @param {View} view
 * @param {Record<string, string>} colors @param {{selected: number, near: Set<number>}} marked
 */
export function paint(pen, picture, segments, view, colors, marked) {
  const { layout } = picture;
  const [first, last] = rowsIn(layout, view.y, view.y + view.height / view.scale);
  pen.save();
  pen.scale(view.scale, view.scale);
  pen.translate(-view.x, -view.y);
  paintEdges(pen, picture, segments, view, [first, last], colors, marked.selected);
  for (let k = first; k <= last; k += 1) paintRow(pen, picture, layout.rows[k], view, colors, marked);
  pen.restore();
}

/**
 * The class of width of each edge: 0 where nothing is redistributed, the last for the most traffic of an edge of the whole
 * program, and for more, where several edges are drawn as one.
 * @param {Float64Array} traffic @param {Uint8Array} moved @param {number} most @returns {Uint8Array}
 */
function widthClasses(traffic, moved, most) {
  const share = (/** @type {number} */ k) => (most ? Math.min(1, traffic[k] / most) : 0);
  return moved.map((isMoved, k) => (isMoved ? 1 + Math.round((WIDTHS - 1) * Math.sqrt(share(k))) : 0));
}

/** The width of a class. @param {number} number */
function widthOf(number) {
  return number === 0 ? 0.7 : LEAST_MOVED + ((MOST_MOVED - LEAST_MOVED) * (number - 1)) / (WIDTHS - 1);
}

/**
 * @param {CanvasRenderingContext2D} pen @param {Picture} picture @param {number[][]} segments @param {View} view
 * @param {number[]} rows @param {Record<string, string>} colors @param {number} selected
 */
function paintEdges(pen, { layout, from, to, traffic, moved, most }, segments, view, [first, last], colors, selected) {
  const { x, y } = layout;
  const right = view.x + view.width / view.scale;
  const own = [];
  const classes = widthClasses(traffic, moved, most);
  /** @type {number[][]} */
  const byClass = Array.from({ length: WIDTHS + 1 }, () => []);
  for (let k = layout.since[Math.min(first, layout.rows.length - 1)]; k <= last; k += 1) {
    const row = segments[k];
    for (let n = 0; n < row.length; n += 3) {
      const [edge, a, b] = [row[n], row[n + 1], row[n + 2]];
      if (Math.max(x[a], x[b]) < view.x || Math.min(x[a], x[b]) > right) continue;
      if (from[edge] === selected || to[edge] === selected) own.push(edge, a, b);
      else byClass[classes[edge]].push(a, b);
    }
  }
  byClass.forEach((ends, number) => {
    if (!ends.length) return;
    pen.lineWidth = Math.max(number ? widthOf(number) : 1, widthOf(number ? 1 : 0) / view.scale);
    pen.strokeStyle = number ? colors.moved : colors.edge;
    pen.beginPath();
    for (let n = 0; n < ends.length; n += 2) curve(pen, x[ends[n]], y[ends[n]], x[ends[n + 1]], y[ends[n + 1]]);
    pen.stroke();
  });
  if (selected < 0) return;
  pen.strokeStyle = colors.selected;
  for (let n = 0; n < own.length; n += 3) {
    const [edge, a, b] = [own[n], own[n + 1], own[n + 2]];
    pen.lineWidth = Math.max(2, widthOf(classes[edge]), 1.4 / view.scale);
    pen.beginPath();
    curve(pen, x[a], y[a], x[b], y[b]);
    pen.stroke();
  }
  pen.lineWidth = Math.max(2, 1.4 / view.scale);
  pen.beginPath();
  for (let edge = 0; edge < from.length; edge += 1) {
    const isOwn = from[edge] === selected || to[edge] === selected;
    if (isOwn && !layout.routes[edge].length) curve(pen, x[from[edge]], y[from[edge]], x[to[edge]], y[to[edge]]);
  }
  pen.stroke();
}

/** @param {CanvasRenderingContext2D} pen @param {number} ax @param {number} ay @param {number} bx @param {number} by */
function curve(pen, ax, ay, bx, by) {
  pen.moveTo(ax, ay);
  if (ax === bx) pen.lineTo(bx, by);
  else pen.bezierCurveTo(ax, (ay + by) / 2, bx, (ay + by) / 2, bx, by);
}

/**
 * @param {CanvasRenderingContext2D} pen @param {Picture} picture @param {Int32Array} members @param {View} view
 * @param {Record<string, string>} colors @param {{selected: number, near: Set<number>}} marked
 */
function paintRow(pen, picture, members, view, colors, { selected, near }) {
  const { layout, widths, heights, faces } = picture;
  const right = view.x + view.width / view.scale;
  for (const item of members) {
    if (item >= faces.length) continue;
    const [width, height, face] = [widths[item], heights[item], faces[item]];
    const left = layout.x[item] - width / 2;
    if (left > right || left + width < view.x) continue;
    const top = layout.y[item] - height / 2;
    const isMarked = item === selected || near.has(item);
    const inner = face.fill ?? colors[face.mark ?? face.kind] ?? colors.block;
    const own = face.mark ? `${face.mark} line` : "line";
    if (view.scale < READABLE) {
      const outline = isMarked ? colors.selected : face.mark ? colors[own] : colors.muted;
      paintSmall(pen, layout.x[item], layout.y[item], width, height, outline, face.mark ? null : inner, view.scale);
      if (!isMarked) continue;
      pen.strokeStyle = colors.selected;
      pen.lineWidth = LEAST_SEEN / view.scale;
      pen.strokeRect(left, top, width, height);
      continue;
    }
    pen.fillStyle = inner;
    pen.strokeStyle = colors[isMarked ? "selected" : own];
    pen.lineWidth = item === selected ? 2.5 : face.mark ? 1.6 : 1;
    pen.setLineDash(face.kind === "view" || face.mark === "removed" ? [4, 3] : []);
    if (face.kind === "group") stack(pen, left, top, width, height);
    pen.beginPath();
    pen.roundRect(left, top, width, height, face.kind === "sink" || !isBlock(face.kind) ? height / 2 : ROUND);
    pen.fill();
    pen.stroke();
    write(pen, face, layout.x[item], top, colors);
  }
  pen.setLineDash([]);
}

/**
 * A node that is too small to read: its color within an outline, so that none is lost on a ground of its own color. It
 * covers a point of the screen at least, and half of it is outline where there is no room for more.
 * @param {CanvasRenderingContext2D} pen @param {number} x @param {number} y of its center @param {number} width @param {number} height
 * @param {string} outline @param {string | null} inner null where all of it has the color of the outline @param {number} scale
 */
function paintSmall(pen, x, y, width, height, outline, inner, scale) {
  const least = LEAST_SEEN / scale;
  const [wide, high] = [Math.max(width, least), Math.max(height, least)];
  pen.fillStyle = outline;
  pen.fillRect(x - wide / 2, y - high / 2, wide, high);
  if (inner === null) return;
  const border = Math.min(least, high / 4);
  pen.fillStyle = inner;
  pen.fillRect(x - wide / 2 + border, y - high / 2 + border, wide - 2 * border, high - 2 * border);
}

/** @param {string} kind */
function isBlock(kind) {
  return ["block", "view", "group", "sequence_point"].includes(kind);
}

/** The edges of two more cards behind a group's.
 * @param {CanvasRenderingContext2D} pen @param {number} left @param {number} top @param {number} width @param {number} height */
function stack(pen, left, top, width, height) {
  for (const by of [6, 3]) {
    pen.beginPath();
    pen.roundRect(left + by, top + by, width, height, ROUND);
    pen.fill();
    pen.stroke();
  }
}

/** @param {CanvasRenderingContext2D} pen @param {Face} face @param {number} x @param {number} top
 * @param {Record<string, string>} colors */
function write(pen, face, x, top, colors) {
  pen.textAlign = "center";
  pen.textBaseline = "middle";
  pen.font = `600 11px ${colors.font}`;
  pen.fillStyle = face.fill ? inkOn(face.fill) : colors.text;
  pen.fillText(face.title, x, top + 13);
  if (!face.text) return;
  pen.font = `10px ${colors.font}`;
  pen.fillStyle = face.fill ? inkOn(face.fill) : colors.muted;
  pen.fillText(face.text, x, top + 27);
}
