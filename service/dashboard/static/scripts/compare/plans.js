/**
 * Plans beside each other: costs, decisions about the whole, and the blocks about which they decide differently.
 * @module compare/plans
 */

import { keepChoice } from "../address.js";
import { get, pages } from "../api.js";
import { moreOf } from "../decisions.js";
import { byId, element, fill, say, throttled } from "../dom.js";
import { joined } from "../objective-list.js";
import { plain, quantity, several } from "../units.js";
import { figureRow } from "./figures.js";
import { showOverTime } from "./over-time.js";
import { markColumns, showSubjectTable } from "./subjects.js";

const MOST_GROUPS = 200;

/** @param {any} found the comparison @param {import("./subjects.js").Subjects} subjects */
export async function showPlans(found, subjects) {
  byId("of-plans").hidden = false;
  const names = [...new Set(found.plans.map((/** @type {any} */ plan) => plan.graph_id))];
  const [{ items }, ...graphs] = await Promise.all([get("/v1/objectives"), ...names.map((id) => get(`/v1/graphs/${id}`))]);
  const catalog = joined(items, graphs.flatMap((graph) => graph.objectives));
  const showCosts = () => showCostRows(found.plans, catalog, subjects);
  showCosts();
  byId("all-costs").addEventListener("change", showCosts);
  keepChoice("costs", byId("all-costs"));
  showLeads(found.plans, subjects);
  const rows = found.parameters.map((/** @type {any} */ row) => ({ title: row.title, cells: row.values.map(parameterText), isMuted: !row.differs, isNumber: false }));
  showSubjectTable(byId("parameters"), subjects, rows, { label: "The plans as a whole" });
  const redraw = () => showDecisions(found.decisions, subjects);
  byId("search").addEventListener("input", throttled(redraw, 120));
  keepChoice("decisions", byId("search"));
  redraw();
  subjects.onPoint((k) => ["costs", "parameters", "decisions", "moments"].forEach((id) => markColumns(byId(id), k)));
  await showOverTime(subjects.all.map(({ id }) => id), subjects);
}

/** @param {string} text */
const parameterText = (text) => (text === "" ? "–" : text);

/** @param {any[]} plans @param {any[]} catalog @param {import("./subjects.js").Subjects} subjects */
function showCostRows(plans, catalog, subjects) {
  const chosen = [...new Set(plans.flatMap((plan) => plan.objectives))];
  const all = [...new Set([...chosen, ...plans.flatMap((plan) => Object.keys(plan.cost))])];
  const rows = all
    .filter((name) => chosen.includes(name) || byId("all-costs").checked)
    .map((name) => {
      const known = catalog.find((one) => one.name === name) ?? { title: name, unit: "", description: "" };
      return figureRow(known.title, plans.map((plan) => plan.cost[name]), known.unit, { isMuted: !chosen.includes(name), about: `cost: ${name}` });
    });
  showSubjectTable(byId("costs"), subjects, rows, { label: "Costs" });
}

/** @param {any[]} plans @param {import("./subjects.js").Subjects} subjects */
function showLeads(plans, subjects) {
  const texts = plans.flatMap(({ lead }, k) => {
    if (!lead) return [];
    const isSlower = lead.seconds > 0;
    const certain = Math.abs(lead.seconds) <= lead.error_s ? "within the error of the model" : `± ${quantity(lead.error_s, "s")}`;
    return [`${subjects.all[k].name} is ${quantity(Math.abs(lead.seconds), "s")} ${isSlower ? "slower" : "faster"} than ${subjects.all[0].name} (${certain}).`];
  });
  say(byId("leads"), texts.join(" "));
}

/** @param {any} decisions @param {import("./subjects.js").Subjects} subjects */
function showDecisions({ blocks, equal, groups }, subjects) {
  const words = byId("search").value.toLowerCase().split(/\s+/).filter(Boolean);
  const texts = (/** @type {any} */ group) =>
    `${group.name} ${group.sites.join(" ")} ${group.values.map((/** @type {any} */ value) => value?.strategy ?? "").join(" ")}`.toLowerCase();
  const found = words.length ? groups.filter((/** @type {any} */ group) => words.every((word) => texts(group).includes(word))) : groups;
  say(byId("decision-count"), `${several(blocks - equal, "block")} of ${plain(blocks)}; about the others all plans decide the same`);
  if (!found.length) return fill(byId("decisions"), element("p", { class: "empty" }, groups.length ? "None is like that." : "All plans decide the same about every block."));
  const rows = found.slice(0, MOST_GROUPS).map((/** @type {any} */ group) => ({
    title: group.sites.length > 1
      ? element("details", { class: "sites" }, element("summary", {}, `${group.name}, ${plain(group.sites.length)} alike`), element("div", { class: "mono small" }, group.sites.join(", ")))
      : element("span", { class: "mono" }, group.sites[0]),
    cells: group.values.map(decisionCell),
    isNumber: false,
  }));
  showSubjectTable(byId("decisions"), subjects, rows, { label: "Decisions that differ", first: "block" });
  if (found.length > MOST_GROUPS) byId("decisions").append(element("p", { class: "muted small" }, `${plain(found.length - MOST_GROUPS)} more; search to see them`));
  return undefined;
}

/** @param {any} value */
function decisionCell(value) {
  if (value === null) return element("span", { class: "muted" }, "no such block");
  return [element("div", { class: "mono" }, value.strategy), element("div", { class: "small muted" }, moreOf(value))];
}

/** A plan as a subject. @param {any} plan @returns {import("./subjects.js").Subject} */
export function planSubject(plan) {
  return { id: plan.id, name: plan.plan, detail: `${plan.graph} on ${plan.mesh}, run ${plan.run}`, page: pages.plan(plan.id) };
}
