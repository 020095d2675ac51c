/** One run, live: its frontier, its history, and its options. */

import { keepChoice, keepOneOf } from "../address.js";
import { get, pages, post } from "../api.js";
import { statusBadge } from "../badges.js";
import { PlanTray } from "../comparing.js";
import { showCostModel } from "../cost-model.js";
import { saveMenu } from "../charts/saving.js";
import { frontierRows } from "../csv.js";
import { byId, element, fill, nowUsable, say, throttled } from "../dom.js";
import { follow } from "../events.js";
import { explainOptions } from "../explanations.js";
import { BoundsForm, heldText } from "../frontier/bounds-form.js";
import { FrontierData } from "../frontier/data.js";
import { MatrixPlot } from "../frontier/matrix.js";
import { ParallelPlot } from "../frontier/parallel.js";
import { FrontierPlot } from "../frontier/plot.js";
import { Selection } from "../frontier/selection.js";
import { FrontierView } from "../frontier/view.js";
import { watchHealth, workerRemedy } from "../health.js";
import { HistoryPlot } from "../history-plot.js";
import { marksOf } from "../marks.js";
import { errorNotice, missing, problemNotice } from "../notice.js";
import { joined } from "../objective-list.js";
import { PlanTable } from "../plan-table.js";
import { showBounds } from "../proven-bounds.js";
import { showRefused } from "../refused-rules.js";
import { RuleHistory } from "../rule-history.js";
import { showRules } from "../rule-table.js";
import { LiveRun, RunState } from "../run-state.js";
import { getRun, meshLine, placeText, showCommands, showMaking, showRequest } from "../run-summary.js";
import { saveJson } from "../saving.js";
import { Tour } from "../tour.js";
import { age, count, duration, plain, several } from "../units.js";

const REDRAW_MS = 400;
const QUEUE_MS = 3000;

const id = byId("run").dataset.run;
const path = `/v1/runs/${encodeURIComponent(id)}`;
const selection = new Selection(() => showPlans());
const plot = new FrontierPlot(byId("frontier"), (plan) => point(plan));
const parallel = new ParallelPlot(byId("parallel"), (plan) => point(plan));
const matrix = new MatrixPlot(byId("matrix"), (plan) => point(plan));
const boundFields = new BoundsForm(byId("bound-fields"));
const history = new HistoryPlot(byId("history"));
const tray = new PlanTray(byId("selection"));
const table = new PlanTable(byId("plans"), (plan) => point(plan), tray);
const ruleHistory = new RuleHistory(byId("rules-time"));

/** @type {any} */
let run;
/** @type {any} */
let frontier;
/** @type {any[]} */
let catalog = [];
/** @type {LiveRun} */
let live;
/** @type {FrontierView} */
let view;

async function begin() {
  try {
    // The frontier first: events that are as far as the run are then never behind it.
    [frontier, { items: catalog }] = await Promise.all([get(`${path}/frontier`), get("/v1/objectives")]);
    catalog = joined(catalog, frontier.objectives);
    run = await getRun(path);
  } catch (error) {
    return fill(nowUsable(byId("run")), missing(error, "run", id));
  }
  explainOptions(JSON.parse(byId("request").dataset.explanations));
  live = new LiveRun(RunState.of(run, frontier));
  view = new FrontierView(frontier.objectives, catalog, showPlans);
  showSummary();
  show();
  nowUsable(byId("run"));
  new Tour({ page: "run", run: id, runAddress: pages.run(id), planAddress: kneeAddress });
  byId("live").hidden = live.shown.isEnded;
  if (live.shown.isEnded) return undefined;
  void watchQueue();
  return listen();
}

function listen() {
  const redraw = throttled(show, REDRAW_MS);
  follow(`${path}/events`, {
    onEvents: (events) => {
      live.apply(events);
      redraw();
      if (live.shown.isEnded) void finish();
    },
    onConnection: (state, pause = 0) => {
      byId("live").className = `live ${state}`;
      const words = {
        connecting: "connecting…",
        open: "live",
        lost: `connection lost, trying again in ${Math.ceil(pause / 1000)} s`,
        over: "ended",
      };
      say(byId("live"), words[state]);
    },
    isOver: () => live.shown.isEnded,
  });
}

/** While it waits, ask where it is in the queue: that changes with other runs, of which no event says anything. */
async function watchQueue() {
  while (live.shown.status === "queued") {
    try {
      run = { ...run, queue: (await get(path)).queue };
    } catch {
      // the stream of events reports that the service is away
    }
    showQueue();
    await new Promise((resolve) => setTimeout(resolve, QUEUE_MS));
  }
}

function showQueue() {
  const waits = live.shown.status === "queued" && Boolean(run.queue);
  byId("queue").hidden = !waits;
  say(byId("queue-place"), waits ? placeText(run.queue) : "");
  const isAlone = waits && !run.queue.expected_start;
  if (isAlone !== byId("queue-remedy").childElementCount > 0) fill(byId("queue-remedy"), ...(isAlone ? workerRemedy() : []));
}

