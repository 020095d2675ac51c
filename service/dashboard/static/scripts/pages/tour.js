/** What the tour shows; it begins on the run of the demo, and goes on where it was left. */

import { get, pages } from "../api.js";
import { enableDemo } from "../demo.js";
import { byId, element, fill, nowUsable } from "../dom.js";
import { watchHealth } from "../health.js";
import { errorNotice } from "../notice.js";
import { kept, stepAddress, STEPS, TAG } from "../tour.js";

/** The newest run of the demo that succeeded. @returns {Promise<any>} */
async function demoRun() {
  const { items } = await get(`/v1/runs?${new URLSearchParams({ tag: TAG, status: "succeeded", limit: "1" })}`);
  return items[0] ?? null;
}

/** Where the tour was left, if its run is still there. */
async function leftAt() {
  const { address, step, run } = kept();
  if (!address || !step || !run) return null;
  try {
    await get(`/v1/runs/${encodeURIComponent(run)}`);
  } catch {
    return null;
  }
  return { address: stepAddress(address, step), step };
}

async function begin() {
  fill(byId("tour-steps"), ...STEPS.map(({ title, text }) => element("li", {}, element("h2", {}, title), element("p", {}, text))));
  try {
    const [run, left] = await Promise.all([demoRun(), leftAt()]);
    const start = run && element("a", { class: `button ${left ? "" : "primary"}`, href: stepAddress(pages.run(run.id), 1) }, left ? "Begin again" : "Begin the tour");
    const resume = left && element("a", { class: "button primary", href: left.address }, `Go on at step ${left.step}`);
    fill(byId("tour-begin"), resume, start);
    byId("tour-demo").hidden = run !== null;
  } catch (error) {
    fill(byId("trouble"), errorNotice(error));
  }
  nowUsable(byId("tour-page"));
}

watchHealth();
enableDemo();
void begin();
