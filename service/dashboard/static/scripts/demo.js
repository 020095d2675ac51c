/**
 * The demo: the model that came along, imported, searched and checked, with its progress, up to the page of its run.
 * @module demo
 */

import { addressed, keepAddressed } from "./address.js";
import { exampleFile, get, pages, patch, post, uploadGraph } from "./api.js";
import { copyButton } from "./copying.js";
import { byId, element, fill, nowUsable, say } from "./dom.js";
import { follow } from "./events.js";
import { errorNotice, problemNotice } from "./notice.js";
import { isEnded, RunState } from "./run-state.js";
import { placeText } from "./run-summary.js";
import { TAG, tourAddress } from "./tour.js";
import { count, duration, plain, several } from "./units.js";

const PARAMETER = "demo";
const QUEUE_MS = 2000;
const WORKER_COMMAND = "tapestry worker";
const PHASES = ["importing", "queued", "compiling", "searching", "verifying", "done"];

/** @typedef {{phase: string, state: RunState, graph: any, budget: number, workers: number, queue: any}} Progress */
/** @typedef {{title: string, detail: string, share?: number}} Step */

/**
 * The phases of the demo in order, with what is known of each.
 * @param {Progress} progress
 * @returns {Step[]}
 */
function stepsOf({ phase, state, graph, budget, workers, queue }) {
  const at = PHASES.indexOf(phase);
  const { evaluations, plans, seconds } = state;
  const searched = `${duration(Math.min(seconds, budget))} of ${duration(budget)}, ${count(evaluations)} evaluations, ${several(plans.size, "plan")}`;
  const waits = !workers ? "no worker is alive" : queue ? placeText(queue) : "a worker takes it in a moment";
  const imported = graph && `${several(graph.blocks, "block")}, ${count(graph.summary?.parameters ?? 0)} parameters`;
  return [
    { title: "Import GPT-2 small", detail: imported ?? "from the ONNX file that came along" },
    { title: "Wait for a worker", detail: at === 1 ? waits : "" },
    { title: "Compile", detail: at === 2 ? state.doing || "seconds; minutes where it was never done before" : "" },
    { title: "Make the first plans, and search", detail: at >= 3 ? searched : duration(budget), share: Math.min(1, seconds / budget) },
    {
      title: "Prove and count every plan",
      detail: at >= 4 ? state.doing || `${plain(state.checked)} of ${several(plans.size, "plan")}` : "on the simulator",
      share: plans.size ? state.checked / plans.size : 0,
    },
  ];
}

