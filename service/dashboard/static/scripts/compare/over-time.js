/**
 * Memory curves over each other and timelines above each other: one cursor, and one part of the time for all.
 * @module compare/over-time
 */

import { get, problemOf } from "../api.js";
import { seriesColor } from "../charts/legend.js";
import { LineChart } from "../charts/lines.js";
import { lastUpTo } from "../charts/ordered.js";
import { saveMenu } from "../charts/saving.js";
import { byId, element, fill, say } from "../dom.js";
import { MemoryCurve } from "../plan/memory-model.js";
import { Timeline } from "../timeline.js";
import { scheduledTrace } from "../trace.js";
import { quantity } from "../units.js";
import { showSubjectTable, together } from "./subjects.js";

const LABELS = 130; // px: the same for all timelines, so that equal times stand above each other

/** @param {string[]} ids of plans @param {import("./subjects.js").Subjects} subjects */
export async function showOverTime(ids, subjects) {
  const lost = /** @type {string[]} */ ([]);
  const of = async (/** @type {string} */ id, /** @type {string} */ what) => {
    try {
      return await get(`/v1/plans/${encodeURIComponent(id)}/${what}`);
    } catch (error) {
      lost.push(`${what} of ${id.split("-").pop()}: ${problemOf(error).message}`);
      return null;
    }
  };
  const memories = await Promise.all(ids.map((id) => of(id, "memory")));
  const schedules = await Promise.all(ids.map((id) => of(id, "schedule")));
  say(byId("over-status"), lost.join("; "));
  new OverTime(memories, schedules, subjects);
}

class OverTime {
  /** @param {any[]} memories @param {any[]} schedules @param {import("./subjects.js").Subjects} subjects */
  constructor(memories, schedules, subjects) {
    this.subjects = subjects;
    /** The moment of the cursor, s. @type {number | null} */
    this.time = null;
    /** The part that is shown, s. @type {[number, number] | null} */
    this.part = null;
    this.isMoving = false; // views report what they are made to show, too
    /** @type {(HTMLElement | null)[]} */
    this.frames = [];
    /** @type {(Timeline | null)[]} */
    this.timelines = [];
    this.curves = memories.map((document) => (document ? curveOf(document) : null));
    this.traces = schedules.map((schedule) => (schedule ? scheduledTrace(schedule) : null));
    this.end = Math.max(...this.curves.map((one) => one?.end ?? 0), ...this.traces.map((one) => one?.end ?? 0));
    this.chart = new LineChart(byId("memory-curves"), "", {
      onCursor: (time) => this.#point(time, this.chart),
      onView: (from, to) => this.#look(Math.max(0, from), Math.min(this.end, to), this.chart),
    });
    this.#showTimelines();
    this.chart.leastLeft = Math.max(0, ...this.timelines.map((one) => one?.labels ?? 0));
    this.#showMemory();
    fill(byId("memory-menu"), saveMenu(this.chart, () => "memory", () => this.chart.rows()));
    this.chart.look(0, this.end);
    subjects.onPoint(() => this.#showMemory());
    subjects.onPoint((k) => this.frames.forEach((frame, j) => frame?.classList.toggle("is-pointed", j === k)));
    byId("zoom-in").addEventListener("click", () => this.#zoom(0.5));
    byId("zoom-out").addEventListener("click", () => this.#zoom(2));
    byId("zoom-whole").addEventListener("click", () => this.#look(0, this.end, null));
    this.#moments(null);
  }

  #showTimelines() {
    this.traces.forEach((trace, k) => {
      const place = element("div", {});
      const { name } = this.subjects.all[k];
      const head = element("div", { class: "row" }, element("h3", { class: "mono" }, name));
      const frame = trace
        ? element("section", { class: "compared-timeline", "aria-label": `Timeline of ${name}` }, head, place)
        : null;
      this.frames.push(frame);
      this.timelines.push(null);
      if (!frame || !trace) return;
      frame.style.borderLeftColor = `var(--${seriesColor(k)})`;
      byId("timelines").append(frame);
      const timeline = new Timeline(
        place,
        (from, to) => this.#look(from, to, timeline),
        (time) => this.#point(time, timeline),
      );
      timeline.least = this.end;
      timeline.leastLabels = LABELS;
      this.timelines[k] = timeline;
      timeline.show(trace);
      head.append(element("span", { class: "spread" }, saveMenu(timeline, () => `${name}.timeline`, () => timeline.rows())));
      frame.addEventListener("pointerenter", () => this.subjects.point(k));
      frame.addEventListener("pointerleave", () => this.subjects.point(-1));
    });
  }

  #showMemory() {
    const series = this.curves.flatMap((one, k) =>
      one ? [{ name: this.subjects.all[k].name, color: this.subjects.shade(k), kind: /** @type {const} */ ("step"), x: one.x, y: one.y }] : [],
    );
    const peaks = this.curves.map((one, k) => (one ? `${this.subjects.all[k].name} at most ${quantity(one.peak, "B")}` : "")).filter(Boolean);
    this.chart.describe(`Memory of the fullest device of each plan over time: ${peaks.join(", ")}; the table below has what lives at the cursor`);
    this.chart.show({ series, x: { title: "time", unit: "s" }, y: { title: "live", unit: "B" } });
  }

  /** @param {number | null} time @param {any} from who has moved the cursor */
  #point(time, from) {
    if (time === this.time || this.isMoving) return;
    this.time = time;
    this.isMoving = true;
    together(() => {
      for (const view of [this.chart, ...this.timelines]) if (view && view !== from) view.point(time);
      if (from && from !== this.chart) from.point(time);
      this.#moments(time);
    });
    this.isMoving = false;
  }

  /** @param {number} from @param {number} to s @param {any} by who has zoomed */
  #look(from, to, by) {
    if (this.isMoving) return;
    this.isMoving = true;
    this.part = [from, to];
    together(() => {
      for (const view of [this.chart, ...this.timelines]) if (view && view !== by) view.look(from, to);
    });
    this.isMoving = false;
  }

