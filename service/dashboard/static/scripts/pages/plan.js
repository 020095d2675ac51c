/** One plan: what it costs, what was checked, what it decides, its history, how it runs. */

import { get, pages } from "../api.js";
import { checkChips, markChip, originChips } from "../badges.js";
import { showCostModel } from "../cost-model.js";
import { showCosts } from "../cost-table.js";
import { showDecisions } from "../decision-table.js";
import { decisionsOf } from "../decisions.js";
import { byId, element, fill, nowUsable, say } from "../dom.js";
import { enableChanges } from "../drawing/changes-section.js";
import { showDrawing } from "../drawing/section.js";
import { Executions } from "../executions.js";
import { Explaining } from "../explaining.js";
import { watchHealth } from "../health.js";
import { keepFocusSeen } from "../kept-focus.js";
import { marksOf, originMeaning, originText } from "../marks.js";
import { leastMemory } from "../mesh-facts.js";
import { showMoves } from "../move-list.js";
import { missing } from "../notice.js";
import { joined } from "../objective-list.js";
import { pairs } from "../pairs.js";
import { enableExports } from "../plan/exports.js";
import { showMemory } from "../plan/memory.js";
import { enableWhyNot } from "../plan/why-not.js";
import { getRun, meshLine } from "../run-summary.js";
import { showSharding } from "../sharding/section.js";
import { isWithinError, showTimeErrors, withinChip } from "../time-errors.js";
import { Tour } from "../tour.js";
import { several } from "../units.js";
import { usedDevices } from "../used-devices.js";
import { showVerification } from "../verification.js";

const id = byId("plan").dataset.plan;
const path = `/v1/plans/${encodeURIComponent(id)}`;

async function begin() {
  try {
    const plan = await get(path);
    const run = `/v1/runs/${encodeURIComponent(plan.run)}`;
    const all = [
      getRun(run),
      get(`${run}/frontier`),
      get("/v1/objectives"),
      get(`/v1/graphs/${encodeURIComponent(plan.graph_id)}`),
    ];
    const [of, frontier, objectives, graph] = await Promise.all(all);
    show(plan, of, frontier, joined(objectives.items, [...graph.objectives, ...frontier.objectives]), graph);
    enableChanges(plan.links.changes, `the program of the run, and what this plan shards: ${several(plan.moves.length, "move")}`);
    nowUsable(byId("plan"));
    new Tour({ page: "plan", run: plan.run, runAddress: pages.run(plan.run), planAddress: () => pages.plan(id) });
    void showSharding(plan, showDrawing(plan.links.drawing));
  } catch (error) {
    fill(nowUsable(byId("plan")), missing(error, "plan", id));
  }
}

/** A link to the comparison with the fastest plan of the run, for others. @param {any} plan @param {any[]} others */
function toFastest(plan, others) {
  if (!others.length) return [];
  const fastest = others.reduce((best, one) => (one.cost.time_s < best.cost.time_s ? one : best));
  if (fastest.id === plan.id) return [];
  return [element("a", { class: "button small", href: pages.compare("plans", [fastest.id, plan.id]) }, "Compare with the fastest")];
}

/** @param {any} plan @param {any} run @param {any} frontier @param {any[]} objectives @param {any} graph */
function show(plan, run, frontier, objectives, graph) {
  document.title = `Plan ${plan.plan} of ${graph.name} · Tapestry`;
  say(byId("title"), `Plan ${plan.plan}`);
  fill(
    byId("subject"),
    element("a", { href: pages.graph(plan.graph_id) }, graph.name),
    " on ",
    ...meshLine(run),
  );
  const crumb = byId("run-link");
  crumb.textContent = plan.run;
  crumb.href = pages.run(plan.run);
  const marks = marksOf(frontier.plans, frontier.objectives).get(plan.id) ?? [];
  const left = plan.on_frontier ? [] : [element("span", { class: "chip" }, "no longer on the frontier")];
  const infeasible = plan.feasible ? [] : [element("span", { class: "chip bad" }, "✕ infeasible")];
  const within = isWithinError(plan.lead) ? [withinChip(plan.lead)] : [];
  const checks = checkChips(plan.verified);
  fill(byId("chips"), ...marks.map(markChip), ...originChips(plan), ...within, ...left, ...infeasible, ...checks, ...toFastest(plan, frontier.plans));
  enableExports(path);
  showCostModel(byId("cost-model"), [plan]);
  showCosts(byId("costs"), plan.cost, frontier.plans, objectives, plan.objectives, plan.memory);
  showTimeErrors(byId("time-errors"), plan);
  showVerification(byId("verification"), plan.verified, frontier);
  new Executions(plan, leastMemory(run.mesh_document));
  showMemory(plan);
  enableWhyNot(plan, objectives, run.bounds ?? {});
  showPlacements(plan, graph);
  showMoves(byId("moves"), plan.moves, plan.verified?.suspects ?? []);
  new Explaining(plan.links.explanation, objectives);
  say(byId("move-count"), several(plan.moves.length, "move"));
}

/** @param {any} plan @param {any} graph */
function showPlacements(plan, graph) {
  const { order, inputs, outputs } = plan.placements;
  fill(
    byId("whole-plan"),
    pairs(
      [
        ["Devices", usedDevices(plan)],
        ["Schedule order", order],
        ["Inputs", inputs],
        ["Outputs", outputs],
        ["Origin", plan.origin ? `${originText(plan)} (${originMeaning(plan.origin.kind)})` : ""],
      ],
      "figures",
    ),
  );
  showDecisions(decisionsOf(plan.placements, graph.summary?.sources ?? []));
}

watchHealth();
keepFocusSeen(byId("plan"));
void begin();
