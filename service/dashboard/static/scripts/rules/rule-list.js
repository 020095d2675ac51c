/**
 * The rules by name, those that were searched for; one of them is chosen.
 * @module rules/rule-list
 */

import { ChoiceList } from "../choice-list.js";
import { byId, element, say } from "../dom.js";
import { several } from "../units.js";

/** The list with its search field and choices; arrow keys go from rule to rule. */
export class RuleList {
  /** @param {any[]} rules @param {(rule: any) => void} onChoice @param {() => void} onSearch */
  constructor(rules, onChoice, onSearch) {
    this.rules = rules;
    this.list = new ChoiceList(byId("catalog"), "rule", ({ rule }) => onChoice(rule));
    /** @type {any[]} */
    this.shown = rules;
    for (const id of ["rule-find", "rule-family", "rule-domain"]) {
      byId(id).addEventListener("input", () => {
        this.search();
        onSearch();
      });
    }
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
    const choices = this.shown.map((rule) => ({ name: rule.name, text: rule.summary, rule }));
    this.list.show(choices, "No rule says this. Try another word, or all families.");
  }

  get chosen() {
    return this.list.chosen?.name ?? "";
  }

  /** Mark a rule as the chosen one. @param {string} name */
  choose(name) {
    this.list.choose({ name, text: "" });
  }
}