/** Once more from the documents: they know what no event says. */
async function finish() {
  try {
    [run, frontier] = await Promise.all([getRun(path), get(`${path}/frontier`)]);
    live = new LiveRun(RunState.of(run, frontier));
    showSummary();
    show();
  } catch {
    // the events have reported its end; the rest comes with the next visit
  }
}

function showSummary() {
  document.title = `${run.graph} on ${run.mesh} · Tapestry`;
  say(byId("title"), run.graph);
  fill(byId("mesh"), ...meshLine(run));
  showRequest(byId("request"), run, catalog);
  showMaking(byId("making"), run, catalog);
  showCommands(byId("commands"), run);
  showReused();
  showCancelled();
  const isProven = live.shown.isEnded && Object.keys(run.bounds).length > 0;
  byId("bounds-card").hidden = !isProven;
  if (isProven) showBounds(byId("bounds"), run.bounds, catalog);
}

/** The form leads here where this run has answered the same request before. */
function showReused() {
  if (!new URLSearchParams(location.search).has("reused") || byId("reused").childElementCount) return;
  const text = `The same was asked for ${age(run.created_at)}, and this run answered it. Nothing was searched again. `;
  fill(byId("reused"), element("p", { class: "notice" }, text, searchAgain()));
}

function searchAgain() {
  return element("a", { href: `/runs/new?from=${encodeURIComponent(id)}&fresh` }, "Search again");
}

/** That a run did not come to its end, and what this means for its plans. */
function showCancelled() {
  const { status, plans, checked } = live.shown;
  if (status !== "cancelled") return;
  const { seconds } = run.budget;
  const when = run.started_at ? `after ${duration(run.seconds)}${seconds ? ` of ${duration(seconds)}` : ""} of searching` : "before it began";
  const left = plans.size - checked;
  const kept = `${several(plans.size, "plan")} found until then ${plans.size === 1 ? "is" : "are"} kept`;
  const verified = left ? `${left === plans.size ? "" : `${plain(left)} of them `}not verified, and will not be` : "verified";
  const words = plans.size ? `The ${kept}, ${verified}. ` : "It found no plan. ";
  fill(byId("cancelled"), element("p", { class: "notice" }, `This run was cancelled ${when}. ${words}`, searchAgain()));
}

function show() {
  const state = live.shown;
  showStatus(state);
  showQueue();
  showFigures(state);
  showPlans();
  history.show(state.history, byId("over").value);
  showRules(byId("rules"), state.rules);
  if (byId("rules-over-time").checked) showRulesOverTime();
  showRefused(byId("refused"), state.refused);
}

/** @param {RunState} state */
function showStatus(state) {
  const isBusy = state.status === "running";
  if (state.isEnded) byId("cancellation").close();
  const cancelling = run.cancel_requested && !state.isEnded;
  const more = cancelling ? "cancelling" : isBusy && state.phase !== "queued" ? state.doing || state.phase : "";
  const badge = statusBadge(state.status, more);
  if (byId("status").textContent !== badge.textContent) fill(byId("status"), badge);
  byId("cancel").hidden = state.isEnded;
  byId("cancel").disabled = cancelling;
  byId("problem").hidden = !state.problem;
  if (state.problem && !byId("problem").childElementCount)
    fill(byId("problem"), problemNotice(state.problem));
}

/** @param {RunState} state */
function showFigures(state) {
  const { seconds, evaluations } = run.budget;
  byId("bar").style.width = `${100 * state.fraction}%`;
  byId("progress").setAttribute("aria-valuenow", Math.round(100 * state.fraction));
  const checked = state.checked;
  const figures = {
    searched: seconds ? [duration(state.seconds), ` of ${duration(seconds)}`] : [duration(state.seconds), ""],
    evaluations: evaluations
      ? [count(state.evaluations), ` of ${count(evaluations)}`]
      : [count(state.evaluations), ""],
    rate: [state.rate === null ? "–" : count(Math.round(state.rate)), ""],
    size: [plain(state.plans.size), ""],
    checked: [plain(checked), checkedOf(state)],
    hypervolume: [state.hypervolume ? plain(state.hypervolume, 4) : "–", ""],
    attempt: [plain(state.attempt), ""],
  };
  for (const [name, [figure, more]] of Object.entries(figures))
    fill(byId(`figure-${name}`), figure, element("small", {}, more));
}

/** @param {RunState} state */
function checkedOf({ plans, doubtful }) {
  const failed = doubtful ? `, ${plain(doubtful)} failed or not trusted` : "";
  return plans.size ? ` of ${plain(plans.size)}${failed}` : "";
}

