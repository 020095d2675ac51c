/**
 * The frontier over two of its objectives, colored by a third; points lead to their plans.
 * @module frontier-plot
 */

import { pages } from "./api.js";
import { color, onTheme } from "./colors.js";
import { MEANINGS } from "./marks.js";
import { axis, colorScale, draw, layout, move } from "./plotting.js";
import { column, plain } from "./units.js";

/** @typedef {import("./marks.js").Plan} Plan */
/** @typedef {{name: string, unit: string, title: string}} Objective */
/** @typedef {{x: string, y: string, color: string, isLogX: boolean, isLogY: boolean}} View */
/**
 * `objectives` are all that could be shown, `chosen` those of the run.
 * @typedef {{plans: Plan[], objectives: Objective[], chosen: Objective[], marks: Map<string, string[]>, view: View}} Content
 */

const MARKS = [
  ["fastest", "triangle-left-open"],
  ["knee", "diamond-open"],
  ["smallest", "triangle-down-open"],
];

const LEGEND = {
  orientation: "h",
  x: 1,
  y: 1.01,
  xanchor: "right",
  yanchor: "bottom",
  itemclick: false,
  itemdoubleclick: false,
};

/** The number of the trace that points a plan out: the last one, after the line, the points and the marks. */
const RING = 2 + MARKS.length;

/** A scatter plot that keeps its zoom while points come and go. */
export class FrontierPlot {
  /** @param {HTMLElement} place */
  constructor(place) {
    this.place = place;
    this.isWired = false;
    /** @type {Content | null} */
    this.shown = null;
    /** @type {string | null} */
    this.pointed = null;
    /** Where each plan is drawn. @type {Map<string, [number, number]> | null} */
    this.at = null;
    onTheme(() => this.redraw());
  }

  /** @param {Content} content */
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
    const { plans, objectives, chosen, marks, view } = this.shown;
    const [x, y, third] = [view.x, view.y, view.color].map((name) => scaled(plans, objectives, name));
    this.at = new Map(plans.map((plan, k) => [plan.id, [x.values[k], y.values[k]]]));
    const texts = plans.map((plan) => hoverText(plan, chosen, marks.get(plan.id) ?? []));
    const traces = [
      staircase(x.values, y.values),
      points(x.values, y.values, third, texts, plans),
      ...this.#marked(plans, marks),
    ];
    const shape = layout({
      uirevision: JSON.stringify(view),
      hovermode: "closest",
      margin: { l: 64, r: 8, t: 8, b: 52 },
      xaxis: axisOf(x, view.isLogX),
      yaxis: axisOf(y, view.isLogY),
      showlegend: true,
      legend: LEGEND,
    });
    draw(this.place, traces, shape);
    this.#wire();
  }

  /** Symbols around the marked plans, and the ring around the one that is pointed out. @param {Plan[]} plans @param {Map<string, string[]>} marks */
  #marked(plans, marks) {
    const around = (/** @type {string | null | undefined} */ id) => {
      const at = id ? this.at?.get(id) : undefined;
      return {
        type: "scatter",
        mode: "markers",
        hoverinfo: "skip",
        x: at ? [at[0]] : [],
        y: at ? [at[1]] : [],
      };
    };
    const symbols = MARKS.map(([mark, symbol]) => {
      const line = { width: 2.5, color: color(`mark-${mark}`) };
      const id = plans.find((plan) => marks.get(plan.id)?.includes(mark))?.id;
      return { ...around(id), name: mark, marker: { symbol, size: 19, color: line.color, line } };
    });
    const line = { width: 2, color: color("accent") };
    const ring = { symbol: "circle-open", size: 24, color: line.color, line };
    return [...symbols, { ...around(this.pointed), showlegend: false, marker: ring }];
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

/** @typedef {{title: string, values: number[]}} Scaled */

/**
 * What the plans cost, in a readable unit.
 * @param {Plan[]} plans @param {Objective[]} objectives @param {string} name
 * @returns {Scaled}
 */
function scaled(plans, objectives, name) {
  const { unit, title } = objectives.find((objective) => objective.name === name) ?? {
    unit: "",
    title: name,
  };
  const costs = plans.map((plan) => plan.cost[name]);
  const scale = column(costs, unit);
  const values = costs.map((cost) => cost / scale.factor);
  return { title: scale.name ? `${title} (${scale.name})` : title, values };
}

/** An axis; nothing is shown logarithmically that is zero somewhere. @param {Scaled} scale @param {boolean} isLog */
function axisOf({ title, values }, isLog) {
  if (!isLog) return axis({ title: { text: title, standoff: 10 } });
  const [low, high] = [Math.min(...values), Math.max(...values)];
  if (low <= 0) return axis({ title: { text: `${title}; not log, it has zeros`, standoff: 10 } });
  return axis({
    title: { text: title, standoff: 10 },
    type: "log",
    dtick: high / low < 30 ? "D1" : "D2",
    tickformat: "~g",
  });
}

/**
 * @param {number[]} x @param {number[]} y @param {Scaled} third @param {string[]} texts @param {Plan[]} plans
 */
function points(x, y, third, texts, plans) {
  return {
    type: "scatter",
    mode: "markers",
    x,
    y,
    text: texts,
    customdata: plans.map((plan) => plan.id),
    hovertemplate: "%{text}<extra></extra>",
    showlegend: false,
    marker: {
      size: 10,
      color: third.values,
      colorscale: colorScale(),
      line: { width: 1, color: color("surface") },
      colorbar: {
        title: { text: third.title, side: "right" },
        thickness: 12,
        outlinewidth: 0,
        exponentformat: "none",
      },
    },
  };
}

/** @param {Plan} plan @param {Objective[]} objectives @param {string[]} marks */
function hoverText(plan, objectives, marks) {
  const lines = objectives.map(({ name, unit, title }) => {
    const scale = column([plan.cost[name]], unit);
    return `${title}: ${scale.write(plan.cost[name])} ${scale.name}`;
  });
  const heads = marks.map((mark) => `${mark}: ${MEANINGS[/** @type {keyof MEANINGS} */ (mark)]}`);
  const devices = plan.devices === "all" ? [] : [`on ${plan.devices}`];
  const rounds = plan.micro_batches > 1 ? [`in ${plan.micro_batches} micro-batches`] : [];
  const again = plan.recompute ? [`${plain(plan.recompute.blocks)} blocks computed again`] : [];
  const host = plan.offload ? [`${plain(plan.offload.values + plan.offload.states)} tensors on the host`] : [];
  const stages = plan.stages ? [`in ${plan.stages.count} stages, by the schedule ${plan.stages.schedule}`] : [];
  return [`<b>${plan.plan}</b>`, ...heads, ...lines, ...devices, ...rounds, ...stages, ...again, ...host].join("<br>");
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
    line: { shape: "hv", width: 1.5, color: color("line-strong"), dash: "dot" },
    hoverinfo: "skip",
    name: "best of these two",
  };
}
