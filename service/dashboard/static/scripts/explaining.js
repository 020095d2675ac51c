/**
 * A plan's history with costs, asked for when somebody wants it: replaying it takes a while the first time.
 * @module explaining
 */

import { get } from "./api.js";
import { byId, fill, say } from "./dom.js";
import { showEffects } from "./effect-table.js";
import { errorNotice } from "./notice.js";
import { showBlockHistory } from "./block-history.js";

export class Explaining {
  /** @param {string} path of the explanation @param {import("./cost-table.js").Objective[]} catalog */
  constructor(path, catalog) {
    this.path = path;
    this.catalog = catalog;
    /** @type {Promise<any> | null} */
    this.pending = null;
    this.button = byId("explain");
    this.button.disabled = false;
    this.button.addEventListener("click", () => this.effects());
    byId("block-history-form").addEventListener("submit", (/** @type {Event} */ event) => {
      event.preventDefault();
      void this.blockHistory(byId("block-history-site").value.trim());
    });
    byId("decisions").addEventListener("history", (/** @type {CustomEvent} */ event) => {
      byId("block-history-site").value = event.detail;
      void this.blockHistory(event.detail);
      byId("block-history-site").scrollIntoView({ block: "center" });
    });
  }

  /** The explanation, asked for once. */
  load() {
    this.pending ??= get(this.path);
    return this.pending;
  }

  async effects() {
    await this.show("moves", (/** @type {any} */ explanation, /** @type {Element} */ place) => {
      showEffects(place, explanation, this.catalog);
      this.button.hidden = true;
    });
  }

  /** @param {string} site */
  async blockHistory(site) {
    if (!site) return fill(byId("block-history"));
    await this.show("block-history", (/** @type {any} */ explanation, /** @type {Element} */ place) =>
      showBlockHistory(place, explanation, site),
    );
  }

  /** @param {string} id of the place @param {(explanation: any, place: Element) => void} draw */
  async show(id, draw) {
    this.button.disabled = true;
    say(this.button, "Replaying…");
    try {
      draw(await this.load(), byId(id));
      fill(byId("explaining-trouble"));
    } catch (error) {
      this.pending = null;
      fill(byId("explaining-trouble"), errorNotice(error));
    }
    say(this.button, "What each move changed");
    this.button.disabled = false;
  }
}
