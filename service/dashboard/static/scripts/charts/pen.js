/**
 * A pen with the part of a canvas's interface that the charts use, which records SVG.
 * @module charts/pen
 */

/** @typedef {CanvasRenderingContext2D | SvgPen} Pen */
/** @typedef {{fillStyle: string, strokeStyle: string, lineWidth: number, font: string, textAlign: string,
 *   textBaseline: string, globalAlpha: number, dash: number[], matrix: number[], clip: string}} State */

const ANCHORS = { left: "start", start: "start", center: "middle", right: "end", end: "end" };
const BASELINES = { middle: "central", top: "text-before-edge", bottom: "text-after-edge", alphabetic: "alphabetic" };
const MEASURED = document.createElement("canvas");

/** Records what is drawn; `text` gives the document. Lengths are in px, as on a canvas. */
export class SvgPen {
  constructor() {
    this.fillStyle = "black";
    this.strokeStyle = "black";
    this.lineWidth = 1;
    this.font = "10px sans-serif";
    this.textAlign = "left";
    this.textBaseline = "alphabetic";
    this.globalAlpha = 1;
    this.lineJoin = "round"; // canvases have it; documents say it once for all
    /** @type {number[]} */
    this.dash = [];
    /** The current transformation: a, b, c, d, e, f. */
    this.matrix = [1, 0, 0, 1, 0, 0];
    this.clipped = "";
    this.path = "";
    /** @type {string[]} */
    this.parts = [];
    /** @type {string[]} */
    this.clips = [];
    /** @type {Record<string, any>[]} */
    this.states = [];
  }

  save() {
    const { fillStyle, strokeStyle, lineWidth, font, textAlign, textBaseline, globalAlpha, dash, matrix, clipped } = this;
    this.states.push({
      ...{ fillStyle, strokeStyle, lineWidth, font, textAlign, textBaseline, globalAlpha, dash, clipped },
      matrix: [...matrix],
    });
  }

  restore() {
    Object.assign(this, this.states.pop() ?? {});
  }

  /** @param {number} x @param {number} y */
  translate(x, y) {
    this.transform(1, 0, 0, 1, x, y);
  }

  /** @param {number} x @param {number} [y] */
  scale(x, y = x) {
    this.transform(x, 0, 0, y, 0, 0);
  }

  /** @param {number} angle in radians */
  rotate(angle) {
    this.transform(Math.cos(angle), Math.sin(angle), -Math.sin(angle), Math.cos(angle), 0, 0);
  }

  /** @param {number} a @param {number} b @param {number} c @param {number} d @param {number} e @param {number} f */
  transform(a, b, c, d, e, f) {
    const [A, B, C, D, E, F] = this.matrix;
    this.matrix = [
      ...[A * a + C * b, B * a + D * b, A * c + C * d, B * c + D * d],
      ...[A * e + C * f + E, B * e + D * f + F],
    ];
  }

  beginPath() {
    this.path = "";
  }

  /** @param {number} x @param {number} y */
  moveTo(x, y) {
    this.path += `M${digits(x)} ${digits(y)}`;
  }

  /** @param {number} x @param {number} y */
  lineTo(x, y) {
    this.path += `${this.path ? "L" : "M"}${digits(x)} ${digits(y)}`;
  }

  /** @param {number} ax @param {number} ay @param {number} bx @param {number} by @param {number} x @param {number} y */
  bezierCurveTo(ax, ay, bx, by, x, y) {
    this.path += `C${[ax, ay, bx, by, x, y].map(digits).join(" ")}`;
  }

  closePath() {
    this.path += "Z";
  }

  /** @param {number} x @param {number} y @param {number} width @param {number} height */
  rect(x, y, width, height) {
    this.path += `M${digits(x)} ${digits(y)}h${digits(width)}v${digits(height)}h${digits(-width)}Z`;
  }

  /** @param {number} x @param {number} y @param {number} width @param {number} height @param {number} radius */
  roundRect(x, y, width, height, radius) {
    const r = Math.min(radius, width / 2, height / 2);
    const arc = (/** @type {number} */ dx, /** @type {number} */ dy) => `a${digits(r)} ${digits(r)} 0 0 1 ${digits(dx)} ${digits(dy)}`;
    this.path +=
      `M${digits(x + r)} ${digits(y)}h${digits(width - 2 * r)}${arc(r, r)}v${digits(height - 2 * r)}${arc(-r, r)}` +
      `h${digits(2 * r - width)}${arc(-r, -r)}v${digits(2 * r - height)}${arc(r, -r)}Z`;
  }

