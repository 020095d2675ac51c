/**
 * The frontier over two of its costs, colored by a third; a dragged box bounds both.
 * @module frontier/plot
 */

import { frameOf, paintAxes, titleOf } from "../charts/axes.js";
import { font } from "../charts/figure.js";
import { shades } from "../charts/gradient.js";
import { extent, Scale } from "../charts/scale.js";
import { addForm, leastOf, nearestSpot, paintSteps, trace } from "../charts/spots.js";
import { color } from "../colors.js";
import { originWord } from "../marks.js";
import { formOf, symbolOf } from "./data.js";
import { PlanFigure, rangeOf } from "./plan-figure.js";

/** @typedef {{x: string, y: string, color: string, isLogX: boolean, isLogY: boolean, hasErrors: boolean, isNear: boolean}} View */

/** @typedef {import("./data.js").FrontierData} FrontierData */
/** @typedef {import("../charts/pen.js").Pen} Pen */
/** A view of plans in px. @typedef {{view: View, data: FrontierData, frame: import("../charts/axes.js").Frame, scales: {x: Scale, y: Scale},
 *   at: {x: Float64Array, y: Float64Array}}} Placed */

const LABEL = 16; // px of a label beside a line
const RADIUS = 5; // px
const RING = 11;
const COLOR_BAR = 74; // px for the scale of colors
const HEAD = 20; // px for a line of the legend
const SIGN = 32; // px for a sign of it, with the gap before
const NEAREST = 18; // px from which on a point is meant
const LEAST_BOX = 6; // px each way
const OTHERS = "least of another";
const KEYS = { ArrowLeft: ["x", -1], ArrowRight: ["x", 1], ArrowUp: ["y", 1], ArrowDown: ["y", -1] };

/** A scatter plot. Arrow keys go from point to point, Enter opens the plan. */
export class FrontierPlot extends PlanFigure {
  /** @param {HTMLElement} place @param {(id: string | null) => void} onPoint */
  constructor(place, onPoint) {
    super(place, "The plans over two costs; the table below has the same figures", onPoint);
    /** What is shown. @type {{view: View, data: FrontierData, x: Float64Array, y: Float64Array} | null} */
    this.content = null;
    /** Where it was painted. @type {Placed | null} */
    this.placed = null;
  }

  /** @param {FrontierData} data @param {View} view */
  show(data, view) {
    this.content = { view, data, x: data.values(view.x), y: data.values(view.y) };
    const [x, y] = [view.x, view.y].map((name) => data.objective(name).title);
    this.describe(`${data.plans.length} plans, ${x} across and ${y} up; the table below has the same figures`);
    this.showData(data);
  }

  /** Draw all plans. @param {Pen} pen @param {number} width @param {number} height */
  paintGround(pen, width, height) {
    this.placed = null;
    if (!this.content?.data.plans.length) return;
    const { view, data } = this.content;
    const x = axisOf(data, view.x, this.content.x, { isLog: view.isLogX, isNear: view.isNear });
    const y = axisOf(data, view.y, this.content.y, { isLog: view.isLogY, isNear: view.isNear });
    const inner = frameOf(width - COLOR_BAR, height, y);
    const legend = legendLines(pen, data, width - COLOR_BAR - 12);
    const frame = { ...inner, top: inner.top + HEAD * legend.length };
    paintAxes(pen, frame, x, y);
    const at = {
      x: this.content.x.map((value) => x.scale.at(value)),
      y: this.content.y.map((value) => y.scale.at(value)),
    };
    const placed = { view, data, frame, scales: { x: x.scale, y: y.scale }, at };
    this.placed = placed;
    clip(pen, frame);
    paintBounds(pen, placed);
    pen.strokeStyle = color("line-strong");
    pen.lineWidth = 1.5;
    pen.setLineDash([2, 4]);
    paintSteps(pen, leastOf(data.heldNumbers, this.content.x, this.content.y), at.x, at.y);
    pen.setLineDash([]);
    if (view.hasErrors) paintErrors(pen, placed, data.heldNumbers);
    paintPoints(pen, placed);
    paintMarks(pen, placed);
    pen.restore();
    paintLegend(pen, legend, width - COLOR_BAR - 12);
    paintColors(pen, data, width, frame);
  }

  /** @param {Pen} pen */
  paint(pen) {
    const { placed, pointed } = this;
    if (!placed) return;
    if (pointed >= 0) {
      clip(pen, placed.frame);
      paintErrors(pen, placed, [pointed]);
      pen.strokeStyle = color("accent");
      pen.lineWidth = 2;
      trace(pen, "circle", placed.at.x[pointed], placed.at.y[pointed], RING);
      pen.stroke();
      pen.restore();
    }
    this.paintBox(pen);
  }

