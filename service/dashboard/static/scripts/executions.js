/**
 * Executions of a plan on the simulator: asked for, waited for, shown with their timeline.
 * @module executions
 */

import { get, post, problemOf } from "./api.js";
import { statusBadge } from "./badges.js";
import { showDevices } from "./device-table.js";
import { byId, element, fill, say } from "./dom.js";
import { problemNotice } from "./notice.js";
import { isEnded } from "./run-state.js";
import { Timeline } from "./timeline.js";
import { readTrace } from "./trace.js";
import { clock, quantity } from "./units.js";

const PAUSE_MS = 600;

/** The card of executions; `capacity` is that of a device's memory in bytes. */
export class Executions {
  /** @param {string} planPath @param {any[]} known oldest first @param {number | null} capacity */
  constructor(planPath, known, capacity) {
    this.planPath = planPath;
    this.capacity = capacity;
    this.known = [...known].reverse();
    this.timeline = new Timeline(byId("timeline"));
    this.shown = "";
    byId("execute").addEventListener("click", () => this.#execute());
    byId("values").addEventListener("change", () => this.#backend());
    byId("backend").addEventListener("change", () => this.#backend());
    byId("which").addEventListener("change", () => this.show(byId("which").value));
    byId("zoom-in").addEventListener("click", () => this.timeline.zoom(0.6));
    byId("zoom-out").addEventListener("click", () => this.timeline.zoom(1 / 0.6));
    byId("zoom-whole").addEventListener("click", () => this.timeline.whole());
    byId("execute").disabled = false;
    this.#backend();
    const best = this.known.find((execution) => execution.links.trace) ?? this.known[0];
    if (best) void this.show(best.id);
    else this.#list();
  }

  /** Offer what computes only where something is computed, and say what is missing on the service's machine. */
  #backend() {
    const select = byId("backend");
    select.disabled = !byId("values").checked;
    const missing = select.disabled ? "" : (select.selectedOptions[0]?.dataset.missing ?? "");
    byId("backend-missing").hidden = !missing;
    say(
      byId("backend-missing"),
      missing &&
        `The service's machine has no ${missing}. Run pip install 'tapestry[${missing}]' there and start it again, or let a worker on a machine that has it execute the plan.`,
    );
  }

  #list() {
    byId("which-label").hidden = this.known.length < 2;
    byId("no-executions").hidden = this.known.length > 0;
    const text = (/** @type {any} */ one) =>
      `${clock(one.created_at)}, ${one.values ? `with numbers by ${one.backend}` : "counting"}, ${one.status}${one.links.trace ? ", with timeline" : ""}`;
    fill(byId("which"), ...this.known.map((one) => element("option", { value: one.id }, text(one))));
    byId("which").value = this.shown;
  }

  /** @param {string} id @returns {Promise<void>} */
  async show(id) {
    this.shown = id;
    this.#list();
    const execution = this.known.find((one) => one.id === id);
    fill(byId("execution-status"), statusBadge(execution.status));
    fill(byId("execution-problem"), execution.problem ? problemNotice(execution.problem) : null);
    byId("devices").hidden = !execution.counts;
    byId("time").hidden = !execution.counts;
    byId("timeline-frame").hidden = true;
    byId("no-timeline").hidden = true;
    if (!isEnded(execution.status)) return this.#wait(id);
    if (!execution.counts) return undefined;
    const { predicted, counted } = execution.counts.time_s;
    say(
      byId("time"),
      `Took ${quantity(counted, "s")} of simulated time; predicted were ${quantity(predicted, "s")}.`,
    );
    const trace = execution.links.trace ? await this.#trace(execution) : null;
    if (this.shown !== id) return undefined;
    byId("timeline-frame").hidden = !trace;
    byId("no-timeline").hidden = Boolean(trace);
    if (trace) this.timeline.show(trace);
    return showDevices(byId("devices"), execution.counts, trace, this.capacity);
  }

  /** @param {any} execution */
  async #trace(execution) {
    byId("perfetto").href = execution.links.trace;
    byId("perfetto").download = `${execution.id}.trace.json`;
    try {
      return readTrace(await get(execution.links.trace));
    } catch (error) {
      fill(byId("execution-problem"), problemNotice(problemOf(error)));
      return null;
    }
  }

  async #execute() {
    byId("execute").disabled = true;
    try {
      const { id } = await post(`${this.planPath}/executions`, {
        backend: byId("backend").value,
        values: byId("values").checked,
      });
      this.known.unshift(await get(`/v1/executions/${id}`));
      await this.show(id);
    } catch (error) {
      fill(byId("execution-problem"), problemNotice(problemOf(error)));
    }
    byId("execute").disabled = false;
  }

  /** Ask how it stands until it has ended. @param {string} id @returns {Promise<void>} */
  async #wait(id) {
    for (;;) {
      await new Promise((resolve) => setTimeout(resolve, PAUSE_MS));
      try {
        const execution = await get(`/v1/executions/${id}`);
        const at = this.known.findIndex((one) => one.id === id);
        const isNews = execution.status !== this.known[at].status;
        this.known[at] = execution;
        if (this.shown !== id) return undefined;
        if (isEnded(execution.status)) return this.show(id);
        if (isNews) fill(byId("execution-status"), statusBadge(execution.status));
      } catch (error) {
        if (problemOf(error).status) return fill(byId("execution-problem"), problemNotice(problemOf(error)));
      }
    }
  }
}
