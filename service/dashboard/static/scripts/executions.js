/**
 * The timeline of a plan: as the cost model predicts it, at once, and as executions on the simulator counted it.
 * @module executions
 */

import { keepChoice, keepOneOf } from "./address.js";
import { get, post, problemOf } from "./api.js";
import { statusBadge } from "./badges.js";
import { saveMenu } from "./charts/saving.js";
import { showDevices } from "./device-table.js";
import { byId, element, fill, say } from "./dom.js";
import { errorNotice, problemNotice } from "./notice.js";
import { showMeasured } from "./plan/measured.js";
import { whenNear } from "./plan/near.js";
import { scheduleOf } from "./plan/schedule.js";
import { LinkUse, showAccounts, showLongest, showWaits } from "./plan/timeline-tables.js";
import { isEnded } from "./run-state.js";
import { Timeline } from "./timeline.js";
import { readTrace, scheduledTrace } from "./trace.js";
import { clock, quantity, several } from "./units.js";

const PAUSE_MS = 600;
const PREDICTED = "predicted";

/** The card of the timeline; `capacity` is that of a device's memory in bytes. */
export class Executions {
  /** @param {any} plan @param {number | null} capacity */
  constructor(plan, capacity) {
    this.plan = plan;
    this.capacity = capacity;
    this.known = [...plan.executions].reverse();
    this.links = new LinkUse();
    this.timeline = new Timeline(byId("timeline"), (from, to) => this.links.look(from, to));
    /** @type {import("./trace.js").Trace | null} */
    this.trace = null;
    this.shown = PREDICTED;
    this.#listen();
    this.#backend();
    this.#list();
    whenNear(byId("execution"), () => (this.shown === PREDICTED ? this.show(PREDICTED) : undefined));
  }

