/**
 * The tables beside a timeline: what is predicted and counted, what stages wait for, what takes longest, and the links.
 * @module plan/timeline-tables
 */

import { legend, seriesColor } from "../charts/legend.js";
import { LineChart } from "../charts/lines.js";
import { saveMenu } from "../charts/saving.js";
import { byId, element, fill } from "../dom.js";
import { kindText } from "../exchange-names.js";
import { explained, figure, figureIn, meterCell, numberHead, rowOf, SHARE, shareOf, showTable } from "../tables.js";
import { column, plain, quantity } from "../units.js";
import { linkUse, totals } from "./spans.js";

/** @typedef {import("../trace.js").Trace} Trace */

const MOST_ROWS = 60;
const LEAST_SHARE = 0.05; // of what links can do, that is to be seen below the line which shows it
const TITLES = /** @type {Record<string, string>} */ ({
  time_s: "time",
  peak_memory_bytes: "peak memory",
  traffic_bytes: "traffic",
  compute_flops: "work",
});
const UNITS = /** @type {Record<string, string>} */ ({
  time_s: "s",
  peak_memory_bytes: "B",
  traffic_bytes: "B",
  compute_flops: "flop",
});

/**
 * Predicted costs beside those that an execution counted, and the time that was measured last, with the differences.
 * @param {Record<string, number>} cost of the plan @param {any} counts of an execution, or null
 * @param {any} measured the newest measurement, or undefined
 */
export function showAccounts(cost, counts, measured) {
  const found = [
    { title: "counted", value: (/** @type {string} */ name) => counts?.[name]?.counted },
    ...(measured ? [{ title: "measured", value: (/** @type {string} */ name) => (name === "time_s" ? measured.seconds : undefined) }] : []),
  ];
  const rows = Object.keys(TITLES)
    .filter((name) => name in cost)
    .map((name) => {
      const values = found.map((one) => one.value(name));
      const scale = column([cost[name], ...values.map((value) => value ?? 0)], UNITS[name]);
      const cells = values.flatMap((value) => [
        value === undefined ? figure("–", value) : written(scale, value),
        value === undefined ? figure("", value) : figure(differenceText(value, cost[name]), differenceOf(value, cost[name]), SHARE),
      ]);
      return rowOf(explained(TITLES[name], `cost: ${name}`), [written(scale, cost[name]), ...cells]);
    });
  const heads = ["", numberHead("predicted"), ...found.flatMap((one) => [numberHead(one.title), numberHead("difference")])];
  showTable(byId("accounts"), heads, rows, "Predicted, counted and measured costs");
  byId("accounts-note").hidden = !counts;
}

/** A cell with the unit of its row. @param {import("../units.js").Scale} scale @param {number} value */
function written(scale, value) {
  return figure(`${scale.write(value)} ${scale.name}`, value, scale.unit);
}

/** How far a value is from the predicted one, as a share of that; null where that is nothing. @param {number} counted @param {number} predicted */
function differenceOf(counted, predicted) {
  if (counted === predicted) return 0;
  return predicted ? counted / predicted - 1 : null;
}

/** How far a value is from the predicted one, in words. @param {number} counted @param {number} predicted */
export function differenceText(counted, predicted) {
  const share = differenceOf(counted, predicted);
  if (share === null) return "";
  if (counted === predicted) return "none";
  return Math.abs(share) < 5e-5 ? "below 0.01 %" : `${share > 0 ? "+" : "−"}${plain(Math.abs(share) * 100, 2)} %`;
}

/** What each stage spends its time on. @param {any[]} stages of a schedule @param {number} end s */
export function showWaits(stages, end) {
  const several = stages.length > 1;
  byId("waits-title").textContent = several ? "What each stage spends its time on" : "What devices spend their time on";
  const scale = column([end], "s");
  const share = (/** @type {number} */ seconds, /** @type {string} */ kind) => [
    written(scale, seconds),
    shareOf(end ? seconds / end : 0),
    meterCell(end ? seconds / end : 0, kind),
  ];
  const kinds = /** @type {[string, string, string][]} */ ([
    ["computes_s", "computes", ""],
    ["waits_for_copies_s", "waits for its copies", "second"],
    ["waits_for_stages_s", "waits for other stages (bubbles)", "third"],
  ]);
  const rows = stages.flatMap((one) =>
    kinds
      .filter(([name]) => several || name !== "waits_for_stages_s")
      .map(([name, title, kind]) => rowOf(several ? `stage ${one.stage} ${title}` : title, share(one[name], kind))),
  );
  if (several) {
    const all = (/** @type {string} */ name) => stages.reduce((sum, one) => sum + one[name], 0) / stages.length;
    rows.unshift(...kinds.map(([name, title, kind]) => rowOf(element("strong", {}, `on average ${title}`), share(all(name), kind))));
  }
  showTable(
    byId("waits"),
    ["", numberHead("time", "", "spent: time"), numberHead("share", "", "spent: share"), { name: "", isMeter: true }],
    rows,
    "What stages spend their time on",
  );
}

/**
 * What takes longest: copies, blocks, or their kinds. A click on a name finds it in the timeline.
 * @param {Trace} trace @param {string} what `copies`, `blocks` or `kinds` @param {(total: import("./spans.js").Total) => void} onName
 */
