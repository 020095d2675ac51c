/** The rules: what they change, and what runs have learned of them. */

import { get } from "../api.js";
import { byId, element, fill, say } from "../dom.js";
import { watchHealth } from "../health.js";
import { errorNotice } from "../notice.js";
import { titlesOf } from "../objective-list.js";
import { showRates } from "../rates-plot.js";
import { RuleList } from "../rules/rule-list.js";
import { showRule } from "../rules/rule-view.js";
import { figure, numberHead, rowOf, SHARE, showTable } from "../tables.js";
import { count, plain, several } from "../units.js";

const HEADS = ["rule", "operators", "mesh", "objectives", ...["runs", "applied", "improved", "rate"].map((name) => numberHead(name)), numberHead("hypervolume", "", "rules: hypervolume")];

async function begin() {
  try {
    const [rules, learned, objectives] = await Promise.all([get("/v1/rules"), get("/v1/learned"), get("/v1/objectives")]);
    showLearned(learned, objectives.items);
    showCatalog(rules.items, learned);
  } catch (error) {
    fill(byId("catalog"), errorNotice(error));
  }
}

/** @param {{prior: number, rules: any[], snapshots: any[]}} learned @param {import("../cost-table.js").Objective[]} catalog */
function showLearned({ prior, rules, snapshots }, catalog) {
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
  const cells = rows.map((row) =>
    rowOf(row.rule, [
      ...[row.operator_class, row.mesh_kind, titlesOf(row.focus.split("+"), catalog)].map((text) => element("td", {}, text)),
      ...[row.snapshots, row.applied, row.improved].map((number) => figure(count(number), number)),
      figure(plain(row.rate, 2), row.rate),
      figure(`${plain(100 * row.volume, 1)} %`, row.volume, SHARE),
    ]),
  );
  showTable(byId("rates"), HEADS, cells, "What runs have learned of rules");
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

watchHealth();
void begin();
