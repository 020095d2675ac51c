/**
 * What all plots have in common: fonts, colors, axes; Plotly itself comes with the page.
 * @module plotting
 */

import { color, isDark } from "./colors.js";

/** @type {any} */
const plotly = /** @type {any} */ (window).Plotly;

export const CONFIG = {
  displaylogo: false,
  responsive: true,
  modeBarButtonsToRemove: ["select2d", "lasso2d", "autoScale2d"],
};

/** Light for little, so that the best stand out; the other way round in the dark. */
export function colorScale() {
  const stops = ["#2b1d6e", "#3f4fb5", "#2f86c1", "#2bb0a5", "#7fce7a", "#e3dd5b"];
  const shown = isDark()
    ? ["#5b6ef0", "#3f9fe0", "#2fc4b2", "#8fdc84", "#f0e869", "#fff7c2"]
    : stops.slice(0, 5);
  return shown.map((stop, k) => [k / (shown.length - 1), stop]);
}

/** @param {Record<string, any>} more */
export function axis(more) {
  return {
    gridcolor: color("grid"),
    linecolor: color("line-strong"),
    tickcolor: color("line-strong"),
    zeroline: false,
    showline: true,
    ticks: "outside",
    ticklen: 4,
    automargin: true,
    exponentformat: "none",
    ...more,
  };
}

/** @param {Record<string, any>} more */
export function layout(more) {
  return {
    paper_bgcolor: "rgba(0,0,0,0)",
    plot_bgcolor: "rgba(0,0,0,0)",
    font: { family: getComputedStyle(document.body).fontFamily, size: 12, color: color("text") },
    hoverlabel: {
      bgcolor: color("raised"),
      bordercolor: color("line-strong"),
      font: { color: color("text"), size: 12 },
      align: "left",
    },
    margin: { l: 56, r: 12, t: 8, b: 44 },
    showlegend: false,
    ...more,
  };
}

/** @param {Element} place @param {any[]} traces @param {any} shape @param {any} [config] */
export function draw(place, traces, shape, config = {}) {
  return plotly.react(place, traces, shape, { ...CONFIG, ...config });
}

/**
 * Give one trace other points, and leave the rest as it is drawn.
 * @param {Element} place @param {number} trace its number @param {number[]} x @param {number[]} y
 */
export function move(place, trace, x, y) {
  return plotly.restyle(place, { x: [x], y: [y] }, [trace]);
}