export function showLongest(trace, what, onName) {
  const found =
    what === "kinds"
      ? [...totals(trace, true, true), ...totals(trace, false, true)].sort((a, b) => b.seconds - a.seconds)
      : totals(trace, what === "copies");
  const shown = found.slice(0, MOST_ROWS);
  if (!shown.length) return fill(byId("longest"), element("p", { class: "empty" }, "There are none that take time."));
  const scale = column(
    shown.map(({ seconds }) => seconds),
    "s",
  );
  const most = shown[0].seconds;
  const rows = shown.map((total) => {
    const name = what === "kinds" ? kindText(total.name) || "no kind" : total.name;
    const found = element("button", { type: "button", class: "site", onclick: () => onName(total) }, name);
    const bytes = total.bytes ? quantity(total.bytes, "B") : "";
    const times = total.count > 1 ? `${plain(total.count)} times, ${eachText(total)} each` : "";
    const alike = total.names.size > 1 && what !== "kinds" ? "with others alike" : "";
    const note = [what === "kinds" ? "" : kindText(total.kind), alike, times, bytes];
    return rowOf(
      [found, element("div", { class: "muted small" }, note.filter(Boolean).join(", "))],
      [
        figureIn(scale, total.seconds),
        trace.hasPath ? (total.critical ? figureIn(scale, total.critical) : figure("–", 0, scale.unit)) : null,
        meterCell(total.seconds / most, what === "copies" ? "second" : ""),
      ],
    );
  });
  const heads = [
    "",
    numberHead("time", scale.name, "longest: time"),
    ...(trace.hasPath ? [numberHead("critical")] : []),
    { name: "", isMeter: true },
  ];
  return showTable(byId("longest"), heads, rows, "What takes longest", { file: () => longestRows(found, trace.hasPath) });
}

/** What takes longest, with exact figures. @param {import("./spans.js").Total[]} found @param {boolean} hasPath @returns {unknown[][]} */
function longestRows(found, hasPath) {
  const rows = found.map(({ name, kind, count, seconds, critical, bytes }) => [name, kind, count, seconds, ...(hasPath ? [critical] : []), bytes]);
  return [["name", "kind", "times", "time (s)", ...(hasPath ? ["critical (s)"] : []), "bytes (B)"], ...rows];
}

/** How long each of several takes: one time, or from the least to the most. @param {import("./spans.js").Total} total */
function eachText({ least, most }) {
  const { name, write } = column([least, most], "s");
  return least < most && write(least) !== write(most) ? `${write(least)} to ${write(most)} ${name}` : `${write(most)} ${name}`;
}

/** The use of the links over time. */
export class LinkUse {
  constructor() {
    this.chart = new LineChart(byId("link-use"), "Bytes per second over time, by mesh axis; the longest copies are in the table above");
    /** @type {{name: string, color: string, x: Float64Array, y: Float64Array, kind: "area" | "step"}[]} */
    this.series = [];
    fill(
      byId("link-use-menu"),
      saveMenu(
        this.chart,
        () => "link-use",
        () => [["seconds", ...this.series.map(({ name }) => `${name} B/s`)], ...this.#rows()],
      ),
    );
  }

  #rows() {
    const [first] = this.series;
    return [...(first?.x ?? [])].map((time, k) => [time, ...this.series.map(({ y }) => y[k])]);
  }

  /** @param {Trace} trace @param {number} left px that the timeline has at the left of its axis */
  show(trace, left) {
    this.chart.leastLeft = left;
    const used = linkUse(trace).filter(({ y }) => y.some((rate) => rate > 0));
    const kind = used.length > 1 ? "step" : "area";
    this.series = used.map((one, k) => ({ ...one, kind, name: one.name || "all axes", color: k ? seriesColor(k + 1) : "communication" }));
    byId("link-use-frame").hidden = !this.series.length;
    if (!this.series.length) return;
    fill(byId("link-use-legend"), legend(used.map((one, k) => ({ ...this.series[k], name: useText(one, this.series[k].name, trace.end) }))));
    const levels = used.flatMap(({ name, rate, y }) =>
      rate && mostOf(y) >= LEAST_SHARE * rate ? [{ y: rate, name: `all links of ${name}: ${quantity(rate, "B/s")}` }] : [],
    );
    this.chart.show({ series: this.series, x: { title: "time", unit: "s" }, y: { title: "all devices receive", unit: "B/s" }, levels });
    this.chart.look(0, trace.end);
  }

  /** Show the same part of the time as the timeline. @param {number} from @param {number} to s */
  look(from, to) {
    this.chart.look(from, to);
  }
}

/** @param {Float64Array} y */
function mostOf(y) {
  return y.reduce((most, value) => Math.max(most, value), 0);
}

/**
 * How far the links of an axis are used, at most and on average.
 * @param {{rate: number | null, x: Float64Array, y: Float64Array}} use @param {string} name @param {number} end s
 */
function useText({ rate, x, y }, name, end) {
  if (!rate) return name;
  const bytes = y.reduce((sum, value, k) => sum + (k + 1 < x.length ? value * (x[k + 1] - x[k]) : 0), 0);
  const share = (/** @type {number} */ part) => (part < 0.001 ? "below 0.1 %" : `${plain(part * 100, 1)} %`);
  return `${name}: at most ${share(mostOf(y) / rate)} of ${quantity(rate, "B/s")}, on average ${share(bytes / end / rate)}`;
}
