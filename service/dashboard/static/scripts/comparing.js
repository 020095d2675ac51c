/**
 * A selection of plans or runs that can be compared, and the link that does it.
 * @module comparing
 */

import { pages } from "./api.js";
import { element, fill, say } from "./dom.js";
import { plain } from "./units.js";

const MOST_COMPARED = 4;

/** A line that says how many are selected, with the link; hidden while nothing is. */
export class CompareTray {
  /** @param {HTMLElement} place @param {"runs" | "plans"} what @param {() => void} [onChange] hears of every change */
  constructor(place, what, onChange = () => undefined) {
    this.place = place;
    this.what = what;
    this.onChange = onChange;
    /** @type {Set<string>} */
    this.selected = new Set();
    this.count = element("span", { role: "status" });
    this.link = element("a", { class: "button small" }, "Compare");
    const clear = element("button", { type: "button", class: "button small bare", onclick: () => this.clear() }, "Clear");
    place.classList.add("selection");
    fill(place, this.count, this.link, clear);
    this.#show();
  }

  /** A box that selects something. @param {string} id @param {string} name for those who do not see the row */
  box(id, name) {
    const box = element("input", { type: "checkbox", "aria-label": `Select ${name} to compare it`, data: { compare: id } });
    box.checked = this.selected.has(id);
    box.addEventListener("change", () => this.choose(id, box.checked));
    return box;
  }

  /** @param {string} id @param {boolean} isSelected */
  choose(id, isSelected) {
    isSelected ? this.selected.add(id) : this.selected.delete(id);
    this.#show();
    this.onChange();
  }

  clear() {
    this.selected.clear();
    for (const box of document.querySelectorAll("input[data-compare]")) /** @type {HTMLInputElement} */ (box).checked = false;
    this.#show();
    this.onChange();
  }

  #show() {
    const { size } = this.selected;
    this.place.hidden = size === 0;
    say(this.count, `${plain(size)} selected`);
    enableComparison(this.link, this.what, [...this.selected]);
  }
}

/** Let a link lead to a comparison, if that many can be compared. @param {any} link @param {"runs" | "plans"} what @param {string[]} ids */
export function enableComparison(link, what, ids) {
  const isPossible = ids.length >= 2 && ids.length <= MOST_COMPARED;
  link.setAttribute("aria-disabled", String(!isPossible));
  link.title = isPossible ? "" : `Select two to four ${what} to compare them`;
  isPossible ? (link.href = pages.compare(what, ids)) : link.removeAttribute("href");
}
