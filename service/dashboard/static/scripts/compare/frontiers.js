/**
 * The frontiers of several runs over each other, over two costs.
 * @module compare/frontiers
 */

import { pages } from "../api.js";
import { frameOf, paintAxes } from "../charts/axes.js";
import { Figure } from "../charts/figure.js";
import { extent, Scale } from "../charts/scale.js";
import { leastOf, nearestSpot, paintSteps, trace } from "../charts/spots.js";
import { color } from "../colors.js";
import { element } from "../dom.js";
import { quantity } from "../units.js";

/** @typedef {{plan: string, cost: Record<string, number>}} Point */
/** @typedef {{name: string, unit: string, title: string}} Objective */

const NEAREST = 18; // px
const FORMS = ["circle", "square", "up", "diamond"]; // runs differ in form, too
const EMPTY = { x: new Float64Array(0), y: new Float64Array(0) };
const RADIUS = 4.5; // px

/** A scatter plot with a color and a form per run. Arrow keys go from point to point, Enter opens the plan. */
export class ComparedFrontiers extends Figure {
  /** @param {HTMLElement} place @param {import("./subjects.js").Subjects} subjects */
  constructor(place, subjects) {
    super(place, "The frontiers over two costs");
    this.subjects = subjects;
    /** @type {{run: number, point: Point, x: number, y: number}[]} in the order of x */
    this.points = [];
    /** The costs of the points, and where these are, px. */
    this.columns = EMPTY;
    this.at = EMPTY;
    this.pointed = -1;
    this.isLog = false;
    subjects.onPoint(() => this.redraw());
    this.canvas.addEventListener("click", () => this.#open());
    this.canvas.addEventListener("keydown", (/** @type {KeyboardEvent} */ event) => this.#key(event));
  }

  /** @param {Point[][]} frontiers @param {Objective} x @param {Objective} y @param {boolean} isLog */
  show(frontiers, x, y, isLog) {
    this.x = x;
    this.y = y;
    this.isLog = isLog;
    this.points = frontiers
      .flatMap((points, run) => points.map((point) => ({ run, point, x: point.cost[x.name], y: point.cost[y.name] })))
      .sort((a, b) => a.x - b.x || a.y - b.y);
    this.columns = { x: Float64Array.from(this.points, (one) => one.x), y: Float64Array.from(this.points, (one) => one.y) };
    this.at = EMPTY;
    this.pointed = -1;
    this.describe(
      `${this.points.length} plans of ${frontiers.length} runs, ${x.title} across and ${y.title} up; the table of best values has the extremes`,
    );
    this.redraw();
  }

  /** @param {import("../charts/pen.js").Pen} pen @param {number} width @param {number} height */
  paint(pen, width, height) {
    if (!this.points.length || !this.x || !this.y) return;
    const options = { margin: 0.05, isLog: this.isLog };
    const [low, high] = extent(this.columns.x, options) ?? [0, 1];
    const [bottom, top] = extent(this.columns.y, options) ?? [0, 1];
    const across = { title: this.x.title, scale: new Scale(low, high, { unit: this.x.unit, isLog: this.isLog }) };
    const up = { title: this.y.title, scale: new Scale(bottom, top, { unit: this.y.unit, isLog: this.isLog }) };
    paintAxes(pen, frameOf(width, height, up), across, up);
    this.at = {
      x: this.columns.x.map((value) => across.scale.at(value)),
      y: this.columns.y.map((value) => up.scale.at(value)),
    };
    const last = this.subjects.pointed;
    const order = this.subjects.all.map((_, k) => k).sort((a, b) => Number(a === last) - Number(b === last));
    for (const run of order) this.#paintRun(pen, run);
    if (this.pointed < 0) return;
    pen.strokeStyle = color("text");
    pen.lineWidth = 2;
    trace(pen, "circle", this.at.x[this.pointed], this.at.y[this.pointed], RADIUS + 4);
    pen.stroke();
  }

  /** @param {import("../charts/pen.js").Pen} pen @param {number} run */
  #paintRun(pen, run) {
    const own = this.points.flatMap((one, k) => (one.run === run ? [k] : []));
    const ink = color(this.subjects.shade(run));
    pen.strokeStyle = pen.fillStyle = ink;
    pen.lineWidth = 1.5;
    paintSteps(pen, leastOf(own, this.columns.x, this.columns.y), this.at.x, this.at.y);
    for (const k of own) {
      trace(pen, FORMS[run % FORMS.length], this.at.x[k], this.at.y[k], RADIUS);
      pen.fill();
    }
  }

  /** @param {number} x @param {number} y */
  hover(x, y) {
    const { at } = this;
    const nearest = nearestSpot(x, y, NEAREST, at.x.length, (k) => at.x[k], (k) => at.y[k]);
    nearest < 0 ? this.leave() : this.#point(nearest);
  }

  leave() {
    super.leave();
    this.pointed = -1;
    this.canvas.style.cursor = "";
    this.subjects.point(-1);
    this.redraw();
  }

  /** @param {number} k */
  #point(k) {
    this.pointed = k;
    const { run, point, x, y } = this.points[k];
    this.canvas.style.cursor = "pointer";
    this.subjects.point(run);
    this.explain(
      this.at.x[k] ?? 0,
      this.at.y[k] ?? 0,
      element("strong", {}, `${this.subjects.all[run].name}, plan ${point.plan.split("-").pop()}`),
      element("div", {}, `${this.x?.title}: ${quantity(x, this.x?.unit ?? "")}`),
      element("div", {}, `${this.y?.title}: ${quantity(y, this.y?.unit ?? "")}`),
    );
    this.redraw();
  }

  #open() {
    const found = this.points[this.pointed];
    if (found) location.assign(pages.plan(found.point.plan));
  }

  /** @param {KeyboardEvent} event */
  #key(event) {
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (step && this.points.length) this.#point(Math.max(0, Math.min(this.points.length - 1, this.pointed + step)));
    else if (event.key === "Enter") this.#open();
    else if (event.key === "Escape") this.leave();
    else return;
    event.preventDefault();
  }

  /** The points as rows, with their names first. @returns {unknown[][]} */
  rows() {
    const names = [this.x?.name ?? "", this.y?.name ?? ""];
    return [["run", "plan", ...names], ...this.points.map((one) => [this.subjects.all[one.run].name, one.point.plan, one.x, one.y])];
  }
}
