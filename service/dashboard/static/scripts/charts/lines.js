/**
 * Lines, steps and stacked areas over one axis, with a cursor that others may follow.
 * @module charts/lines
 */

import { color } from "../colors.js";
import { element } from "../dom.js";
import { quantity } from "../units.js";
import { frameOf, paintAxes } from "./axes.js";
import { Drag } from "./dragging.js";
import { Figure, font } from "./figure.js";
import { swatch } from "./legend.js";
import { lastUpTo } from "./ordered.js";
import { extent, Scale } from "./scale.js";

/**
 * `x` ascends. A step keeps its value until the next `x`. Areas are stacked on the ones before them and need the same `x`.
 * @typedef {{name: string, color: string, x: ArrayLike<number>, y: ArrayLike<number>, kind?: "line" | "step" | "area" | "points",
 *   isDashed?: boolean, note?: (k: number) => string}} Series
 */
/** @typedef {{title: string, unit: string, isLog?: boolean, isFromZero?: boolean, isWhole?: boolean, leastSpan?: number}} AxisOptions
 *   an axis is not stretched over less than the share `leastSpan` of its largest value */
/** @typedef {{series: Series[], x: AxisOptions, y: AxisOptions, levels?: {y: number, name: string}[],
 *   mark?: {x: number, y: number, name: string}}} LineContent levels are horizontal lines with names, a mark is a point with one */

const NO_AXIS = { title: "", unit: "" };
const LEVEL_TEXT = 12; // px, above a level
const STEPS = { ArrowLeft: -1, ArrowRight: 1, PageUp: -20, PageDown: 20 };

/** A chart of lines. Dragging shows a part, a double click or 0 the whole; arrow keys move the cursor. */
export class LineChart extends Figure {
  /**
   * @param {HTMLElement} place @param {string} label
   * @param {{onCursor?: (x: number | null) => void, onView?: (from: number, to: number) => void}} [listeners] of what the user does
   */
  constructor(place, label, { onCursor = () => undefined, onView = () => undefined } = {}) {
    super(place, label);
    this.onCursor = onCursor;
    this.onView = onView;
    /** @type {LineContent | null} */
    this.content = null;
    /** @type {number | null} */
    this.cursor = null;
    /** @type {[number, number] | null} */
    this.part = null;
    /** What is being dragged over, px. @type {[number, number] | null} */
    this.band = null;
    this.axes = /** @type {any} */ (null);
    this.leastLeft = 0; // px that are free at the left at least, so that equal times stand above each other
    this.#listen();
  }

  /** @param {LineContent} content */
  show(content) {
    this.content = { ...content, series: stacked(content.series) };
    this.redraw();
  }

  /**
   * The figures as rows, with names and units first: what goes across, the series, its value.
   * @returns {unknown[][]}
   */
  rows() {
    const { series, x, y } = this.content ?? { series: [], x: NO_AXIS, y: NO_AXIS };
    const named = (/** @type {AxisOptions} */ { title, unit }) => (unit ? `${title} (${unit})` : title);
    const rows = series.flatMap((one) => Array.from(one.x, (at, k) => [at, one.name, valueOf(one, k)]));
    return [[named(x), "series", named(y)], ...rows];
  }

  /** Show a part of the axis, or all of it. @param {number | null} from @param {number} [to] */
  look(from, to = 0) {
    this.part = from === null ? null : [from, to];
    this.redraw();
  }

  /** Move the cursor, or take it away. @param {number | null} x */
  point(x) {
    this.cursor = x;
    this.redraw();
  }