  /** @param {number} factor */
  #zoom(factor) {
    const [from, to] = this.part ?? [0, this.end];
    const middle = this.time ?? (from + to) / 2;
    const span = Math.min(this.end, (to - from) * factor);
    const start = Math.max(0, Math.min(this.end - span, middle - span / 2));
    this.#look(start, start + span, null);
  }

  /** What each plan does at a moment; without one, at its peak. @param {number | null} time */
  #moments(time) {
    const live = this.curves.map((one) => {
      if (!one || time === null) return one?.peak;
      const k = lastUpTo(one.x, time);
      return k < 0 || time > one.end ? undefined : one.y[k];
    });
    const ends = this.traces.map((trace) => trace?.end);
    const written = (/** @type {(number | undefined)[]} */ values, /** @type {string} */ base) => ({ values, base, cells: values.map((value) => (value === undefined ? "–" : quantity(value, base))) });
    const doing = this.traces.map((trace) => (trace && time !== null ? doingAt(trace, time) : "–"));
    const rows = [
      { title: time === null ? "lives at the peak" : `lives at ${quantity(time, "s")}`, about: "lives at", ...written(live, "B") },
      ...(time === null ? [{ title: "ends after", about: "ends after", ...written(ends, "s") }] : [{ title: "runs", cells: doing }]),
    ];
    showSubjectTable(byId("moments"), this.subjects, rows, { label: "At the cursor" });
  }
}

/** @param {any} document of a plan's memory */
function curveOf(document) {
  const curve = new MemoryCurve(document, document.peak.class);
  const y = Float64Array.from([...curve.times].map((_, k) => curve.total(k)));
  const x = Float64Array.from([...curve.times, document.end_s]);
  return { x, y: Float64Array.from([...y, y[y.length - 1]]), end: document.end_s, peak: curve.own.peak_bytes };
}

/** The block that the first stage runs at a moment. @param {import("../trace.js").Trace} trace @param {number} time */
function doingAt(trace, time) {
  if (time > trace.end) return "has ended";
  const lane = trace.devices[0]?.lanes[0];
  const k = lane ? lastUpTo(lane.starts, time) : -1;
  return lane && k >= 0 && lane.ends[k] >= time ? lane.names[k] : "waits";
}
