/**
 * Says above every page when there is nobody to do what is queued, or no service at all.
 * @module health
 */

import { enableExplanations } from "./about.js";
import { get } from "./api.js";
import { copyButton } from "./copying.js";
import { byId, element, fill } from "./dom.js";

const PAUSE_MS = 10000;
const COMMAND = "tapestry worker";

/** @returns {Promise<"fine" | "idle" | "lost">} */
async function ask() {
  try {
    return (await get("/readyz")).workers > 0 ? "fine" : "idle";
  } catch {
    return "lost";
  }
}

function warningOf(/** @type {string} */ state) {
  if (state === "lost") return ["The service does not answer. This page goes on by itself when it does."];
  return ["No worker is alive: runs wait in the queue until one is.", ...workerRemedy()];
}

/** How to get a worker where there is none. */
export function workerRemedy() {
  return [" Start one with ", element("code", {}, COMMAND), " on the service's database. ", copyButton(() => COMMAND, "the command")];
}

/** What every page has: explanations of its figures, and a look now and again, for as long as it is open, whether the service is well. */
export function watchHealth() {
  enableExplanations();
  const banner = byId("banner");
  let shown = "fine";
  let worries = 0;
  const look = async () => {
    const state = document.hidden ? shown : await ask();
    worries = state === "fine" ? 0 : worries + 1;
    // A worker that is just starting, and a service that restarts, are no news: twice in a row are.
    const next = state === "fine" || worries > 1 ? state : shown;
    if (next !== shown) {
      shown = next;
      banner.hidden = shown === "fine";
      fill(banner, ...(shown === "fine" ? [] : warningOf(shown)));
    }
    setTimeout(look, worries === 1 ? PAUSE_MS / 4 : PAUSE_MS);
  };
  void look();
}
