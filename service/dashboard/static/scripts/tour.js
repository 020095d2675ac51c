/**
 * The tour: four steps on the page of a run and on the page of one of its plans. The address has the step; whoever
 * leaves can go on later, and is not invited again.
 * @module tour
 */

import { addressed, keepAddressed } from "./address.js";
import { byId, element, fill } from "./dom.js";

/** The tag of the demo's run. */
export const TAG = "demo";

const PARAMETER = "tour";
const KEPT = "tapestry-tour";

/** @typedef {{page: "run" | "plan", target: string, title: string, text: string, next: string}} Step */
/** @typedef {{isDismissed?: boolean, address?: string, step?: number, run?: string}} Kept what the browser keeps */
/** @typedef {{page: "run" | "plan", run: string, runAddress: string, planAddress: () => string | null}} Place */

/** @type {Step[]} */
export const STEPS = [
  {
    page: "run",
    target: "[aria-label=Frontier]",
    title: "The frontier",
    text:
      "Each point is a plan: the program, rewritten and sharded over the devices. No plan that was found is better in everything. " +
      "Further left is faster, further down needs less memory. The knee is nearest to the best of all objectives together.",
    next: "Open the knee",
  },
  {
    page: "plan",
    target: "[aria-label=Costs]",
    title: "One plan",
    text:
      "Its costs stand beside the best that the run found. The sharding was proven, and memory and traffic were counted on a " +
      "simulator. Below, the timeline says what takes how long, and the memory over time what lives at the peak.",
    next: "How it is sharded",
  },
  {
    page: "plan",
    target: "#sharding",
    title: "The sharding",
    text:
      "First in words; then choose a tensor, and see its parts on the devices, as it is made and as each of its readers has it. The " +
      "matrix adds up what is redistributed, by the kind of exchange. A click on a cell lists the copies.",
    next: "Why not otherwise?",
  },
  {
    page: "plan",
    target: "#why-not",
    title: "Why not otherwise, and exports",
    text:
      "Enter a block, and every other placement of it is costed at once, with what speaks against it. Convinced? Below are the exports: " +
      "the plan for PyTorch, JAX and other programs, as tables, and for Perfetto.",
    next: "Finish",
  },
];

/** @returns {Kept} */
export function kept() {
  try {
    return JSON.parse(localStorage.getItem(KEPT) ?? "{}");
  } catch {
    return {}; // a browser that keeps nothing, or kept something else
  }
}

/** @param {Kept} changes */
function keep(changes) {
  try {
    localStorage.setItem(KEPT, JSON.stringify({ ...kept(), ...changes }));
  } catch {
    // the tour is offered again then
  }
}

/** The address of the first step on the page of a run, or that page alone where the tour was dismissed. @param {string} runAddress */
export function tourAddress(runAddress) {
  return kept().isDismissed ? runAddress : stepAddress(runAddress, 1);
}

/** @param {string} address @param {number} step */
export function stepAddress(address, step) {
  return `${address}?${PARAMETER}=${step}`;
}

/** The tour on one page, if its address has a step of this page. */
export class Tour {
  /** @param {Place} place */
  constructor(place) {
    this.place = place;
    this.step = Number(addressed(PARAMETER));
    /** @type {Element | null} */
    this.target = null;
    if (STEPS[this.step - 1]?.page !== place.page) return;
    this.panel = element("section", { class: "tour", role: "dialog", "aria-describedby": "tour-text", tabindex: -1 });
    this.panel.addEventListener("keydown", (/** @type {KeyboardEvent} */ event) => event.key === "Escape" && this.#leave());
    document.body.append(this.panel);
    document.body.classList.add("has-tour");
    this.#stayInView();
    this.#show();
  }

  #show() {
    const { title, text, next, target } = STEPS[this.step - 1];
    const isFirst = this.step === 1;
    this.panel.setAttribute("aria-label", title);
    fill(
      this.panel,
      element(
        "div",
        { class: "tour-head" },
        element("span", { class: "muted small" }, `Tour, step ${this.step} of ${STEPS.length}`),
        element("button", { type: "button", class: "button small bare spread", onclick: () => this.#leave() }, "Leave the tour"),
      ),
      element("h2", {}, title),
      element("p", { id: "tour-text" }, text),
      element("p", { id: "tour-wait", class: "muted small", role: "status" }),
      element(
        "div",
        { class: "row" },
        element("ol", { class: "tour-dots", "aria-hidden": "true" }, STEPS.map((_, k) => element("li", { class: k < this.step ? "done" : "" }))),
        isFirst ? null : element("button", { type: "button", class: "button small spread", onclick: () => this.#go(this.step - 1) }, "Back"),
        element("button", { type: "button", class: `button small primary ${isFirst ? "spread" : ""}`, onclick: () => this.#go(this.step + 1) }, next),
      ),
    );
    keep({ address: location.pathname, step: this.step, run: this.place.run });
    this.target?.classList.remove("tour-target");
    this.target = document.querySelector(target);
    this.target?.classList.add("tour-target");
    this.#scroll();
    this.panel.focus({ preventScroll: true });
  }

  /** @param {number} step */
  #go(step) {
    if (step > STEPS.length) return this.#leave(true);
    const { page } = STEPS[step - 1];
    if (page === this.place.page) {
      this.step = step;
      keepAddressed({ [PARAMETER]: String(step) });
      this.isFollowing = true;
      return this.#show();
    }
    const address = page === "run" ? this.place.runAddress : this.place.planAddress();
    if (address) return location.assign(stepAddress(address, step));
    return fill(byId("tour-wait"), "The first plan appears in a moment.");
  }

  /** @param {boolean} [isFinished] whether it was the last step */
  #leave(isFinished = false) {
    keep({ isDismissed: true, ...(isFinished ? { address: "", step: 0 } : {}) });
    keepAddressed({ [PARAMETER]: null });
    this.isFollowing = false;
    this.observer?.disconnect();
    document.body.classList.remove("has-tour");
    this.target?.classList.remove("tour-target");
    this.panel.remove();
    const heading = this.target?.querySelector("h2");
    heading?.setAttribute("tabindex", "-1");
    heading?.focus({ preventScroll: true });
  }

  /** Parts of the page above the target come later than it; it stays in view until somebody moves the page. */
  #stayInView() {
    this.isFollowing = true;
    this.observer = new ResizeObserver(() => this.isFollowing && this.#scroll());
    this.observer.observe(byId("main"));
    const stop = (/** @type {Event} */ event) => {
      if (!(event.target instanceof Node && this.panel.contains(event.target))) this.isFollowing = false;
    };
    for (const kind of ["wheel", "touchmove", "pointerdown", "keydown"]) addEventListener(kind, stop, { passive: true });
  }

  #scroll() {
    this.target?.scrollIntoView({ block: "start" });
  }
}