  /** A part of a circle, clockwise. @param {number} x @param {number} y @param {number} r @param {number} from @param {number} to in radians */
  arc(x, y, r, from, to) {
    const at = (/** @type {number} */ angle) => `${digits(x + r * Math.cos(angle))} ${digits(y + r * Math.sin(angle))}`;
    const middle = (from + to) / 2;
    const radii = `${digits(r)} ${digits(r)}`;
    this.path += `${this.path ? "L" : "M"}${at(from)}`.replace(/^L/, to - from > 6.28 ? "M" : "L");
    this.path += `A${radii} 0 0 1 ${at(middle)}A${radii} 0 0 1 ${at(to)}`;
  }

  fill() {
    this.#add(`<path d="${this.path}" fill="${this.fillStyle}"`);
  }

  stroke() {
    this.#add(`<path d="${this.path}" fill="none"${this.#line()}`);
  }

  /** @param {number} x @param {number} y @param {number} width @param {number} height */
  fillRect(x, y, width, height) {
    this.#add(`<rect${box(x, y, width, height)} fill="${this.fillStyle}"`);
  }

  /** @param {number} x @param {number} y @param {number} width @param {number} height */
  strokeRect(x, y, width, height) {
    this.#add(`<rect${box(x, y, width, height)} fill="none"${this.#line()}`);
  }

  clearRect() {
    // a document has nothing to clear
  }

  /** From now on until `restore` draw only within the path. */
  clip() {
    this.clips.push(`<clipPath id="c${this.clips.length}"><path d="${this.path}"${this.#moved()}/></clipPath>`);
    this.clipped = ` clip-path="url(#c${this.clips.length - 1})"`;
  }

  /** @param {string} text @param {number} x @param {number} y */
  fillText(text, x, y) {
    const anchor = ANCHORS[/** @type {keyof ANCHORS} */ (this.textAlign)];
    const baseline = BASELINES[/** @type {keyof BASELINES} */ (this.textBaseline)];
    this.#add(
      `<text x="${digits(x)}" y="${digits(y)}" style="font:${escaped(this.font)}" fill="${this.fillStyle}" ` +
        `text-anchor="${anchor}" dominant-baseline="${baseline}"`,
      escaped(text),
    );
  }

  /** @param {string} text */
  measureText(text) {
    const pen = MEASURED.getContext("2d");
    pen.font = this.font;
    return pen.measureText(text);
  }

  /** @param {number[]} dash */
  setLineDash(dash) {
    this.dash = dash;
  }

  /**
   * The document of what was drawn.
   * @param {number} width @param {number} height px @param {string} background @param {string} title
   */
  text(width, height, background, title) {
    return (
      `<svg xmlns="http://www.w3.org/2000/svg" width="${digits(width)}" height="${digits(height)}" ` +
      `viewBox="0 0 ${digits(width)} ${digits(height)}" stroke-linejoin="round"><title>${escaped(title)}</title>` +
      `<defs>${this.clips.join("")}</defs><rect width="100%" height="100%" fill="${background}"/>` +
      `${this.parts.join("\n")}</svg>\n`
    );
  }

  #line() {
    const dash = this.dash.length ? ` stroke-dasharray="${this.dash.map(digits).join(" ")}"` : "";
    return ` stroke="${this.strokeStyle}" stroke-width="${digits(this.lineWidth)}"${dash}`;
  }

  #moved() {
    const [a, b, c, d, e, f] = this.matrix;
    const isMoved = a !== 1 || b !== 0 || c !== 0 || d !== 1 || e !== 0 || f !== 0;
    return isMoved ? ` transform="matrix(${this.matrix.map(digits).join(" ")})"` : "";
  }

  /** @param {string} head an element without its end @param {string} [content] */
  #add(head, content) {
    const alpha = this.globalAlpha < 1 ? ` opacity="${digits(this.globalAlpha)}"` : "";
    const one = `${head}${alpha}${this.#moved()}${content === undefined ? "/>" : `>${content}</text>`}`;
    this.parts.push(this.clipped ? `<g${this.clipped}>${one}</g>` : one);
  }
}

/** @param {number} value */
function digits(value) {
  return String(Math.round(value * 1000) / 1000);
}

/** @param {number} x @param {number} y @param {number} width @param {number} height */
function box(x, y, width, height) {
  return ` x="${digits(x)}" y="${digits(y)}" width="${digits(Math.max(0, width))}" height="${digits(Math.max(0, height))}"`;
}

/** @param {string} text */
function escaped(text) {
  return text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;").replaceAll('"', "&quot;");
}