  #listen() {
    byId("execute").addEventListener("click", () => this.#execute());
    byId("values").addEventListener("change", () => this.#backend());
    byId("backend").addEventListener("change", () => this.#backend());
    byId("which").addEventListener("change", () => this.show(byId("which").value));
    byId("zoom-in-time").addEventListener("click", () => this.timeline.zoom(0.6));
    byId("zoom-out-time").addEventListener("click", () => this.timeline.zoom(1 / 0.6));
    byId("zoom-whole").addEventListener("click", () => this.timeline.whole());
    byId("critical").addEventListener("change", () => this.timeline.path(byId("critical").checked));
    byId("find-span").addEventListener("input", () => this.#find());
    byId("find-span").addEventListener("keydown", (/** @type {KeyboardEvent} */ event) => {
      if (event.key !== "Enter") return;
      event.preventDefault();
      this.timeline.next();
    });
    for (const choice of document.getElementsByName("longest")) choice.addEventListener("change", () => this.#longest());
    keepChoice("path", byId("critical"));
    keepChoice("span", byId("find-span"));
    keepOneOf("longest", "longest");
    byId("execute").disabled = false;
    const name = () => `${this.shown === PREDICTED ? this.plan.id : this.shown}.timeline`;
    fill(byId("timeline-menu"), saveMenu(this.timeline, name, () => this.timeline.rows()));
  }

  #find() {
    const text = byId("find-span").value;
    const count = this.timeline.find(text);
    say(byId("found-spans"), text ? `${several(count, "place")}${count ? "; Enter goes to the next" : ""}` : "");
  }

  #longest() {
    const chosen = /** @type {NodeListOf<HTMLInputElement>} */ (document.getElementsByName("longest"));
    const what = [...chosen].find((one) => one.checked)?.value ?? "copies";
    if (!this.trace) return;
    showLongest(this.trace, what, (total) => {
      byId("find-span").value = "";
      const count = this.timeline.mark((name) => total.names.has(name));
      say(byId("found-spans"), `${several(count, "place")} marked`);
      this.timeline.next();
      byId("timeline-frame").scrollIntoView({ block: "nearest" });
    });
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
    const text = (/** @type {any} */ one) =>
      `counted: ${clock(one.created_at)}, ${one.values ? `with numbers by ${one.backend}` : "counting"}, ${one.status}${one.links.trace ? ", with timeline" : ""}`;
    fill(
      byId("which"),
      element("option", { value: PREDICTED }, "predicted by the cost model"),
      ...this.known.map((one) => element("option", { value: one.id }, text(one))),
    );
    byId("which").value = this.shown;
  }

  /** @param {string} id of an execution, or `predicted` @returns {Promise<void>} */
  async show(id) {
    this.shown = id;
    this.#list();
    fill(byId("execution-problem"));
    byId("no-timeline").hidden = true;
    byId("devices").hidden = true;
    return id === PREDICTED ? this.#showPredicted() : this.#showExecution(id);
  }

  async #showPredicted() {
    fill(byId("execution-status"));
    say(byId("time"), "The cost model is predicting when each block runs…");
    try {
      const schedule = await scheduleOf(this.plan);
      if (this.shown !== PREDICTED) return;
      const others = this.known.length ? "" : " Execute the plan on the simulator to count the same by other code.";
      say(byId("time"), `The plan is predicted to take ${quantity(schedule.time_s, "s")}.${others}`);
      byId("perfetto").href = `/v1/plans/${encodeURIComponent(this.plan.id)}/export?to=perfetto`;
      byId("perfetto").download = `${this.plan.id}.trace.json`;
      this.#showTrace(scheduledTrace(schedule), this.known.find((one) => one.counts)?.counts ?? null);
      showWaits(schedule.stages, schedule.time_s);
      for (const part of ["waits", "waits-title"]) byId(part).hidden = false;
    } catch (error) {
      say(byId("time"), "");
      fill(byId("execution-problem"), errorNotice(error));
    }
  }

  /** @param {string} id @returns {Promise<void>} */
  async #showExecution(id) {
    const execution = this.known.find((one) => one.id === id);
    fill(byId("execution-status"), statusBadge(execution.status));
    fill(byId("execution-problem"), execution.problem ? problemNotice(execution.problem) : null);
    if (!isEnded(execution.status)) return this.#wait(id);
    byId("timeline-frame").hidden = true;
    byId("link-use-frame").hidden = true;
    if (!execution.counts) return undefined;
    const { predicted, counted } = execution.counts.time_s;
    say(
      byId("time"),
      `Took ${quantity(counted, "s")} of simulated time; predicted were ${quantity(predicted, "s")}.`,
    );
    this.#account(execution.counts);
    const trace = execution.links.trace ? await this.#trace(execution) : null;
    if (this.shown !== id) return undefined;
    byId("longest-part").hidden = !trace;
    byId("no-timeline").hidden = Boolean(trace);
    for (const part of ["waits", "waits-title"]) byId(part).hidden = true;
    if (trace) this.#showTrace(trace, execution.counts);
    byId("timeline-tables").hidden = false;
    byId("devices").hidden = false;
    return showDevices(byId("devices"), execution.counts, trace, this.capacity);
  }

  /** @param {import("./trace.js").Trace} trace @param {any} counts */
  #showTrace(trace, counts) {
    this.trace = trace;
    byId("timeline-frame").hidden = false;
    byId("timeline-tables").hidden = false;
    byId("critical-label").hidden = !trace.hasPath;
    this.timeline.show(trace);
    this.links.show(trace, this.timeline.labels);
    this.#find();
    this.#longest();
    byId("longest-part").hidden = false;
    this.#account(counts);
  }

  /** Show the plan's costs in three ways. @param {any} counts of an execution, or null */
  #account(counts) {
    showAccounts(this.plan.cost, counts, this.plan.measurements[0]);
    showMeasured(this.plan, (changed) => {
      this.plan = changed;
      this.#account(counts);
    });
  }

  /** @param {any} execution */
  async #trace(execution) {
    byId("perfetto").href = execution.links.trace;
    byId("perfetto").download = `${execution.id}.trace.json`;
    try {
      return readTrace(await get(execution.links.trace));
    } catch (error) {
      fill(byId("execution-problem"), errorNotice(error));
      return null;
    }
  }

  async #execute() {
    byId("execute").disabled = true;
    try {
      const { id } = await post(this.plan.links.executions, {
        backend: byId("backend").value,
        values: byId("values").checked,
      });
      this.known.unshift(await get(`/v1/executions/${id}`));
      await this.show(id);
    } catch (error) {
      fill(byId("execution-problem"), errorNotice(error));
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
        if (problemOf(error).code !== "unreachable") return fill(byId("execution-problem"), errorNotice(error));
      }
    }
  }
}
