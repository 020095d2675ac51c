/**
 * The rules by name, those that were searched for; one of them is chosen.
 * @module rules/rule-list
 */

import { byId, element, fill, say } from "../dom.js";
import { several } from "../units.js";

const STEPS = { ArrowDown: 1, ArrowUp: -1, PageDown: 10, PageUp: -10 };

/** The list with its search field and choices; arrow keys go from rule to rule. */
export class RuleList {
  /** @param {any[]} rules @param {(rule: any) => void} onChoice @param {() => void} onSearch */
  constructor(rules, onChoice, onSearch) {
    this.rules = rules;
    this.onChoice = onChoice;
    this.chosen = "";
    /** @type {any[]} */
    this.shown = rules;
    this.place = byId("catalog");
    for (const id of ["rule-find", "rule-family", "rule-domain"]) {
      byId(id).addEventListener("input", () => {
        this.search();
        onSearch();
      });
    }
    this.place.addEventListener("keydown", (/** @type {KeyboardEvent} */ event) => this.#key(event));
    const families = [...new Set(rules.map((rule) => rule.family))].sort();
    byId("rule-family").append(...families.map((name) => element("option", { value: name }, name)));
  }

  /** What is searched for, as the address has it. */
  get terms() {
    return { find: byId("rule-find").value.trim(), family: byId("rule-family").value, holds: byId("rule-domain").value };
  }

  /** Where the address says nothing, what was entered while the page loaded stays. @param {{find?: string, family?: string, holds?: string}} terms */
  set terms({ find, family, holds }) {
    byId("rule-find").value = find ?? byId("rule-find").value;
    byId("rule-family").value = family ?? byId("rule-family").value;
    byId("rule-domain").value = holds ?? byId("rule-domain").value;
  }

  search() {
    const { find, family, holds } = this.terms;
    const words = find.toLowerCase().split(/\s+/);
    this.shown = this.rules.filter(
      (rule) =>
        (!family || rule.family === family) &&
        (!holds || rule.domain === holds) &&
        words.every((word) => `${rule.name} ${rule.doc} ${rule.source}`.toLowerCase().includes(word)),
    );
    say(byId("rule-count"), `${several(this.shown.length, "rule")} of ${this.rules.length}`);
    this.#draw();
  }

  #draw() {
    if (!this.shown.length) {
      return fill(this.place, element("p", { class: "empty" }, "No rule says this. Try another word, or all families."));
    }
    const first = this.shown.find((rule) => rule.name === this.chosen) ?? this.shown[0];
    fill(
      this.place,
      element(
        "ul",
        { class: "rule-list" },
        this.shown.map((rule) =>
          element(
            "li",
            {},
            element(
              "button",
              {
                type: "button",
                data: { rule: rule.name },
                tabindex: rule === first ? 0 : -1,
                "aria-pressed": String(rule.name === this.chosen),
                onclick: () => this.onChoice(rule),
              },
              element("strong", {}, rule.name),
              element("span", {}, rule.summary),
            ),
          ),
        ),
      ),
    );
  }

  /** Mark a rule as the chosen one. @param {string} name */
  choose(name) {
    this.chosen = name;
    for (const button of this.place.querySelectorAll("button")) {
      const is = button.dataset.rule === name;
      button.setAttribute("aria-pressed", String(is));
      button.tabIndex = is ? 0 : -1;
      if (is) button.scrollIntoView({ block: "nearest" });
    }
    if (!this.place.querySelector("button[tabindex='0']")) this.place.querySelector("button")?.setAttribute("tabindex", "0");
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
