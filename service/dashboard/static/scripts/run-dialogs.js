/**
 * Dialogs about selected runs: their tags and notes, and their deletion.
 * @module run-dialogs
 */

import { get, patch, problemOf, remove } from "./api.js";
import { byId, element, fill, say } from "./dom.js";
import { problemNotice } from "./notice.js";
import { several } from "./units.js";

/** @param {string} text @returns {string[]} */
const tagsIn = (text) => [...new Set(text.split(",").map((tag) => tag.trim()).filter(Boolean))];

/** @param {any} run */
const nameOf = (run) => `${run.graph} on ${run.mesh}`;

/**
 * Ask for tags and notes: of one run all of them, of several what to add and to remove.
 * @param {any[]} runs @param {() => void} onDone
 */
export function editLabels(runs, onDone) {
  const isOne = runs.length === 1;
  say(byId("labels-of"), isOne ? `${nameOf(runs[0])}, ${runs[0].id}` : several(runs.length, "run"));
  say(byId("label-tags-title"), isOne ? "Tags" : "Add tags");
  byId("untag-field").hidden = isOne;
  byId("notes-field").hidden = !isOne;
  byId("label-tags").value = isOne ? runs[0].tags.join(", ") : "";
  byId("label-untag").value = "";
  byId("label-notes").value = isOne ? runs[0].notes : "";
  fill(byId("labels-trouble"));
  byId("save-labels").onclick = async () => {
    byId("save-labels").disabled = true;
    const failed = await eachOf(runs, (run) => saveLabels(run, isOne));
    byId("save-labels").disabled = false;
    fill(byId("labels-trouble"), ...failed);
    if (!failed.length) byId("labels").close();
    onDone();
  };
  byId("labels").showModal();
}

/** @param {any} run @param {boolean} isOne */
async function saveLabels(run, isOne) {
  const path = `/v1/runs/${run.id}`;
  const wanted = tagsIn(byId("label-tags").value);
  if (isOne) return patch(path, { tags: wanted, notes: byId("label-notes").value });
  const gone = tagsIn(byId("label-untag").value);
  const { tags } = await get(path); // others may have changed them meanwhile
  return patch(path, { tags: [...new Set([...tags, ...wanted])].filter((tag) => !gone.includes(tag)) });
}

/**
 * Ask whether runs shall be deleted, and delete them; those that cannot be stay in the dialog with the reason.
 * @param {any[]} runs @param {(ids: string[]) => void} onDeleted
 */
export function deleteRuns(runs, onDeleted) {
  let left = runs;
  const show = (/** @type {any[]} */ failed) => {
    say(byId("deletion-title"), `Delete ${several(left.length, "run")}?`);
    fill(
      byId("deleted-runs"),
      ...left.map((run) => element("li", {}, `${nameOf(run)}, ${several(run.front, "plan")} `, element("span", { class: "mono muted" }, run.id))),
    );
    fill(byId("deletion-trouble"), ...failed);
  };
  show([]);
  byId("confirm-deletion").onclick = async () => {
    byId("confirm-deletion").disabled = true;
    /** @type {string[]} */
    const deleted = [];
    const failed = await eachOf(left, async (run) => {
      await remove(`/v1/runs/${run.id}`);
      deleted.push(run.id);
    });
    byId("confirm-deletion").disabled = false;
    left = left.filter((run) => !deleted.includes(run.id));
    show(failed);
    if (!failed.length) byId("deletion").close();
    onDeleted(deleted);
  };
  byId("deletion").showModal();
}

/** Do something for each run; what went wrong comes back as notices. @param {any[]} runs @param {(run: any) => Promise<any>} action */
async function eachOf(runs, action) {
  const notices = [];
  for (const run of runs) {
    try {
      await action(run);
    } catch (error) {
      const problem = problemOf(error);
      notices.push(problemNotice(problem, ...(runs.length > 1 ? [element("p", { class: "mono small" }, run.id)] : [])));
    }
  }
  return notices;
}
