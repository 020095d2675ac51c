/**
 * What is known of a run: from its documents, and from then on from its events.
 * @module run-state
 */

import { isDoubtful } from "./badges.js";

/** @typedef {import("./marks.js").Plan} Plan */
/** @typedef {import("./events.js").RunEvent} RunEvent */

const ENDED = ["succeeded", "failed", "cancelled"];

/** @param {string} status */
export function isEnded(status) {
  return ENDED.includes(status);
}

/** A run's state; `apply` takes its events in order. */
export class RunState {
  constructor() {
    this.status = "queued";
    this.phase = "queued";
    /** What the phase is about at the moment, if it says so. */
    this.doing = "";
    this.attempt = 0;
    /** @type {any} */
    this.problem = null;
    this.seconds = 0;
    this.evaluations = 0;
    this.hypervolume = 0;
    this.fraction = 0;
    /** @type {Map<string, Plan>} */
    this.plans = new Map();
    /** @type {{seconds: number, evaluations: number, front: number, hypervolume: number}[]} */
    this.history = [];
    /** @type {Record<string, {applied: number, improved: number}>} */
    this.rules = {};
    /** The statistics of rules as events brought them. @type {import("./rule-history.js").Moment[]} */
    this.ruleHistory = [];
    /** @type {import("./refused-rules.js").Refusal[]} */
    this.refused = [];
  }

  /**
   * The state that documents describe.
   * @param {any} run @param {any} frontier
   */
  static of(run, frontier) {
    const state = new RunState();
    const { status, phase, attempt, problem, seconds, evaluations, hypervolume } = run;
    Object.assign(state, { status, phase, attempt, problem, seconds, evaluations, hypervolume });
    state.history = [...run.history];
    state.rules = run.rule_statistics;
    state.refused = run.refused_rules;
    state.plans = new Map(frontier.plans.map((/** @type {Plan} */ plan) => [plan.id, plan]));
    state.fraction = phase === "verifying" || (status === "succeeded" && run.stopped === "budget") ? 1 : fractionOf(run);
    return state;
  }

  get isEnded() {
    return isEnded(this.status);
  }

  /** How many of the plans were checked. */
  get checked() {
    let number = 0;
    for (const plan of this.plans.values()) number += plan.verified ? 1 : 0;
    return number;
  }

  /** How many of the plans failed a check, or are not trusted for the rules that they share with one that did. */
  get doubtful() {
    let number = 0;
    for (const plan of this.plans.values()) number += isDoubtful(plan.verified) ? 1 : 0;
    return number;
  }

  /** Evaluations per second of searching; null before there are any. */
  get rate() {
    return this.seconds > 0.1 && this.evaluations > 0 ? this.evaluations / this.seconds : null;
  }

  /** @param {RunEvent} event */
  apply({ kind, data }) {
    if (kind === "status") {
      Object.assign(this, data);
      this.doing = "";
      if (this.phase === "verifying" || this.status === "succeeded") this.fraction = 1;
    } else if (kind === "progress") {
      const { seconds, evaluations, front, hypervolume, fraction } = data;
      Object.assign(this, { seconds, evaluations, hypervolume, fraction: fraction ?? this.fraction });
      this.history.push({ seconds, evaluations, front, hypervolume });
    } else if (kind === "frontier") {
      for (const id of data.removed) this.plans.delete(id);
      for (const plan of data.added) this.plans.set(plan.id, plan);
    } else if (kind === "rules") {
      this.rules = data;
      this.ruleHistory.push({ seconds: this.seconds, rules: data });
    } else if (kind === "refused") {
      this.refused = data;
    } else if (kind === "working") {
      this.doing = `${data.phase} for ${Math.round(data.seconds)} s, ${data.steps.toLocaleString("en")} steps`;
    } else if (kind === "executing") {
      const { number, count, seconds } = data;
      this.doing = `executing plan ${number} of ${count}, about ${Math.max(1, Math.round(seconds))} s`;
    } else if (kind === "verified") {
      const plan = this.plans.get(data.plan);
      if (plan) this.plans.set(plan.id, { ...plan, verified: data.verified });
    }
  }
}

/** How much of its budget a run has used. @param {any} run */
function fractionOf({ budget, seconds, evaluations }) {
  const shares = [
    budget.seconds ? seconds / budget.seconds : 0,
    budget.evaluations ? evaluations / budget.evaluations : 0,
    budget.deadline_seconds ? seconds / budget.deadline_seconds : 0,
  ];
  return Math.min(1, Math.max(...shares));
}

/**
 * A run that is shown while its events are replayed: the figures of the documents stay until the events, which begin
 * at the start, have caught up with it.
 */
export class LiveRun {
  /** @param {RunState} documented */
  constructor(documented) {
    this.documented = documented;
    this.live = new RunState();
    this.hasCaughtUp = false;
  }

  /** @param {RunEvent[]} events */
  apply(events) {
    for (const event of events) this.live.apply(event);
    const { documented, live } = this;
    const isAhead =
      live.evaluations >= documented.evaluations && (live.attempt > documented.attempt || !isBefore(live, documented));
    this.hasCaughtUp ||= live.isEnded || isAhead;
  }

  /** @returns {RunState} */
  get shown() {
    return this.hasCaughtUp ? this.live : this.documented;
  }
}

const PHASES = ["queued", "compiling", "seeding", "searching", "verifying", "done"];

/** @param {RunState} one @param {RunState} other */
function isBefore(one, other) {
  return (
    PHASES.indexOf(one.phase) < PHASES.indexOf(other.phase) || one.plans.size < Math.min(1, other.plans.size)
  );
}
