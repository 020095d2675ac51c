/** The rules: what they change, and what runs have learned of them. */

import { get, problemOf } from "../api.js";
import { byId, element, fill, say } from "../dom.js";
import { watchHealth } from "../health.js";
import { problemNotice } from "../notice.js";
import { showRates } from "../rates-plot.js";
import { RuleList } from "../rules/rule-list.js";
import { showRule } from "../rules/rule-view.js";
import { count, plain, several } from "../units.js";

const HEAD = ["rule", "operators", "mesh", "objectives", "runs", "applied", "improved", "rate", "hypervolume"];

async function begin() {
  try {
    const [rules, learned] = await Promise.all([get("/v1/rules"), get("/v1/learned")]);
    showLearned(learned);
    showCatalog(rules.items, learned);
  } catch (error) {
    fill(byId("catalog"), problemNotice(problemOf(error)));
  }
}

/** @param {{prior: number, rules: any[], snapshots: any[]}} learned */
function showLearned({ prior, rules, snapshots }) {
  const runs = several(new Set(snapshots.map((row) => row.snapshot)).size, "run");
  say(
    byId("prior"),
    prior
      ? `Prior ${prior}. The last ${runs}, by credit of a thousand applied moves.`
      : "Nothing yet: each run of this release tells what its moves brought.",
  );
  showRates(byId("rates-plot"), snapshots);
  if (!rules.length) return;
  const rows = [...rules].sort(
    (one, other) =>
      one.mesh_kind.localeCompare(other.mesh_kind) ||
      one.focus.localeCompare(other.focus) ||
      other.rate - one.rate,
  );
  fill(
    byId("rates"),
    tableOf(
      HEAD,
      rows.map((row) => [
        row.rule,
        row.operator_class,
        row.mesh_kind,
        row.focus.replaceAll("+", ", "),
        count(row.snapshots),
        count(row.applied),
        count(row.improved),
        plain(row.rate, 2),
        `${plain(100 * row.volume, 1)}%`,
      ]),
    ),
  );
}

/** The list of rules beside the chosen one; the address says which, and what was searched for. @param {any[]} rules @param {any} learned */
function showCatalog(rules, learned) {
  const given = new URLSearchParams(location.search);
  const choose = (/** @type {any} */ rule) => {
    list.choose(rule.name);
    keep();
    void showRule(byId("rule"), rule, learned);
  };
  const keep = () => {
    const state = Object.entries({ rule: list.chosen, ...list.terms }).filter(([, value]) => value);
    history.replaceState(null, "", `?${new URLSearchParams(state)}`);
  };
  const list = new RuleList(rules, choose, keep);
  list.terms = Object.fromEntries(given);
  list.search();
  const first = rules.find((rule) => rule.name === given.get("rule")) ?? list.shown[0] ?? rules[0];
  if (first) choose(first);
}

/** A table, its numbers to the right. @param {string[]} head @param {string[][]} rows */
function tableOf(head, rows) {
  const first = rows[0] ?? [];
  const kinds = head.map((_, k) => (/^[\d.,% ]+$/.test(first[k] ?? "") ? "number" : ""));
  return element(
    "table",
    {},
    element(
      "thead",
      {},
      element(
        "tr",
        {},
        head.map((name, k) => element("th", { scope: "col", class: kinds[k] }, name)),
      ),
    ),
    element(
      "tbody",
      {},
      rows.map((row) =>
        element(
          "tr",
          {},
          row.map((text, k) =>
            k ? element("td", { class: kinds[k] }, text) : element("th", { scope: "row" }, text),
          ),
        ),
      ),
    ),
  );
}

watchHealth();
void begin();
