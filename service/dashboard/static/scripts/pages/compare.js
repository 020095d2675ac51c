/** Two to four runs or plans beside each other. */

import { get, pages } from "../api.js";
import { planSubject, showPlans } from "../compare/plans.js";
import { showRuns } from "../compare/runs.js";
import { showSubjects, Subjects } from "../compare/subjects.js";
import { byId, element, fill, say } from "../dom.js";
import { watchHealth } from "../health.js";
import { errorNotice, problemNotice } from "../notice.js";
import { several } from "../units.js";

const [LEAST, MOST] = [2, 4];

const address = new URLSearchParams(location.search);
const what = address.has("plans") ? "plans" : "runs";
const ids = idsIn(address.get(what) ?? "");

/** @param {string} text */
function idsIn(text) {
  return [...new Set(text.split(/[\s,]+/).filter(Boolean))];
}

async function begin() {
  if (!ids.length) {
    byId("choose").hidden = false;
    return;
  }
  if (ids.length < LEAST || ids.length > MOST) {
    const detail = `${several(ids.length, what.slice(0, -1))} cannot be compared: choose at ${ids.length < LEAST ? "least two" : "most four"}.`;
    fill(byId("trouble"), problemNotice({ title: "Choose two to four", detail }));
    return chooseAgain();
  }
  say(byId("title"), `Compare ${several(ids.length, what.slice(0, -1))}`);
  say(byId("subject"), "Comparing…");
  try {
    const query = new URLSearchParams(ids.map((id) => [what.slice(0, -1), id]));
    const found = await get(`/v1/comparisons/${what}?${query}`);
    const all = what === "runs" ? found.runs.map(runSubject) : found.plans.map(planSubject);
    const subjects = new Subjects(all);
    document.title = `${all.map((/** @type {any} */ one) => one.name).join(", ")} · Tapestry`;
    say(byId("subject"), "Point at one to see it in every view. Differences are from the first.");
    showSubjects(byId("subjects"), subjects, leaveOut);
    fill(byId("notes"), ...found.notes.map((/** @type {string} */ note) => element("p", { class: "notice" }, note)));
    what === "runs" ? showRuns(found, subjects) : await showPlans(found, subjects);
  } catch (error) {
    say(byId("subject"), "");
    fill(byId("trouble"), errorNotice(error));
    chooseAgain();
  }
}

function chooseAgain() {
  byId("choose").hidden = false;
  byId("ids").value = ids.join(" ");
}

/** @param {any} run @returns {import("../compare/subjects.js").Subject} */
function runSubject(run) {
  return { id: run.run, name: run.run, detail: `${run.graph} on ${run.mesh}, ${run.status}`, page: pages.run(run.run) };
}

/** @param {string} id */
function leaveOut(id) {
  const left = ids.filter((one) => one !== id);
  location.assign(pages.compare(/** @type {"runs" | "plans"} */ (what), left));
}

byId("choose").addEventListener("submit", (/** @type {Event} */ event) => {
  event.preventDefault();
  const wanted = idsIn(byId("ids").value);
  location.assign(pages.compare(wanted.some((id) => id.length > 12) ? "plans" : "runs", wanted));
});
watchHealth();
void begin();
