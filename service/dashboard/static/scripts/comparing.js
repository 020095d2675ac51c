/**
 * Links to comparisons: of what is selected in a table, if that many can be compared.
 * @module comparing
 */

import { pages } from "./api.js";
import { element, fill, say } from "./dom.js";
import { plain } from "./units.js";

const MOST_COMPARED = 4;

/** A line that says how many plans are selected, with the link; hidden while none is. */
export class PlanTray {
  /** @param {HTMLElement} place */
  constructor(place) {
    this.place = place;
    /** The boxes of the selected plans by id. @type {Map<string, HTMLInputElement>} */
    this.selected = new Map();
    this.count = element("span", { role: "status" });
    this.link = element("a", { class: "button small" }, "Compare");
    const clear = element("button", { type: "button", class: "button small bare", onclick: () => this.clear() }, "Clear");
    fill(place, this.count, this.link, clear);
    this.#show();
  }

  /** A box that selects a plan. @param {string} id @param {string} name for those who do not see the row */
  box(id, name) {
    const box = element("input", { type: "checkbox", "aria-label": `Select plan ${name} to compare it` });
    box.checked = this.selected.has(id);
    if (box.checked) this.selected.set(id, box);
    box.addEventListener("change", () => {
      box.checked ? this.selected.set(id, box) : this.selected.delete(id);
      this.#show();
    });
    return box;
  }

  /** Leave out selected plans that are gone. @param {(id: string) => boolean} isThere */
  keep(isThere) {
    for (const id of this.selected.keys()) if (!isThere(id)) this.selected.delete(id);
    this.#show();
  }

  clear() {
    for (const box of this.selected.values()) box.checked = false;
    this.selected.clear();
    this.#show();
  }

  #show() {
    const { size } = this.selected;
    this.place.hidden = size === 0;
    say(this.count, `${plain(size)} selected`);
    enableComparison(this.link, "plans", [...this.selected.keys()]);
  }
}

/** Let a link lead to a comparison, if that many can be compared. @param {any} link @param {"runs" | "plans"} what @param {string[]} ids */
export function enableComparison(link, what, ids) {
  const isPossible = ids.length >= 2 && ids.length <= MOST_COMPARED;
  link.setAttribute("aria-disabled", String(!isPossible));
  link.title = isPossible ? "" : `Select two to four ${what} to compare them`;
  isPossible ? (link.href = pages.compare(what, ids)) : link.removeAttribute("href");
}