  #axesOf() {
    const { series, x, y, levels = [] } = /** @type {LineContent} */ (this.content);
    const whole = extent(series.flatMap((one) => [one.x[0], one.x[one.x.length - 1]]), { margin: 0, isLog: x.isLog }) ?? [0, 1];
    const [from, to] = this.part ?? whole;
    const tops = series.map((one) => extentWithin(one, from, to, y.isFromZero !== false));
    const [low, high] = extent([...tops.flat(), ...levels.map((level) => level.y)], {
      isLog: y.isLog,
      isFromZero: y.isFromZero !== false,
      leastSpan: y.leastSpan,
    }) ?? [0, 1];
    return {
      x: { title: x.title, scale: new Scale(from, to, x) },
      y: { title: y.title, scale: new Scale(low, high, y) },
    };
  }

  /** @param {import("./pen.js").Pen} pen @param {number} width @param {number} height */
  paint(pen, width, height) {
    if (!this.content?.series.length) return;
    this.axes = this.#axesOf();
    const frame = frameOf(width, height, this.axes.y, this.leastLeft);
    this.frame = frame;
    paintAxes(pen, frame, this.axes.x, this.axes.y);
    pen.save();
    pen.beginPath();
    pen.rect(frame.left, frame.top - 4, frame.right - frame.left, frame.bottom - frame.top + 5);
    pen.clip();
    const { series } = this.content;
    for (let k = series.length - 1; k >= 0; k -= 1) this.#paintSeries(pen, series[k]);
    this.#paintLevels(pen, frame);
    this.#paintMark(pen, frame);
    if (this.band) {
      pen.fillStyle = color("accent");
      pen.globalAlpha = 0.15;
      pen.fillRect(Math.min(...this.band), frame.top, Math.abs(this.band[1] - this.band[0]), frame.bottom - frame.top);
      pen.globalAlpha = 1;
    }
    if (this.cursor !== null) {
      pen.fillStyle = color("text");
      pen.fillRect(Math.round(this.axes.x.scale.at(this.cursor)), frame.top, 1, frame.bottom - frame.top);
    }
    pen.restore();
  }

  /** @param {import("./pen.js").Pen} pen @param {Series & {bottoms?: Float64Array}} series */
  #paintSeries(pen, series) {
    const { x, y } = this.axes;
    const isStep = series.kind === "step" || series.kind === "area";
    pen.beginPath();
    trace(pen, series.x, series.y, x.scale, y.scale, isStep, series.kind === "area");
    if (series.kind === "area") {
      pen.lineTo(x.scale.at(series.x[series.x.length - 1]), y.scale.at(0));
      pen.lineTo(x.scale.at(series.x[0]), y.scale.at(0));
      pen.closePath();
      pen.fillStyle = color(series.color);
      pen.fill();
      return;
    }
    pen.strokeStyle = color(series.color);
    pen.lineWidth = 2;
    pen.setLineDash(series.isDashed ? [5, 4] : []);
    if (series.kind !== "points") pen.stroke();
    pen.setLineDash([]);
    const isPoints = series.kind === "points";
    if (series.x.length > 40 && !isPoints) return;
    pen.fillStyle = color(series.color);
    for (let k = 0; k < series.x.length; k += 1) {
      pen.beginPath();
      pen.arc(x.scale.at(series.x[k]), y.scale.at(series.y[k]), isPoints ? 4 : 2.5, 0, 2 * Math.PI);
      pen.fill();
    }
  }

  /** @param {import("./pen.js").Pen} pen @param {import("./axes.js").Frame} frame */
  #paintLevels(pen, frame) {
    pen.font = font(11);
    pen.textAlign = "right";
    for (const { y, name } of this.content?.levels ?? []) {
      const at = Math.round(this.axes.y.scale.at(y));
      const hasPlace = at - frame.top > LEVEL_TEXT;
      pen.fillStyle = color("bad");
      pen.fillRect(frame.left, at, frame.right - frame.left, 1);
      pen.textBaseline = hasPlace ? "bottom" : "top";
      pen.fillText(name, frame.right - 4, at + (hasPlace ? -2 : 4));
    }
  }

  /** @param {import("./pen.js").Pen} pen @param {import("./axes.js").Frame} frame */
  #paintMark(pen, frame) {
    const mark = this.content?.mark;
    if (!mark) return;
    const [x, y] = [this.axes.x.scale.at(mark.x), this.axes.y.scale.at(mark.y)];
    if (x < frame.left || x > frame.right) return;
    pen.fillStyle = color("text");
    pen.beginPath();
    pen.arc(x, y, 3, 0, 2 * Math.PI);
    pen.fill();
    pen.font = font(11);
    const isLeft = x - frame.left > pen.measureText(mark.name).width + 10; // at its right is what has the value
    pen.textAlign = isLeft ? "right" : "left";
    pen.textBaseline = "middle";
    pen.fillText(mark.name, x + (isLeft ? -7 : 7), Math.max(y, frame.top + 3));
  }

  #listen() {
    const { canvas } = this;
    new Drag(canvas, {
      move: ([from], [to]) => this.#dragging([from, to]),
      end: ([from], [to]) => this.#dragged(from, to),
      cancel: () => this.#dragging(null),
      hasTouch: true,
    });
    canvas.addEventListener("dblclick", () => this.#whole());
    canvas.addEventListener("keydown", (/** @type {KeyboardEvent} */ event) => this.#key(event));
  }

  /** @param {[number, number] | null} band px */
  #dragging(band) {
    this.band = band;
    this.redraw();
  }

  /** @param {number} from @param {number} to px */
  #dragged(from, to) {
    this.#dragging(null);
    if (!this.axes) return;
    const { scale } = this.axes.x;
    const [low, high] = [from, to].map((at) => scale.value(at)).sort((a, b) => a - b);
    this.#lookAt(Math.max(low, scale.low), Math.min(high, scale.high));
  }

  /** @param {number} from @param {number} to */
  #lookAt(from, to) {
    if (!(to > from)) return;
    this.look(from, to);
    this.onView(from, to);
  }

  #whole() {
    this.look(null);
    const first = this.content?.series.map((one) => one.x[0]) ?? [0];
    const last = this.content?.series.map((one) => one.x[one.x.length - 1]) ?? [1];
    this.onView(Math.min(...first), Math.max(...last));
  }

  /** @param {KeyboardEvent} event */
  #key(event) {
    if (!this.axes) return;
    const { low, high } = this.axes.x.scale;
    const step = STEPS[/** @type {keyof STEPS} */ (event.key)];
    if (step) this.#moveTo(this.#beside(this.cursor ?? low, step));
    else if (event.key === "+" || event.key === "-") {
      const around = this.cursor ?? (low + high) / 2;
      const by = event.key === "+" ? 0.5 : 2;
      this.#lookAt(around - (around - low) * by, around + (high - around) * by);
    } else if (event.key === "0" || event.key === "Home") this.#whole();
    else if (event.key === "Escape") this.leave();
    else return;
    event.preventDefault();
  }

  /** The value so many hundredths of the axis from another one. @param {number} x @param {number} steps */
  #beside(x, steps) {
    const { scale } = this.axes.x;
    return scale.value(scale.at(x) + (steps * (scale.to - scale.from)) / 100);
  }

  /** @param {number} x */
  #moveTo(x) {
    const { low, high } = this.axes.x.scale;
    this.point(Math.min(high, Math.max(low, x)));
    this.onCursor(this.cursor);
    this.#explainAt(this.axes.x.scale.at(this.cursor), 24);
  }

  /** @param {number} x @param {number} y */
  hover(x, y) {
    if (!this.axes || !this.frame) return;
    if (x < this.frame.left || x > this.frame.right) return this.leave();
    this.point(this.axes.x.scale.value(x));
    this.onCursor(this.cursor);
    this.#explainAt(x, y);
  }

  leave() {
    super.leave();
    if (this.cursor === null) return;
    this.point(null);
    this.onCursor(null);
  }

  /** @param {number} x @param {number} y */
  #explainAt(x, y) {
    const content = /** @type {LineContent} */ (this.content);
    const cursor = /** @type {number} */ (this.cursor);
    const lines = content.series.flatMap((/** @type {any} */ series) => {
      const k = lastUpTo(series.x, cursor);
      if (k < 0 || (series.kind === "line" && cursor > series.x[series.x.length - 1])) return [];
      const value = valueOf(series, k);
      const note = series.note?.(k);
      const text = note ?? quantity(value, content.y.unit);
      return [element("div", {}, swatch(series.color), `${series.name}: ${text}`)];
    });
    this.explain(x, y, element("strong", {}, quantity(cursor, content.x.unit)), ...lines);
  }
}