/** The page of the knee; none while there is no plan. */
function kneeAddress() {
  const marks = marksOf([...live.shown.plans.values()], frontier.objectives);
  const knee = [...marks].find(([, names]) => names.includes("knee"));
  return knee ? pages.plan(knee[0]) : null;
}

/** Point a plan out in all views. @param {string | null} id */
function point(id) {
  for (const view of [plot, parallel, matrix]) view.point(id);
  table.point(id);
}

function showPlans() {
  const all = [...live.shown.plans.values()];
  const chosen = frontier.objectives;
  const marks = marksOf(all, chosen);
  byId("frontier").hidden = byId("all-objectives").hidden = all.length === 0;
  byId("no-plans").hidden = all.length > 0;
  byId("frontier-help").hidden = all.length === 0;
  const isWithoutPlans = live.shown.isEnded && all.length === 0;
  for (const card of ["frontier-card", "hypervolume-card", "plans-card"]) byId(card).hidden = isWithoutPlans;
  byId("run-grid").classList.toggle("is-without-plans", isWithoutPlans);
  say(
    byId("no-plans"),
    live.shown.status === "queued" ? "The first plans appear here once a worker has begun the run." : "The first plans appear here in a moment.",
  );
  byId("save-json").disabled = all.length === 0;
  byId("plan-frame").hidden = all.length === 0;
  showCostModel(byId("cost-model"), all);
  const bounds = live.shown.isEnded ? run.bounds : {};
  const content = { plans: all, objectives: catalog, chosen, marks, bounds, selection, color: view.view.color };
  const data = new FrontierData(content);
  const shown = byId("all-costs").checked ? catalog : chosen;
  // Events bring plans without their leads, which depend on the whole frontier.
  tray.keep((id) => live.shown.plans.has(id));
  table.show({ plans: heldPlans(), objectives: shown, marks, hasLeads: live.shown.isEnded });
  say(byId("plan-count"), all.length ? heldText(data) || several(all.length, "plan") : "");
  say(byId("held"), heldText(data));
  byId("clear-bounds").disabled = selection.isEmpty;
  if (!all.length) return;
  plot.show(data, view.view);
  boundFields.show(data, shown);
  const isParallel = /** @type {any} */ (document.querySelector("[name=whole]:checked")).value === "parallel";
  byId("parallel").hidden = byId("whole-help").hidden = !isParallel;
  byId("matrix").hidden = isParallel;
  if (isParallel) parallel.show(data, shown);
  else matrix.show(data, chosen);
}

/** The plans within the bounds. */
function heldPlans() {
  return [...live.shown.plans.values()].filter((plan) => selection.holds(plan));
}

/** The history of rules comes with the events; those of an ended run are read when they are wanted. */
function showRulesOverTime() {
  const isWanted = byId("rules-over-time").checked;
  byId("rules").hidden = isWanted;
  byId("rules-time").hidden = byId("save-rules").hidden = !isWanted;
  if (isWanted) ruleHistory.show(path, live);
}

function addMenus() {
  const csv = () => frontierRows(heldPlans());
  const wholeFigure = {
    svg: () => (byId("matrix").hidden ? parallel : matrix).svg(),
    png: () => (byId("matrix").hidden ? parallel : matrix).png(),
  };
  fill(byId("save-frontier"), saveMenu(plot, () => `${id}.frontier`, csv));
  fill(byId("save-whole"), saveMenu(wholeFigure, () => `${id}.objectives`, csv));
  fill(byId("save-rules"), saveMenu(ruleHistory.chart, () => `${id}.rules`, () => ruleHistory.chart.rows()));
  fill(byId("save-history"), saveMenu(history.chart, () => `${id}.hypervolume`, () => history.rows()));
}

addMenus();
keepChoice("over", byId("over"));
keepChoice("rules", byId("rules-over-time"));
keepChoice("costs", byId("all-costs"));
keepOneOf("whole", "whole");
byId("clear-bounds").addEventListener("click", () => selection.clear());
for (const choice of document.querySelectorAll("[name=whole]")) choice.addEventListener("change", () => showPlans());
byId("over").addEventListener("change", () => history.show(live.shown.history, byId("over").value));
byId("rules-over-time").addEventListener("change", showRulesOverTime);
byId("all-costs").addEventListener("change", () => showPlans());
byId("save-json").addEventListener("click", () => {
  const document = { ...frontier, status: live.shown.status, plans: heldPlans() };
  saveJson(`${id}.frontier.json`, document);
});
byId("cancel").addEventListener("click", () => byId("cancellation").showModal());
byId("confirm-cancellation").addEventListener("click", async () => {
  byId("confirm-cancellation").disabled = true;
  try {
    run = { ...run, ...(await post(`${path}/cancel`, {})) };
    byId("cancellation").close();
    showStatus(live.shown);
  } catch (error) {
    fill(byId("cancellation-trouble"), errorNotice(error));
  }
  byId("confirm-cancellation").disabled = false;
});

watchHealth();
void begin();
