/**
 * The frontier over two of its objectives, coloured by a third; points lead to their plans.
 * @module frontier-plot
 */

import { pages } from "./api.js";
import { colour, onTheme } from "./colours.js";
import { MEANINGS } from "./marks.js";
import { axis, colourScale, draw, layout, move } from "./plotting.js";
import { column } from "./units.js";

/** @typedef {import("./marks.js").Plan} Plan */
/** @typedef {{name: string, unit: string, title: string}} Objective */
/** @typedef {{x: string, y: string, colour: string, isLogX: boolean, isLogY: boolean}} View */

const MARKS = [
  ["fastest", "triangle-left-open"],
  ["knee", "diamond-open"],
  ["smallest", "triangle-down-open"],
];

/** The number of the trace that points a plan out: the last one, after the line, the points and the marks. */
const RING = 2 + MARKS.length;

/** A scatter plot that keeps its zoom while points come and go. */
export class FrontierPlot {
  /** @param {HTMLElement} place */
  constructor(place) {
    this.place = place;
    this.isWired = false;
    /** @type {{plans: Plan[], objectives: Objective[], marks: Map<string, string[]>, view: View} | null} */
    this.shown = null;
    /** @type {string | null} */
    this.pointed = null;
    /** Where each plan is drawn. @type {Map<string, [number, number]> | null} */
    this.at = null;
    onTheme(() => this.redraw());
  }

  /** @param {NonNullable<FrontierPlot["shown"]>} content */
  show(content) {
    this.shown = content;
    this.redraw();
  }

  /** Draw a ring around a plan's point, or none. @param {string | null} id */
  point(id) {
    if (id === this.pointed || !this.at) return;
    this.pointed = id;
    const at = id === null ? undefined : this.at.get(id);
    move(this.place, RING, at ? [at[0]] : [], at ? [at[1]] : []);
  }

  redraw() {
    if (!this.shown) return;
    const { plans, objectives, marks, view } = this.shown;
    const of = (/** @type {string} */ name) => {
      const { unit, title } = objectives.find((objective) => objective.name === name) ?? { unit: "", title: name };
      const scale = column(plans.map((plan) => plan.cost[name]), unit);
      return { ...scale, title: scale.name ? `${title} (${scale.name})` : title, values: plans.map((plan) => plan.cost[name] / scale.factor) };
    };
    const [x, y, third] = [of(view.x), of(view.y), of(view.colour)];
    this.at = new Map(plans.map((plan, k) => [plan.id, [x.values[k], y.values[k]]]));
    const labels = plans.map((plan) => hoverText(plan, objectives, marks.get(plan.id) ?? []));
    const points = {
      type: "scatter",
      mode: "markers",
      x: x.values,
      y: y.values,
      text: labels,
      customdata: plans.map((plan) => plan.id),
      hovertemplate: "%{text}<extra></extra>",
      showlegend: false,
      marker: {
        size: 10,
        color: third.values,
        colorscale: colourScale(),
        line: { width: 1, color: colour("surface") },
        colorbar: { title: { text: third.title, side: "right" }, thickness: 12, outlinewidth: 0, exponentformat: "none" },
      },
    };
    const isUsable = { x: !view.isLogX || x.values.every((value) => value > 0), y: !view.isLogY || y.values.every((value) => value > 0) };
    const shape = layout({
      uirevision: JSON.stringify(view),
      hovermode: "closest",
      margin: { l: 64, r: 8, t: 8, b: 52 },
      xaxis: axis({ title: { text: x.title, standoff: 10 }, type: view.isLogX && isUsable.x ? "log" : "linear", ...ticks(view.isLogX) }),
      yaxis: axis({ title: { text: y.title, standoff: 10 }, type: view.isLogY && isUsable.y ? "log" : "linear", ...ticks(view.isLogY) }),
      showlegend: true,
      legend: { orientation: "h", x: 1, y: 1.01, xanchor: "right", yanchor: "bottom", itemclick: false, itemdoubleclick: false },
    });
    draw(this.place, [staircase(x.values, y.values), points, ...this.#marked(plans, marks, x.values, y.values)], shape);
    this.#wire();
  }

  /** @param {Plan[]} plans @param {Map<string, string[]>} marks @param {number[]} x @param {number[]} y */
  #marked(plans, marks, x, y) {
    const rings = MARKS.map(([mark, symbol]) => {
      const at = plans.findIndex((plan) => marks.get(plan.id)?.includes(mark));
      return {
        type: "scatter",
        mode: "markers",
        name: mark,
        x: at < 0 ? [] : [x[at]],
        y: at < 0 ? [] : [y[at]],
        hoverinfo: "skip",
        marker: { symbol, size: 19, color: colour(`mark-${mark}`), line: { width: 2.5, color: colour(`mark-${mark}`) } },
      };
    });
    const at = plans.findIndex((plan) => plan.id === this.pointed);
    const ring = { symbol: "circle-open", size: 24, color: colour("accent"), line: { width: 2, color: colour("accent") } };
    const pointed = { type: "scatter", mode: "markers", showlegend: false, hoverinfo: "skip", marker: ring };
    return [...rings, { ...pointed, x: at < 0 ? [] : [x[at]], y: at < 0 ? [] : [y[at]] }];
  }

  #wire() {
    if (this.isWired) return;
    this.isWired = true;
    const place = /** @type {any} */ (this.place);
    place.on("plotly_click", (/** @type {any} */ event) => {
      const id = event.points.find((/** @type {any} */ point) => point.customdata)?.customdata;
      if (id) location.assign(pages.plan(id));
    });
  }
}

/** On a logarithmic axis only the telling ticks. @param {boolean} isLog */
function ticks(isLog) {
  return isLog ? { dtick: "D2", tickformat: "~g" } : {};
}

/** @param {Plan} plan @param {Objective[]} objectives @param {string[]} marks */
function hoverText(plan, objectives, marks) {
  const lines = objectives.map(({ name, unit, title }) => {
    const scale = column([plan.cost[name]], unit);
    return `${title}: ${scale.write(plan.cost[name])} ${scale.name}`;
  });
  const heads = marks.map((mark) => `${mark}: ${MEANINGS[/** @type {keyof MEANINGS} */ (mark)]}`);
  const devices = plan.devices === "all" ? [] : [`on ${plan.devices}`];
  return [`<b>${plan.plan}</b>`, ...heads, ...lines, ...devices].join("<br>");
}

/**
 * The plans that are best for these two objectives alone, as a line of steps.
 * @param {number[]} x @param {number[]} y
 */
function staircase(x, y) {
  const order = x.map((_, k) => k).sort((a, b) => x[a] - x[b] || y[a] - y[b]);
  const corners = [];
  let least = Infinity;
  for (const k of order) {
    if (y[k] >= least) continue;
    least = y[k];
    corners.push(k);
  }
  return {
    type: "scatter",
    mode: "lines",
    x: corners.map((k) => x[k]),
    y: corners.map((k) => y[k]),
    line: { shape: "hv", width: 1.5, color: colour("line-strong"), dash: "dot" },
    hoverinfo: "skip",
    name: "best of these two",
  };
}