/** What a series itself has at a point, without those below it. @param {Series & {bottoms?: Float64Array}} series @param {number} k */
function valueOf({ y, bottoms }, k) {
  return y[k] - (bottoms?.[k] ?? 0);
}

/** @param {Series[]} series @returns {(Series & {bottoms?: Float64Array})[]} */
function stacked(series) {
  /** @type {Float64Array | null} */
  let below = null;
  return series.map((one) => {
    if (one.kind !== "area") return one;
    const bottoms = below ?? new Float64Array(one.x.length);
    below = Float64Array.from(one.y, (value, k) => value + bottoms[k]);
    return { ...one, y: below, bottoms };
  });
}

/** @param {Series} series @param {number} from @param {number} to @param {boolean} isFromZero @returns {number[]} */
function extentWithin({ x, y }, from, to, isFromZero) {
  let [low, high] = [isFromZero ? 0 : Infinity, -Infinity];
  const first = Math.max(0, lastUpTo(x, from));
  for (let k = first; k < x.length && x[k] <= to; k += 1) {
    if (y[k] < low) low = y[k];
    if (y[k] > high) high = y[k];
  }
  return [low, high].filter(Number.isFinite);
}

/**
 * The path of a line; of the points in one column of pixels only the first, the extremes and the last. The highest is a
 * pixel wide where the path is to be filled, for without a width nothing of it were there.
 * @param {import("./pen.js").Pen} pen @param {ArrayLike<number>} x @param {ArrayLike<number>} y @param {Scale} across @param {Scale} up
 * @param {boolean} isStep @param {boolean} isFilled
 */
function trace(pen, x, y, across, up, isStep, isFilled) {
  const first = Math.max(0, lastUpTo(x, across.low) - 1);
  let [right, last] = [-Infinity, up.at(y[first])];
  let [low, high] = [last, last];
  pen.moveTo(across.at(x[first]), last);
  for (let k = first + 1; k < x.length; k += 1) {
    const at = across.at(x[k]);
    const height = up.at(y[k]);
    if (at - right < 0.5 && k < x.length - 1) {
      low = Math.min(low, height);
      high = Math.max(high, height);
      last = height;
      continue;
    }
    if (high > low) {
      pen.lineTo(right, low);
      if (isFilled) pen.lineTo(right + 1, low);
      pen.lineTo(isFilled ? right + 1 : right, high);
      pen.lineTo(right, last);
    }
    if (isStep) pen.lineTo(at, last);
    pen.lineTo(at, height);
    [right, last, low, high] = [at, height, height, height];
    if (x[k - 1] > across.high) break;
  }
}