  /** @param {number} x @param {number} y */
  nearest(x, y) {
    if (!this.placed) return -1;
    const { at, data } = this.placed;
    return nearestSpot(x, y, NEAREST, at.x.length, (k) => at.x[k], (k) => at.y[k], (k) => data.held[k]);
  }

  /** @param {number} k @returns {[number, number]} */
  spot(k) {
    return this.placed ? [this.placed.at.x[k], this.placed.at.y[k]] : [0, 0];
  }

  /** @param {import("./plan-figure.js").Box} box @returns {Record<string, import("./selection.js").Range>} */
  boundsOf([ax, ay, bx, by]) {
    if (!this.placed || Math.abs(bx - ax) < LEAST_BOX || Math.abs(by - ay) < LEAST_BOX) return {};
    const { view, scales } = this.placed;
    return { [view.x]: rangeOf(scales.x, ax, bx), [view.y]: rangeOf(scales.y, ay, by) };
  }

  costsAt() {
    return this.content ? [this.content.view.x, this.content.view.y] : [];
  }

  /** @param {string} key */
  step(key) {
    const move = KEYS[/** @type {keyof typeof KEYS} */ (key)];
    return move && this.content ? this.neighbor(this.content[/** @type {"x" | "y"} */ (move[0])], Number(move[1])) : null;
  }
}

/**
 * An axis of a cost.
 * @param {FrontierData} data @param {string} name @param {Float64Array} values of all plans
 * @param {{isLog: boolean, isNear: boolean}} options `isNear`: only as far as plans within the bounds are
 */
function axisOf(data, name, values, { isLog, isNear }) {
  const shown = isNear && data.heldNumbers.length ? values.filter((_, k) => data.held[k]) : values;
  const [low, high] = extent(shown, { margin: 0.05, isLog }) ?? [0, 1];
  const { title, unit } = data.objective(name);
  const bound = data.bounds[name]?.bound;
  const isBoundNear = bound !== undefined && bound < low && bound > low - 0.3 * (high - low) && !isNear && (!isLog || bound > 0);
  const least = !isBoundNear ? low : isLog ? bound * 0.98 : bound - 0.02 * (high - low);
  const hasZero = isLog && low <= 0;
  return { title: hasZero ? `${title}; not log, it has zeros` : title, scale: new Scale(least, high, { unit, isLog }) };
}

/** Paint only in the frame, with room for a ring, until the pen is restored. @param {Pen} pen @param {import("../charts/axes.js").Frame} frame */
function clip(pen, { left, top, right, bottom }) {
  pen.save();
  pen.beginPath();
  pen.rect(left - RING, top - RING, right - left + 2 * RING, bottom - top + 2 * RING);
  pen.clip();
}

/** What no plan can be below. @param {Pen} pen @param {Placed} placed */
function paintBounds(pen, { view, data, scales, frame }) {
  pen.fillStyle = color("bad");
  pen.font = font(11);
  pen.textAlign = "right";
  const x = data.bounds[view.x]?.bound;
  if (x !== undefined && x >= scales.x.low) {
    const line = scales.x.at(x);
    const isAtAxis = line < frame.left + LABEL; // its numbers are to the left
    pen.fillRect(line - 1, frame.top, 1, frame.bottom - frame.top);
    pen.save();
    pen.translate(line, frame.top + 4);
    pen.rotate(-Math.PI / 2);
    pen.textBaseline = isAtAxis ? "top" : "bottom";
    pen.fillText("proven bound", 0, isAtAxis ? 2 : -2);
    pen.restore();
  }
  const y = data.bounds[view.y]?.bound;
  if (y === undefined || y < scales.y.low) return;
  pen.fillRect(frame.left, scales.y.at(y), frame.right - frame.left, 1);
  pen.textBaseline = "top";
  pen.fillText("proven bound", frame.right - 4, scales.y.at(y) + 2);
}

/** Intervals of times. @param {Pen} pen @param {Placed} placed @param {number[]} members the numbers of plans */
function paintErrors(pen, { view, data, scales, at }, members) {
  pen.strokeStyle = color("muted");
  pen.lineWidth = 1;
  pen.beginPath();
  for (const k of members) {
    const { time } = data.plans[k];
    if (!time) continue;
    if (view.x === "time_s") bar(pen, scales.x.at(time.low), at.y[k], scales.x.at(time.high), at.y[k]);
    if (view.y === "time_s") bar(pen, at.x[k], scales.y.at(time.low), at.x[k], scales.y.at(time.high));
  }
  pen.stroke();
}

