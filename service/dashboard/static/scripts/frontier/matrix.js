/**
 * The frontier over every two objectives at once; a box dragged in a cell bounds both.
 * @module frontier/matrix
 */

import { titleOf } from "../charts/axes.js";
import { font } from "../charts/figure.js";
import { extent, Scale } from "../charts/scale.js";
import { nearestSpot } from "../charts/spots.js";
import { color } from "../colors.js";
import { symbolOf } from "./data.js";
import { PlanFigure, rangeOf } from "./plan-figure.js";

const GAP = 6; // px
const INSET = 5;
const BINS = 16;
const NEAREST = 10;
const KEYS = { ArrowLeft: -1, ArrowRight: 1, ArrowDown: -1, ArrowUp: 1 };

/** A scatter matrix, with how often which values occur along the diagonal. */
export class MatrixPlot extends PlanFigure {
  /** @param {HTMLElement} place @param {(id: string | null) => void} onPoint */
  constructor(place, onPoint) {
    super(place, "The plans over every two objectives; the table below has the same figures", onPoint);
    /** @type {{name: string, title: string, unit: string, values: Float64Array, low: number, high: number}[]} */
    this.columns = [];
  }

  /** @param {import("./data.js").FrontierData} data @param {import("./data.js").Objective[]} objectives */
  show(data, objectives) {
    this.columns = objectives.map(({ name, title, unit }) => {
      const values = data.values(name);
      const [low, high] = extent(values, { margin: 0.03 }) ?? [0, 1];
      return { name, title, unit, values, low, high };
    });
    this.describe(`${data.plans.length} plans over every two of ${objectives.map(({ title }) => title).join(", ")}; the table below has the same figures`);
    this.showData(data);
  }

  get cell() {
    const count = Math.max(1, this.columns.length);
    return { width: this.width / count, height: this.height / count };
  }

