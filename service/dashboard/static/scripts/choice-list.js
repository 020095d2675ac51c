/**
 * A list of buttons, one of which is chosen; arrow keys go from one to the next.
 * @module choice-list
 */

import { element, fill } from "./dom.js";

/** @typedef {{name: string, text: string, kind?: string, title?: string}} Choice `kind` tells apart choices of equal names; `title` is shown for the name */

const STEPS = { ArrowDown: 1, ArrowUp: -1, PageDown: 10, PageUp: -10 };

export class ChoiceList {
  /** @param {HTMLElement} place @param {string} attribute of `data`, which has the name @param {(choice: any) => void} onChoice */
  constructor(place, attribute, onChoice) {
    this.place = place;
    this.attribute = attribute;
    this.onChoice = onChoice;
    /** @type {Choice | null} */
    this.chosen = null;
    place.addEventListener("keydown", (/** @type {KeyboardEvent} */ event) => this.#key(event));
  }

  /** @param {Choice[]} choices @param {string} empty what to say when there are none */
  show(choices, empty) {
    if (!choices.length) return fill(this.place, element("p", { class: "empty" }, empty));
    const first = choices.find((one) => this.#isChosen(one)) ?? choices[0];
    fill(this.place, element("ul", { class: "rule-list" }, choices.map((one) => element("li", {}, this.#button(one, one === first)))));
  }

  /** @param {Choice} choice @param {boolean} isReached by the Tab key */
  #button(choice, isReached) {
    return element(
      "button",
      {
        type: "button",
        data: { [this.attribute]: choice.name, kind: choice.kind ?? "" },
        tabindex: isReached ? 0 : -1,
        "aria-pressed": String(this.#isChosen(choice)),
        onclick: () => this.onChoice(choice),
      },
      element("strong", {}, choice.title ?? choice.name),
      element("span", {}, choice.text),
    );
  }

  /** @param {Choice} choice */
  #isChosen(choice) {
    return this.chosen !== null && choice.name === this.chosen.name && choice.kind === this.chosen.kind;
  }

  /** Mark a choice as the chosen one. @param {Choice} choice */
  choose(choice) {
    this.chosen = choice;
    for (const button of this.place.querySelectorAll("button")) {
      const is = button.dataset[this.attribute] === choice.name && button.dataset.kind === (choice.kind ?? "");
      button.setAttribute("aria-pressed", String(is));
      button.tabIndex = is ? 0 : -1;
      if (is) this.#reveal(button);
    }
    if (!this.place.querySelector("button[tabindex='0']")) this.place.querySelector("button")?.setAttribute("tabindex", "0");
  }

  /** Scroll the list, and not the page, so far that a button is in view. @param {HTMLElement} button */
  #reveal(button) {
    const [own, frame] = [button.getBoundingClientRect(), this.place.getBoundingClientRect()];
    if (own.top < frame.top) this.place.scrollTop += own.top - frame.top;
    else if (own.bottom > frame.bottom) this.place.scrollTop += own.bottom - frame.bottom;
  }

  /** @param {KeyboardEvent} event */
  #key(event) {
    const step = STEPS[/** @type {keyof STEPS} */ (event.key)];
    const buttons = [...this.place.querySelectorAll("button")];
    const now = buttons.indexOf(/** @type {HTMLButtonElement} */ (document.activeElement));
    if (!step || now < 0) return;
    event.preventDefault();
    const next = buttons[Math.min(buttons.length - 1, Math.max(0, now + step))];
    next.focus();
    next.click();
  }
}