/** @param {Pen} pen @param {Placed} placed */
function paintPoints(pen, { data, at }) {
  for (const { fill, members } of data.byShade()) {
    pen.beginPath();
    for (const k of members) {
      const form = formOf(data.sources[k]);
      addForm(pen, form, at.x[k], at.y[k], RADIUS + (form === "circle" ? 0 : 1) - (fill ? 0 : 2));
    }
    pen.fillStyle = fill ?? color("grid");
    pen.strokeStyle = color("surface");
    pen.lineWidth = 1;
    pen.fill();
    pen.stroke();
  }
}

/** The marked plans. @param {Pen} pen @param {Placed} placed */
function paintMarks(pen, { data, at }) {
  pen.lineWidth = 2.5;
  data.plans.forEach((plan, k) => {
    for (const mark of data.marks.get(plan.id) ?? []) {
      const { symbol, color: own } = symbolOf(mark);
      pen.strokeStyle = color(own);
      trace(pen, symbol, at.x[k], at.y[k], 9);
      pen.stroke();
    }
  });
}

/** @typedef {{name: string, paint: (x: number, y: number) => void}} Sign a name of the legend, and how its sign is painted */

/**
 * The lines of the legend: marks, then forms where plans have any; each goes on below where it is too long.
 * @param {Pen} pen @param {FrontierData} data @param {number} width px @returns {Sign[][]}
 */
function legendLines(pen, data, width) {
  const found = new Set([...data.marks.values()].flat().map((mark) => (mark.startsWith("least ") ? OTHERS : mark)));
  const marks = ["fastest", "knee", "smallest", OTHERS].filter((name) => found.has(name)).map((name) => ({
    name,
    paint: (/** @type {number} */ x, /** @type {number} */ y) => {
      const { symbol, color: own } = symbolOf(name);
      pen.strokeStyle = color(own);
      pen.lineWidth = 2;
      trace(pen, symbol, x, y, 6);
      pen.stroke();
    },
  }));
  const forms = (data.kinds.length ? [...data.kinds, "search"] : []).map((kind) => ({
    name: originWord(kind),
    paint: (/** @type {number} */ x, /** @type {number} */ y) => {
      pen.fillStyle = color("muted");
      trace(pen, formOf(kind), x, y, RADIUS + 1);
      pen.fill();
    },
  }));
  pen.font = font(12);
  return [marks, forms].flatMap((signs) => {
    /** @type {Sign[][]} */
    const lines = [];
    let left = 0;
    for (const sign of signs) {
      const size = SIGN + pen.measureText(sign.name).width;
      if (!lines.length || size > left) {
        lines.push([]);
        left = width;
      }
      lines[lines.length - 1].push(sign);
      left -= size;
    }
    return lines;
  });
}

/** Lines of names behind their signs, to the right. @param {Pen} pen @param {Sign[][]} lines @param {number} right px */
function paintLegend(pen, lines, right) {
  pen.font = font(12);
  pen.textAlign = "left";
  pen.textBaseline = "middle";
  lines.forEach((signs, row) => {
    const y = 12 + row * HEAD;
    let x = right;
    for (const { name, paint } of [...signs].reverse()) {
      x -= pen.measureText(name).width;
      pen.fillStyle = color("text");
      pen.fillText(name, x, y);
      paint(x - 12, y);
      x -= SIGN;
    }
  });
}

/** The scale of colors. @param {Pen} pen @param {FrontierData} data @param {number} width @param {import("../charts/axes.js").Frame} frame */
function paintColors(pen, data, width, { top, bottom }) {
  const left = width - COLOR_BAR + 8;
  const all = shades();
  const each = (bottom - top) / all.length;
  all.forEach((fill, k) => {
    pen.fillStyle = fill;
    pen.fillRect(left, bottom - (k + 1) * each, 11, each + 0.5);
  });
  const scale = new Scale(...data.colorRange, { unit: data.color.unit }).over(bottom, top);
  pen.fillStyle = color("muted");
  pen.font = font(12);
  pen.textAlign = "left";
  pen.textBaseline = "middle";
  for (const { value, text } of scale.ticks(6)) pen.fillText(text, left + 15, scale.at(value));
  pen.save();
  pen.translate(width - 6, (top + bottom) / 2);
  pen.rotate(-Math.PI / 2);
  pen.textAlign = "center";
  pen.fillStyle = color("text");
  pen.fillText(titleOf({ title: data.color.title, scale }), 0, 0);
  pen.restore();
}

/** A bar of an interval with its ends. @param {Pen} pen @param {number} ax @param {number} ay @param {number} bx @param {number} by px */
function bar(pen, ax, ay, bx, by) {
  const [dx, dy] = ax === bx ? [3, 0] : [0, 3];
  for (const [fromX, fromY, toX, toY] of [
    [ax, ay, bx, by],
    [ax - dx, ay - dy, ax + dx, ay + dy],
    [bx - dx, by - dy, bx + dx, by + dy],
  ]) {
    pen.moveTo(fromX, fromY);
    pen.lineTo(toX, toY);
  }
}
