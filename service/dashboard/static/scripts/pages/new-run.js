/** The form for a run: program, mesh, objectives, constraints, budget; errors stand at their fields. */

import { get, pages, post, problemOf } from "../api.js";
import { ConstraintBuilder } from "../constraint-builder.js";
import { copyButton } from "../copying.js";
import { byId, fill, nowUsable, say, throttled } from "../dom.js";
import { clearFaults, showFaults } from "../faults.js";
import { GraphPicker } from "../graph-picker.js";
import { watchHealth } from "../health.js";
import { MeshPicker } from "../mesh-picker.js";
import { errorNotice } from "../notice.js";
import { joined } from "../objective-list.js";
import { showPlugIns } from "../plug-in-list.js";
import {
  fillFields,
  fillObjectives,
  readFields,
  readObjectives,
  showObjectives,
  showRuleChoices,
} from "../run-form.js";
import { curl, getRun, meshOf } from "../run-summary.js";

const form = byId("form");
const address = new URLSearchParams(location.search);
const graphs = new GraphPicker(() => {
  showOwnObjectives();
  preview();
});
const meshes = new MeshPicker(() => preview());
const preview = throttled(showPreview, 150);
/** @type {ConstraintBuilder} */
let constraints;
/** @type {import("../run-form.js").Objective[]} */
let catalog = [];
/** Sent again with the same request, it makes no second run. */
let key = "";
let sent = "";

async function begin() {
  try {
    const [{ items }, { items: rules }, { items: plugIns }] = await Promise.all([
      get("/v1/objectives"),
      get("/v1/rules"),
      get("/v1/plugins"),
      meshes.load(),
    ]);
    catalog = items;
    showObjectives(catalog, JSON.parse(form.dataset.objectives));
    showRuleChoices(rules);
    showPlugIns(plugIns);
    constraints = new ConstraintBuilder(catalog, () => preview());
    const model = address.get("from")
      ? await getRun(`/v1/runs/${encodeURIComponent(address.get("from") ?? "")}`)
      : null;
    if (model) {
      meshes.take(meshOf(model));
      fillFields(model);
      for (const text of model.constraints) constraints.read(text);
    }
    byId("fresh").checked = address.has("fresh");
    await graphs.load(model?.graph_id ?? address.get("graph"));
    byId("start").disabled = false;
    preview();
  } catch (error) {
    fill(byId("form-problem"), errorNotice(error));
  }
  nowUsable(form);
}

/** The program's own resources are objectives too; what was chosen stays so. */
function showOwnObjectives() {
  if (!constraints) return;
  const chosen = readObjectives();
  constraints.catalog = joined(catalog, graphs.chosen?.objectives ?? []);
  showObjectives(constraints.catalog, []);
  fillObjectives(chosen);
}

function request() {
  return {
    graph_id: graphs.graphId,
    mesh: meshes.mesh,
    ...readFields(),
    constraints: constraints?.texts.length ? constraints.texts : undefined,
    fresh: byId("fresh").checked || undefined,
    priority: Number(byId("priority").value) || undefined,
  };
}

function showPreview() {
  say(byId("preview"), curl("/v1/runs", request()));
}

/** The faults that are found without a request. @returns {{pointer: string, detail: string}[]} */
function missing() {
  const faults = [];
  const body = request();
  const detail = graphs.reading ? `wait until ${graphs.reading} is read, or choose another program` : "choose a program";
  if (!body.graph_id) faults.push({ pointer: "/graph_id", detail });
  if (body.mesh === null)
    faults.push({ pointer: "/mesh", detail: "give a mesh file, or its fields as JSON" });
  if (!body.objectives.length) faults.push({ pointer: "/objectives", detail: "choose at least one" });
  (body.constraints ?? []).forEach((text, k) => {
    if (text.includes("?")) faults.push({ pointer: `/constraints/${k}`, detail: "give a number" });
  });
  return faults;
}

form.addEventListener("submit", async (/** @type {SubmitEvent} */ event) => {
  event.preventDefault();
  clearFaults(form);
  const faults = missing();
  if (faults.length)
    return showFaults(
      form,
      /** @type {any} */ ({ title: "Something is missing", message: "", errors: faults }),
    );
  const body = request();
  if (JSON.stringify(body) !== sent) {
    sent = JSON.stringify(body);
    key = crypto.getRandomValues(new Uint32Array(4)).join("-");
  }
  byId("start").disabled = true;
  say(byId("start-status"), "Starting…");
  try {
    const { id, reused } = await post("/v1/runs", body, key);
    return location.assign(pages.run(id) + (reused ? "?reused" : ""));
  } catch (error) {
    showFaults(form, problemOf(error));
  }
  say(byId("start-status"), "");
  byId("start").disabled = false;
  return undefined;
});
form.addEventListener("input", () => preview());
byId("no-rules").addEventListener("click", () => setRules(false));
byId("all-rules").addEventListener("click", () => setRules(true));
byId("copy-place").append(copyButton(() => byId("preview").textContent, "the command"));

/** @param {boolean} isOn */
function setRules(isOn) {
  for (const box of document.querySelectorAll("input[name=rule]")) /** @type {any} */ (box).checked = isOn;
  preview();
}

watchHealth();
void begin();
