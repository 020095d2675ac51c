/**
 * A plan's history with costs, asked for when somebody wants it: replaying it takes a while the first time.
 * @module explaining
 */

import { get, problemOf } from "./api.js";
import { byId, fill, say } from "./dom.js";
import { showEffects } from "./effect-table.js";
import { problemNotice } from "./notice.js";
import { showStory } from "./story.js";

export class Explaining {
  /** @param {string} path of the explanation @param {import("./cost-table.js").Objective[]} catalogue */
  constructor(path, catalogue) {
    this.path = path;
    this.catalogue = catalogue;
    /** @type {Promise<any> | null} */
    this.asked = null;
    this.button = byId("explain");
    this.button.disabled = false;
    this.button.addEventListener("click", () => this.effects());
    byId("story-form").addEventListener("submit", (/** @type {Event} */ event) => {
      event.preventDefault();
      void this.story(byId("story-site").value.trim());
    });
    byId("decisions").addEventListener("story", (/** @type {CustomEvent} */ event) => {
      byId("story-site").value = event.detail;
      void this.story(event.detail);
      byId("story-site").scrollIntoView({ block: "center" });
    });
  }

  /** The explanation, asked for once. */
  told() {
    this.asked ??= get(this.path);
    return this.asked;
  }

  async effects() {
    await this.show("moves", (/** @type {any} */ told, /** @type {Element} */ place) => {
      showEffects(place, told, this.catalogue);
      this.button.hidden = true;
    });
  }

  /** @param {string} site */
  async story(site) {
    if (!site) return fill(byId("story"));
    await this.show("story", (/** @type {any} */ told, /** @type {Element} */ place) =>
      showStory(place, told, site),
    );
  }

  /** @param {string} id of the place @param {(told: any, place: Element) => void} draw */
  async show(id, draw) {
    this.button.disabled = true;
    say(this.button, "Replaying…");
    try {
      draw(await this.told(), byId(id));
      fill(byId("explaining-trouble"));
    } catch (error) {
      this.asked = null;
      fill(byId("explaining-trouble"), problemNotice(problemOf(error)));
    }
    say(this.button, "What each move changed");
    this.button.disabled = false;
  }
}