/** The demo of a page: its buttons, and the part that shows its progress. */
class Demo {
  /** Enable all buttons of the page that start it, and go on with the run that the address names. */
  constructor() {
    this.part = byId("demo-progress");
    /** @type {HTMLButtonElement[]} */
    this.buttons = [...document.querySelectorAll("button[data-demo]")].map((button) => /** @type {any} */ (button));
    for (const button of this.buttons) button.addEventListener("click", () => void this.#start());
    const { model, run } = JSON.parse(this.part.dataset.request);
    this.model = model;
    this.request = run;
    /** @type {Progress} */
    this.progress = { phase: "importing", state: new RunState(), graph: null, budget: run.budget.seconds, workers: 1, queue: null };
    this.#enable(true);
    const known = addressed(PARAMETER);
    if (known) void this.#attempt(() => this.#follow(known));
    nowUsable(this.part);
  }

  async #start() {
    this.#open();
    await this.#attempt(async () => {
      this.#set({ phase: "importing", state: new RunState(), workers: 1, queue: null });
      const graph = await uploadGraph(await exampleFile(this.model));
      this.#set({ phase: "queued", graph });
      const id = await this.#submit(graph.id);
      keepAddressed({ [PARAMETER]: id });
      await this.#follow(id);
    });
  }

  /** @param {() => Promise<void>} action */
  async #attempt(action) {
    this.#open();
    try {
      await action();
    } catch (error) {
      this.#fail(errorNotice(error));
    }
  }

  #open() {
    this.#enable(false);
    fill(byId("demo-trouble"));
    this.part.hidden = false;
    this.part.focus();
    this.part.scrollIntoView({ block: "nearest" });
  }

  /** @param {Element} notice */
  #fail(notice) {
    fill(byId("demo-trouble"), notice);
    this.#enable(true);
  }

  /** @param {boolean} isEnabled */
  #enable(isEnabled) {
    for (const button of this.buttons) button.disabled = !isEnabled;
    this.part.classList.toggle("is-busy", !isEnabled);
  }

  /**
   * The id of the demo's run: the one that waits, searches or has answered before, else a new one. The key of a request
   * leads to the run that it made; where that run did not succeed, another key asks for another.
   * @param {string} graph
   */
  async #submit(graph) {
    const body = { ...this.request, graph_id: graph };
    let key = `demo ${JSON.stringify(body)}`;
    let found = await post("/v1/runs", body, key);
    while (found.status === "failed" || found.status === "cancelled") {
      key = `demo after ${found.id} ${graph}`;
      found = await post("/v1/runs", body, key);
    }
    const { tags } = await get(found.links.self);
    if (!tags.includes(TAG)) await patch(found.links.self, { tags: [...tags, TAG] });
    return found.id;
  }

  /** Show how far a run is, and go to its page when it has ended. @param {string} id */
  async #follow(id) {
    const path = `/v1/runs/${encodeURIComponent(id)}`;
    const run = await get(path);
    byId("demo-run").href = pages.run(id);
    byId("demo-run").hidden = false;
    if (isEnded(run.status)) return this.#end(run);
    const { state, graph } = this.progress;
    this.#set({ phase: "queued", queue: run.queue, graph: graph ?? (await get(`/v1/graphs/${encodeURIComponent(run.graph_id)}`)) });
    void this.#watchQueue(path);
    return new Promise((resolve, reject) => {
      const stop = follow(`${path}/events`, {
        onEvents: (events) => {
          for (const event of events) state.apply(event);
          this.#set({ phase: phaseOf(state) });
          if (!state.isEnded) return;
          stop();
          get(path).then((ended) => resolve(this.#end(ended)), reject);
        },
        onConnection: (connection) =>
          say(byId("demo-connection"), connection === "lost" ? "The connection is lost; trying again." : ""),
        isOver: () => state.isEnded,
      });
    });
  }

  /** @param {any} run that has ended */
  #end(run) {
    if (run.status === "succeeded") return location.replace(tourAddress(pages.run(run.id)));
    const problem = run.problem ?? { title: `The run was ${run.status}`, detail: "Run the demo once more for another." };
    return this.#fail(problemNotice(problem));
  }

  /** Whether there is a worker, and how many runs are before this one, while it waits. @param {string} path */
  async #watchQueue(path) {
    while (this.progress.phase === "queued") {
      try {
        const [{ workers }, { queue }] = await Promise.all([get("/readyz"), get(path)]);
        if (this.progress.phase === "queued") this.#set({ workers, queue });
      } catch {
        // the stream of events reports that the service is away
      }
      await new Promise((resolve) => setTimeout(resolve, QUEUE_MS));
    }
  }

  /** @param {Partial<Progress>} changes */
  #set(changes) {
    Object.assign(this.progress, changes);
    const at = PHASES.indexOf(this.progress.phase);
    const steps = stepsOf(this.progress);
    fill(byId("demo-steps"), ...steps.map((step, k) => stepItem(step, k < at ? "done" : k === at ? "now" : "next")));
    say(byId("demo-step"), steps[at] ? `Step ${at + 1} of ${steps.length}: ${steps[at].title}` : "Finished");
    byId("demo-no-worker").hidden = this.progress.phase !== "queued" || this.progress.workers > 0;
  }
}

/** @param {RunState} state */
function phaseOf({ status, phase }) {
  if (isEnded(status)) return "done";
  if (status === "queued") return "queued";
  if (phase === "seeding") return "searching";
  return phase === "queued" ? "compiling" : phase;
}

/** @param {Step} step @param {"done" | "now" | "next"} standing */
function stepItem({ title, detail, share }, standing) {
  const bar = element("div");
  bar.style.width = `${100 * (standing === "done" ? 1 : (share ?? 0))}%`;
  const progress = share !== undefined && standing === "now" ? element("div", { class: "progress", "aria-hidden": "true" }, bar) : null;
  const words = { done: "done: ", now: "now: ", next: "" }[standing];
  return element(
    "li",
    { class: standing, "aria-current": standing === "now" && "step" },
    element("span", { class: "unseen" }, words),
    element("span", { class: "step-title" }, title),
    element("span", { class: "muted small" }, detail),
    progress,
  );
}

/** Enable the demo of a page that has one. */
export function enableDemo() {
  if (!document.getElementById("demo-progress")) return;
  fill(byId("demo-worker-command"), element("code", {}, WORKER_COMMAND), " ", copyButton(() => WORKER_COMMAND, "the command"));
  new Demo();
}
