/** The rules: what they change, and what runs have learned of them. */

import { get } from "../api.js";
import { byId, element, fill, say } from "../dom.js";
import { watchHealth } from "../health.js";
import { missing } from "../notice.js";
import { showRates } from "../rates-plot.js";
import { count, plain, several } from "../units.js";

const HEAD = ["rule", "operators", "mesh", "objectives", "runs", "applied", "improved", "rate", "hypervolume"];

async function begin() {
  try {
    const rules = get("/v1/rules");
    showLearned(await get("/v1/learned"));
    showCatalog((await rules).items);
  } catch (error) {
    fill(byId("catalog"), missing(error, "list of", "rules"));
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

/** @param {any[]} rules */
function showCatalog(rules) {
  fill(
    byId("catalog"),
    tableOf(
      ["rule", "family", "kind", "holds", "what changes"],
      rules.map((rule) => [rule.name, rule.family, rule.kind, rule.domain, rule.summary]),
    ),
  );
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
