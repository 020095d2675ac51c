/**
 * The section on memory: what lives on a device over time by role, and at a moment, by default that of the peak.
 * @module plan/memory
 */

import { keepChoice } from "../address.js";
import { get } from "../api.js";
import { legend, seriesColor, swatch } from "../charts/legend.js";
import { LineChart } from "../charts/lines.js";
import { saveMenu } from "../charts/saving.js";
import { byId, element, fill, say } from "../dom.js";
import { readableBuffer } from "../notations.js";
import { errorNotice } from "../notice.js";
import { figure, figureIn, meterCell, numberHead, rowOf, shareOf, showTable } from "../tables.js";
import { column, percent, plain, quantity, several } from "../units.js";
import { MemoryCurve } from "./memory-model.js";
import { whenNear } from "./near.js";

const MOST_ROWS = 100;
const NEAR_CAPACITY = 0.4; // of the capacity, from which it is drawn

/** Fill the section once it is near. @param {any} plan */
export function showMemory(plan) {
  whenNear(byId("memory"), async () => {
    try {
      const document = await get(plan.links.memory);
      byId("memory-frame").hidden = false;
      new MemorySection(plan, document);
    } catch (error) {
      fill(byId("memory-problem"), errorNotice(error));
    }
    say(byId("memory-status"), "");
  });
}

class MemorySection {
  /** @param {any} plan @param {any} document */
  constructor(plan, document) {
    this.plan = plan;
    this.document = document;
    /** @type {MemoryCurve} */
    this.curve = new MemoryCurve(document, document.peak.class);
    this.kept = this.sample = document.peak.sample;
    this.chart = new LineChart(byId("memory-chart"), "", { onCursor: (time) => this.#point(time) });
    this.chart.canvas.addEventListener("click", () => (this.kept = this.sample));
    this.chart.canvas.addEventListener("keydown", (/** @type {KeyboardEvent} */ event) => {
      if (event.key === "Enter") this.kept = this.sample;
      if (event.key === "Escape") this.#moment((this.kept = this.curve.own.peak_sample));
    });
    this.#classes();
    this.#roles();
    fill(byId("memory-menu"), saveMenu(this.chart, () => `${plan.id}.memory`, () => this.#rows()));
    this.#show();
    keepChoice("memory", byId("memory-class"));
    keepChoice("role", byId("memory-role"));
  }

  #classes() {
    const { classes, peak } = this.document;
    byId("memory-class-label").hidden = classes.length < 2;
    const name = (/** @type {any} */ one) => `${devicesText(one.devices)}: ${quantity(one.peak_bytes, "B")}`;
    fill(
      byId("memory-class"),
      ...classes.map((/** @type {any} */ one, /** @type {number} */ k) => element("option", { value: k }, name(one))),
    );
    byId("memory-class").value = String(peak.class);
    byId("memory-class").addEventListener("change", () => {
      this.curve = new MemoryCurve(this.document, Number(byId("memory-class").value));
      this.kept = this.sample = this.curve.own.peak_sample;
      this.#show();
    });
  }

  #roles() {
    const used = new Set(this.document.allocations.role);
    const names = this.document.roles.filter((/** @type {string} */ _, /** @type {number} */ k) => used.has(k));
    fill(byId("memory-role"), element("option", { value: "" }, "any"), ...names.map((/** @type {string} */ name) => element("option", { value: name }, name)));
    byId("memory-role").addEventListener("change", () => this.#moment(this.sample));
  }

  #show() {
    const { own, times, roles } = this.curve;
    const x = Float64Array.from([...times, this.document.end_s]);
    const series = this.document.roles
      .map((/** @type {string} */ name, /** @type {number} */ k) => ({
        name,
        color: seriesColor(k),
        kind: /** @type {"area"} */ ("area"),
        x,
        y: Float64Array.from([...roles[k], roles[k][roles[k].length - 1]]),
      }))
      .filter((/** @type {any} */ one) => one.y.some((/** @type {number} */ bytes) => bytes > 0));
    const capacity = own.capacity_bytes;
    const isNear = own.peak_bytes > NEAR_CAPACITY * capacity;
    fill(byId("memory-legend"), legend(series));
    this.chart.describe(
      `Memory of ${devicesText(own.devices)} over ${quantity(this.document.end_s, "s")} by role, at most ${quantity(own.peak_bytes, "B")}; the tables below have the same figures`,
    );
    this.chart.show({
      series,
      x: { title: "time", unit: "s" },
      y: { title: "live", unit: "B" },
      mark: { x: this.curve.times[own.peak_sample], y: own.peak_bytes, name: `peak ${quantity(own.peak_bytes, "B")}` },
      levels: isNear ? [{ y: capacity, name: `a device has ${quantity(capacity, "B")}` }] : [],
    });
    this.chart.look(0, this.document.end_s);
    say(byId("memory-words"), this.#words());
    this.#moment(this.sample);
  }

  #words() {
    const { own } = this.curve;
    const [largest] = this.curve.living(own.peak_sample);
    const { predicted_bytes: predicted, counted_bytes: counted } = this.document;
    const check =
      predicted === counted ? "" : ` The cost model predicts ${quantity(predicted, "B")}, the simulator counts ${quantity(counted, "B")}.`;
    const most = largest ? ` The largest there is ${readableBuffer(largest.buffer)} with ${quantity(largest.bytes, "B")}.` : "";
    return `At most ${quantity(own.peak_bytes, "B")} live on ${devicesText(own.devices)}, ${this.curve.place(own.peak_sample)}: ${percent(own.peak_bytes / own.capacity_bytes)} of the memory of a device.${most}${check}`;
  }

  /** @param {number | null} time */
  #point(time) {
    this.#moment(time === null ? this.kept : this.curve.sampleAt(time));
  }

  /** Show what lives at a sample. @param {number} sample */
  #moment(sample) {
    this.sample = sample;
    const { curve } = this;
    const isPeak = sample === curve.own.peak_sample;
    const time = quantity(curve.times[sample], "s");
    say(byId("memory-moment"), `${isPeak ? "At the peak" : `At ${time}`}, ${curve.place(sample)}`);
    const total = curve.total(sample);
    const sizes = curve.roles.map((one) => one[sample]);
    const scale = column([total], "B");
    const rows = this.document.roles.flatMap((/** @type {string} */ name, /** @type {number} */ k) =>
      sizes[k] || curve.roles[k].some((bytes) => bytes > 0)
        ? [
            rowOf(
              [swatch(seriesColor(k)), name],
              [
                figureIn(scale, sizes[k]),
                shareOf(total ? sizes[k] / total : 0),
                meterCell(total ? sizes[k] / total : 0),
              ],
            ),
          ]
        : [],
    );
    rows.push(rowOf("all", [figureIn(scale, total, "best"), figure("", null), element("td", {})]));
    showTable(
      byId("memory-roles"),
      ["role", numberHead("bytes", scale.name, "live: bytes"), numberHead("share", "", "live: share"), { name: "", isMeter: true }],
      rows,
      "Live bytes by role",
    );
    this.#living(sample, total);
  }