  /** The scales of a cell. @param {number} row @param {number} column */
  #scales(row, column) {
    const { width, height } = this.cell;
    const [x, y] = [this.columns[column], this.columns[row]];
    const left = column * width + GAP / 2;
    const top = row * height + GAP / 2;
    return {
      x: new Scale(x.low, x.high, { unit: x.unit }).over(left + INSET, left + width - GAP - INSET),
      y: new Scale(y.low, y.high, { unit: y.unit }).over(top + height - GAP - INSET, top + INSET),
      box: [left, top, width - GAP, height - GAP],
    };
  }

  /** Draw all plans. @param {import("../charts/pen.js").Pen} pen */
  paintGround(pen) {
    const { data } = this;
    if (!data?.plans.length) return;
    const groups = data.byShade();
    this.#eachCell((row, column, { x, y, box }) => {
      pen.strokeStyle = color("line");
      pen.lineWidth = 1;
      pen.strokeRect(box[0], box[1], box[2], box[3]);
      if (row === column) this.#paintDiagonal(pen, row, x, box);
      else this.#paintCell(pen, groups, row, column, x, y);
    });
  }

  /** @param {import("../charts/pen.js").Pen} pen */
  paint(pen) {
    const { pointed } = this;
    if (pointed >= 0 && this.data?.plans.length)
      this.#eachCell((row, column, { x, y }) => {
        if (row === column) return;
        pen.strokeStyle = color("accent");
        pen.lineWidth = 2;
        pen.strokeRect(x.at(this.columns[column].values[pointed]) - 4, y.at(this.columns[row].values[pointed]) - 4, 8, 8);
      });
    this.paintBox(pen);
  }

  /** @param {(row: number, column: number, scales: {x: Scale, y: Scale, box: number[]}) => void} visit */
  #eachCell(visit) {
    for (let row = 0; row < this.columns.length; row += 1)
      for (let column = 0; column < this.columns.length; column += 1) visit(row, column, this.#scales(row, column));
  }

  /**
   * @param {import("../charts/pen.js").Pen} pen @param {{fill: string | null, members: number[]}[]} groups @param {number} row
   * @param {number} column @param {Scale} x @param {Scale} y
   */
  #paintCell(pen, groups, row, column, x, y) {
    const data = /** @type {import("./data.js").FrontierData} */ (this.data);
    const [across, up] = [this.columns[column].values, this.columns[row].values];
    const size = data.plans.length > 400 ? 3 : 4;
    for (const { fill, members } of groups) {
      pen.fillStyle = fill ?? color("grid");
      for (const k of members) pen.fillRect(x.at(across[k]) - size / 2, y.at(up[k]) - size / 2, size, size);
    }
    data.plans.forEach((plan, k) => {
      const [mark] = data.marks.get(plan.id) ?? [];
      if (!mark) return;
      pen.strokeStyle = color(symbolOf(mark).color);
      pen.lineWidth = 2;
      pen.strokeRect(x.at(across[k]) - 4, y.at(up[k]) - 4, 8, 8);
    });
  }

  /** @param {import("../charts/pen.js").Pen} pen @param {number} row @param {Scale} x @param {number[]} box */
  #paintDiagonal(pen, row, x, [left, top, width, height]) {
    const data = /** @type {import("./data.js").FrontierData} */ (this.data);
    const { title, values, low, high } = this.columns[row];
    const counts = new Uint32Array(BINS);
    for (let k = 0; k < values.length; k += 1)
      if (data.held[k]) counts[Math.min(BINS - 1, Math.floor(((values[k] - low) / (high - low)) * BINS))] += 1;
    const most = Math.max(1, ...counts);
    const each = (width - 2 * INSET) / BINS;
    pen.fillStyle = color("accent-soft");
    counts.forEach((count, bin) => {
      const size = (count / most) * (height - 44);
      pen.fillRect(left + INSET + bin * each, top + height - 18 - size, each - 1, size);
    });
    pen.textAlign = "center";
    pen.textBaseline = "middle";
    pen.font = font(12, 600);
    pen.fillStyle = color("text");
    pen.fillText(titleOf({ title, scale: x }), left + width / 2, top + 13);
    pen.font = font(10);
    pen.fillStyle = color("muted");
    for (const { value, text } of x.ticks(3)) {
      const at = Math.min(left + width - 14, Math.max(left + 14, x.at(value)));
      pen.fillText(text, at, top + height - 8);
    }
  }

  /** The row and the column at a place. @param {number} x @param {number} y px */
  #cellAt(x, y) {
    const { width, height } = this.cell;
    const last = this.columns.length - 1;
    return [Math.floor(y / height), Math.floor(x / width)].map((k) => Math.min(last, Math.max(0, k)));
  }

  /** @param {number} x @param {number} y */
  nearest(x, y) {
    if (!this.data || !this.columns.length) return -1;
    const [row, column] = this.#cellAt(x, y);
    if (row === column) return -1;
    const scales = this.#scales(row, column);
    const [across, up] = [this.columns[column].values, this.columns[row].values];
    const at = { x: (/** @type {number} */ k) => scales.x.at(across[k]), y: (/** @type {number} */ k) => scales.y.at(up[k]) };
    const { plans, held } = this.data;
    return nearestSpot(x, y, NEAREST, plans.length, at.x, at.y, (k) => held[k]);
  }

  /** @param {number} k @returns {[number, number]} */
  spot(k) {
    if (this.columns.length < 2) return [0, 0];
    const { x, y } = this.#scales(1, 0);
    return [x.at(this.columns[0].values[k]), y.at(this.columns[1].values[k])];
  }

  /** @param {import("./plan-figure.js").Box} box @returns {Record<string, import("./selection.js").Range>} */
  boundsOf([ax, ay, bx, by]) {
    const [row, column] = this.#cellAt(ax, ay);
    const { x, y } = this.#scales(row, column);
    const across = { [this.columns[column].name]: rangeOf(x, ax, bx) };
    return row === column ? across : { ...across, [this.columns[row].name]: rangeOf(y, ay, by) };
  }

  /** @param {number} x @param {number} y */
  costsAt(x, y) {
    return this.#cellAt(x, y).map((k) => this.columns[k].name);
  }

  /** @param {string} key */
  step(key) {
    const by = KEYS[/** @type {keyof KEYS} */ (key)];
    return by ? this.neighbor(this.columns[0]?.values ?? [], by) : null;
  }
}