  /** @param {number} sample @param {number} total */
  #living(sample, total) {
    const wanted = byId("memory-role").value;
    const living = this.curve.living(sample).filter(({ role }) => !wanted || role === wanted);
    if (!living.length) return fill(byId("memory-live"), element("p", { class: "empty" }, "Nothing."));
    const scale = column(
      living.map(({ bytes }) => bytes),
      "B",
    );
    const rows = living.slice(0, MOST_ROWS).map((one) => {
      const { name, role, dtype, shape } = one.tensor;
      const what = one.role === role ? role : `${one.role} of ${role}`;
      const title = `${what}, ${dtype} [${shape.join(", ")}]${one.buffer === name ? "" : ` of ${name}`}; from ${one.from} to ${one.to}`;
      return rowOf(
        [element("span", { class: "mono", title: one.buffer }, readableBuffer(one.buffer)), element("div", { class: "muted small" }, title)],
        [figureIn(scale, one.bytes), shareOf(total ? one.bytes / total : 0)],
      );
    });
    if (living.length > MOST_ROWS) {
      const rest = living.slice(MOST_ROWS).reduce((sum, { bytes }) => sum + bytes, 0);
      rows.push(
        rowOf(`${several(living.length - MOST_ROWS, "more", "more")}`, [
          figureIn(scale, rest),
          shareOf(total ? rest / total : 0),
        ]),
      );
    }
    return showTable(
      byId("memory-live"),
      [{ name: `${plain(living.length)} of them` }, numberHead("bytes", scale.name, "live: bytes"), numberHead("share", "", "live: share")],
      rows,
      "What lives there",
      { file: () => livingRows(living) },
    );
  }

  #rows() {
    const { times, roles } = this.curve;
    const names = this.document.roles.map((/** @type {string} */ name) => `${name} B`);
    return [["seconds", "moment", ...names], ...[...times].map((time, k) => [time, this.curve.place(k), ...roles.map((one) => one[k])])];
  }
}

/** What lives at a moment, with exact numbers. @param {import("./memory-model.js").Living[]} living @returns {unknown[][]} */
function livingRows(living) {
  const rows = living.map(({ buffer, tensor, role, bytes, from, to }) => [buffer, role, tensor.name, tensor.role, tensor.dtype, tensor.shape.join(" "), from, to, bytes]);
  return [["buffer", "role", "of the tensor", "its role", "type", "shape", "from", "to", "bytes (B)"], ...rows];
}

/** Devices by their numbers, runs of them shortened. @param {number[]} devices */
function devicesText(devices) {
  /** @type {[number, number][]} */
  const runs = [];
  for (const device of devices) {
    const last = runs[runs.length - 1];
    if (last && last[1] === device - 1) last[1] = device;
    else runs.push([device, device]);
  }
  const text = runs.map(([from, to]) => (from === to ? `${from}` : `${from}–${to}`)).join(", ");
  return `${devices.length === 1 ? "device" : "devices"} ${text}`;
}
