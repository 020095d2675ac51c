/**
 * What the figures of all pages mean: the one place of these texts. Costs have theirs from the catalog of objectives.
 * @module explanations
 */

/** @typedef {{title: string, text: string, unit: string}} Explanation */

const BYTES = "bytes, in powers of 1,024";
const SECONDS = "seconds";
const NONE = "a count";
const SHARE = "percent";

/** Text and unit by name, in small letters: as heads and titles have it, or a name with a colon where that alone says too little. @type {Record<string, [string, string]>} */
const TEXTS = {
  // A run, and lists of runs.
  searched: ["How long the search has run with its preparation (simplification, compilation, first plans), of what its budget allows. Reading the program and checking plans are not counted.", SECONDS],
  evaluations: ["How many candidate plans the cost model has evaluated.", NONE],
  "evaluations / s": ["Evaluations by the seconds of the search with its preparation, over the run so far; timing has both apart.", "evaluations per second"],
  plans: ["The size of the frontier: plans of which none is better than another in every objective.", NONE],
  checked: ["Of how many plans the sharding was proven, and memory and traffic were counted on the simulator. Plans are checked once the search is over.", "plans, of all on the frontier"],
  hypervolume: [
    "The share of the objective space that the frontier dominates: of the box from nothing to 1.1 times the worst of the plans that this run found first, in each objective. 0 for nothing, 1 for the whole. The box stays the same when another worker resumes the run. A comparison of runs computes it again for all of them alike.",
    "a share from 0 to 1",
  ],
  "worker attempts": ["How often a worker began this run. More than one means that a worker was lost; the next goes on from the last checkpoint.", NONE],
  frontier: [
    "All plans that were found of which no other is better in every objective. Marked are the fastest plan, the one with the smallest peak memory, the least of each other objective, and the knee, which is nearest to the best of all objectives together, on logarithmic scales. A red line is a proven bound: no plan can be below it. The dotted line joins the plans that are best in the two costs shown.",
    "that of each axis, beside its name",
  ],
  "all objectives": ["Every plan in every cost at once. Bounds that you set hold for everything on the page: what is outside is pale, and not in the table.", "that of each axis, below its name"],
  rules: ["How often the search applied each rule, and how often the plan that came of it entered the archive. Rewriting rules and moves of placements are counted alike.", NONE],
  applied: ["How often the search applied the rule.", NONE],
  improved: ["How often the plan that the rule made entered the archive, since no plan there was as good.", NONE],
  "best": ["The least value of any plan on the frontier.", "that of the objective"],
  "proven bound": ["What no placement, prefetch or order of copies of the structures that the search kept can be below. It is proven, not estimated; another structure may be better.", "that of the objective"],
  gap: ["By how much of itself the best plan may still be too large: the distance to the proven bound. No gap means that none of these plans is better.", SHARE],
  "least time": ["The time of the fastest plan that the run found, as the cost model predicts it.", SECONDS],
  "least memory": ["The smallest peak memory of a plan that the run found: the most that lives on one device at any moment.", BYTES],
  "other least values": ["The best values of the run's other objectives; they need not be of one plan.", "beside each value"],
  begun: ["When a worker first began it; in lists, how long ago it was submitted. Point at it for the moment.", "a time of day, or seconds to days"],
  submitted: ["When the run was asked for.", "a time of day"],
  ended: ["When the run came to its end, with its checks.", "a time of day"],
  "run: mesh": ["The devices that the plans are for: the sizes of the axes along which they are joined, and the memory of each device, as its maker states it.", "devices; powers of 1,000 bytes"],
  "run: on": ["Where the worker searched: the name of its host, the system, and how many cores there are. How many plans are evaluated in a second depends on it.", "cores"],
  "run: with": ["The versions of the programs that searched. Others may find other plans from the same request.", "none"],
  "another minute": ["What searching on for a minute would lower, by extrapolation of how the best values improved so far. It is an estimate.", SHARE],
  "ended because": ["What ended the search: a limit of its budget, the gap that was asked for, a price that more searching no longer earned, that nothing was left to vary, that workers were lost, or you.", "none"],
  took: ["How long each phase of the run took, waiting in the queue left out.", SECONDS],
  // Plans.
  plan: ["The plan's name, with its marks: the fastest, the knee between all objectives, the smallest peak memory, or the least of another objective.", "none"],
  interval: ["With this probability the plan's real time is between these two, by the errors that the cost model had where it was compared with measurements.", SECONDS],
  lead: ["By how much the plan is behind the fastest, or the fastest ahead of the next, and on which class of kernels or exchanges that rests. Within the error, the model cannot tell which of the two is faster.", SECONDS],
  devices: ["On which devices of the mesh the plan runs; the others are idle.", NONE],
  "micro-batches": ["In how many rounds the plan runs a step, each on a slice of the data.", NONE],
  stages: ["In how many parts the mesh runs as a pipeline, and in what order a stage takes its turns.", NONE],
  "computed again": ["How many blocks are computed a second time for late readers instead of being stored until then.", "blocks"],
  "on the host": ["How much is kept in the memory of the host instead of that of the devices.", BYTES],
  origin: ["Where the search has the plan from: a seed, an exact solution, an earlier run, or variation of other plans.", "none"],
  moves: ["How many moves led from the imported program to this plan: rules applied at places.", NONE],
  checks: ["Proven: the sharding computes the same program. Counted: the simulator counted the memory and traffic that were predicted. Executed: it ran with values, and gave the same.", "none"],
  "this plan": ["The plan's own cost, as the cost model predicts it.", "beside the figures"],
  "best of the run": ["The least that any plan of the run's frontier has of this cost.", "beside the figures"],
  "of the best": ["The plan's cost as a multiple of the best of the run.", "times"],
  "near to it": ["The best of the run by the plan's cost, as a bar: a full one is the best itself.", "a share from 0 to 1"],
  "device memory: terms": ["What the fullest device holds: the tensors that live at the peak, and what a process takes beside them, such as its context and the buffers of collectives.", BYTES],
  "time interval": ["The model's error is known by class of kernels and exchanges from published measurements. The interval is what they add up to for this plan; least certain is what adds most.", SECONDS],
  predicted: ["What the cost model computes, from tables, in microseconds. It is what the search goes by.", "beside the figures"],
  counted: ["The same figure, counted by other code on the explicit graph: each allocation, each byte that is received. Time is no independent check: the simulated devices take their ticks from the same timing tables.", "beside the figures"],
  difference: ["How far the other figure is from the predicted one.", SHARE],
  "measured: time": ["What a step of the plan took on real devices: the median over its repetitions.", SECONDS],
  measured: ["What a step of the plan took on real devices: the median over its repetitions.", SECONDS],
  "repeats within": ["Half the distance between the quartiles of the repetitions, by their median.", SHARE],
  "critical path": ["The blocks and copies that decide when the plan ends: shorten one of them, and the plan may end earlier. All else is pale.", SECONDS],
  "spent: time": ["How long devices compute, wait for their copies, or wait for another stage, which is called a bubble.", SECONDS],
  "spent: share": ["That time by the time of the whole plan.", SHARE],
  "longest: time": ["Time of all stages together, each on its device that takes longest; what is alike is added up.", SECONDS],
  critical: ["How much of that time is on the critical path, and thus decides when the plan ends.", SECONDS],
  "use of the links": ["Bytes per second that all devices together receive at each moment, by mesh axis where that is known. The line is what they could receive over all their links of the axis; it is left out where they receive below 5 % of that.", "bytes per second"],
  computes: ["The share of the time in which the device computes.", SHARE],
  communicates: ["The share of the time in which the device sends or receives. Both may happen at once.", SHARE],
  received: ["The bytes that the device receives from others.", BYTES],
  "memory over time": ["What lives on a device at each moment, by role: from when it is made or fetched until its last reader is done. Sizes are those of padded parts.", BYTES],
  "live: bytes": ["Bytes that live at that moment, on the device that is shown.", BYTES],
  "live: share": ["These bytes by all that live at that moment.", SHARE],
  strategy: ["An entry per dimension of the block's index space: the parts of the mesh's axes over which it is split, or – where it is not. Input and output shardings follow from it.", "none"],
  "schedule order": ["The order in which blocks run: that of the program, depth first, or with updates as early as possible.", "none"],
  inputs: ["How the program's inputs are placed: as each plan chooses, or split in a way that was asked for.", "none"],
  outputs: ["How the program's results are left: split as they come, or gathered.", "none"],
  "in the plan": ["Traffic and time of the copy as the plan has it.", "bytes and seconds"],
  then: ["Traffic and time of the copy with the other placement.", "bytes and seconds"],
  change: ["How much longer the copy takes with the other placement; less is green.", SECONDS],
  move: ["The place of the move in the plan's history.", "a number in order"],
  "without it": ["What the finished plan would lose without this move and the later ones that build on it.", "that of the objective"],
  // Sharding.
  sharding: [
    "A tensor is split over mesh axes, replicated where devices have equal copies, or partial where each device has one term of a sum. A redistribution turns what is made into what a reader needs.",
    "none",
  ],
  size: ["How many positions there are along it.", NONE],
  "of one, each way": ["The bandwidth of a device's link along the axis, in each direction.", "bytes per second"],
  "received by all": ["The bytes that all devices together receive over links of this axis.", BYTES],
  "axis: share": ["These bytes by all that is received.", SHARE],
  "most by one device": ["The bytes of the device that receives most over this axis.", BYTES],
  device: ["The number of a device, in the order of the mesh.", "a number in order"],
  stage: ["The stage of the pipeline to which it belongs.", "a number in order"],
  "received over": ["The bytes that the device receives over links of this axis.", BYTES],
  redistributions: ["Copies between what a block makes and what its reader needs, by kind of exchange and mesh axis: bytes that are received, in all. Partial: each device has a term of a sum.", BYTES],
  made: ["How often the exchange is made: in each round, and for each of those that are alike.", NONE],
  bytes: ["The bytes that all devices together receive by it.", BYTES],
  "exchange: time": ["How long the exchange takes by itself, on the slowest device; it may be hidden behind computation.", SECONDS],
  parts: ["Into how many parts the dimension is cut.", NONE],
  // Programs.
  blocks: ["The operators of the program, applied to tensors.", NONE],
  parameters: ["The elements of all weights.", NONE],
  "their size": ["The bytes of all weights.", BYTES],
  work: ["The operations of one execution of the whole, wherever it is done: a product with an addition is two.", "floating point operations"],
  "can be sharded": ["The share of the work that is done by blocks with an index dimension that can be split.", SHARE],
  diagram: ["The program from inputs to outputs, with repeated layers folded. Wide edges are redistributions of a plan.", "that of the coloring, in the legend"],
  "block: result": ["The type of the elements of what the block makes, and the size along each dimension.", "elements"],
  "reads and writes": ["The bytes of all inputs and outputs of the block, on all devices.", BYTES],
  energy: ["What operations and accesses to memory use on all devices, in all rounds. What copies use, and devices while idle, is not in it.", "J"],
  "results on a device": ["The bytes of the block's results, or of the parameter, on the device that has most of them.", BYTES],
  "block: runs": ["How often the block runs in one step: once in each round.", NONE],
  receives: ["The bytes that devices receive so that the block has its inputs.", BYTES],
  time: ["How long it takes, on the slowest device.", SECONDS],
  "rewriting: before": ["Of the program as it was before these moves.", "beside the figures"],
  "rewriting: after": ["Of the program that the moves made.", "beside the figures"],
  "rewriting: blocks": ["The operators of the program, applied to tensors.", NONE],
  "rewriting: work": ["The operations of one execution of the whole.", "floating point operations"],
  "rewriting: bytes read and written": ["The bytes of all inputs and outputs of all blocks, each counted as often as it is read or written.", BYTES],
  "rewriting: difference": ["How much more or less it is after the moves.", "beside the figures"],
  // Rules.
  runs: ["How many runs have reported what the rule brought.", NONE],
  rate: ["Credit by a thousand applied moves: the improvements that are due to the rule, each shared among the moves that led to it.", "credit by 1,000 moves"],
  "credit by 1,000": ["The improvements that are due to the rule, each shared among the moves that led to it, by a thousand applied moves.", "credit by 1,000 moves"],
  "rules: hypervolume": ["The share of the hypervolume of the last frontiers that plans have in whose making the rule had a part, on average over the runs.", SHARE],
  before: ["Of the smallest example in the rule's tests, as it is without the rule.", "beside the figures"],
  after: ["Of the same example, once the rule was applied.", "beside the figures"],
  "rule: source": ["Where the rule was published, or comes from.", "none"],
  "example: blocks": ["The operators of the example that compute something.", NONE],
  "example: flops": ["The operations of all blocks: a product with an addition is two.", "floating point operations"],
  "example: bytes": ["The bytes of all inputs and outputs of these blocks, each counted as often as it is read or written.", BYTES],
  // Comparisons.
  "frontiers: compared": ["The plans of each run; a line joins those of a run that are best in the two costs shown. A click opens a plan.", "that of each axis, beside its name"],
  "hypervolume: compared": ["The share of the objective space that each frontier dominates, computed again relative to one point for all, so that runs can be compared.", "a share from 0 to 1"],
  "plans that no other run covers": ["Plans that no plan of the other runs dominates or equals.", NONE],
  "lives at": ["What lives on the fullest device at the cursor, or at the peak.", BYTES],
  "ends after": ["When the last block or copy of the plan ends.", SECONDS],
  "plan: decisions": ["What a plan decides as a whole; those in gray are equal for all.", "beside the figures"],
  "decisions that differ": ["Blocks for which the plans have other strategies, layouts or prefetches; those that are alike are one row.", "none"],
  // Batches.
  "batch: status": ["How many entries of the batch have each status; those without a run have failed.", NONE],
  "batch: ended": ["The share of the entries that have ended, whether they succeeded or not.", "%"],
  "batch: least time": ["The least time that any run of the batch found, over all of its programs and meshes.", SECONDS],
  "batch: least memory": ["The least peak memory that any run of the batch found, over all of its programs and meshes.", BYTES],
  "batch: other least values": ["The least value of each other objective over all runs of the batch.", "beside each value"],
  entries: ["The runs that the batch asks for: each program on each mesh from each seed.", NONE],
  "#": ["The place of the entry in the batch.", "a number in order"],
  seed: ["Where the search's random numbers begin. The same request with the same seed and evaluations finds the same plans.", "none"],
  "least of a batch": ["The least value that the entry's run found; the best of one program is bold.", "beside the name"],
  // Layouts.
  "layout: shape": ["The sizes of the tensor along its dimensions, and the bits of one element.", "elements; bits"],
  "stored as": ["The sizes of the memory along the dimensions of the layout, outermost first: tiles and padding included.", "elements"],
  buffers: ["How many pieces of memory the layout uses, and how many elements fit in each, padding included.", NONE],
  "layout: size": ["All buffers together, padding included.", BYTES],
  padding: ["What no element of the tensor uses, in bytes and as a share of the size.", "bytes and percent"],
  offset: ["The place of an element, counted through all buffers one after the other.", "elements"],
  element: ["The index of an element, and where it is.", "none"],
  // Devices and meshes.
  "device: value": ["A figure of the device as the catalog has it; its source is beside it.", "beside each value"],
  "last cache": ["What the cache nearest to the memory holds, and how fast data are read that are in it.", "powers of 1,024 bytes; powers of 1,000 bytes per second"],
  "memory of the host": ["The part of the host's memory that is for one device, and how fast one device copies from it and to it.", "powers of 1,000 bytes; per second"],
  "matrix units": ["What the units for products of matrices compute at most in a second, in the type in which they are fastest. Real kernels reach a part of it.", "floating point operations per second"],
  "vector units": ["What the units for everything else compute at most in a second: elementwise operations, sums, and others.", "floating point operations per second"],
  engines: ["What works side by side: cores compute; each queue makes one copy at a time. Collectives take some of the cores while they run.", "cores and queues"],
  "curve: rate": ["What the model predicts at this size, or what the hardware's peak alone would give.", "in the head of the column"],
  "class: error": ["How far times of this class of kernels may be off: one standard deviation of predicted against measured times.", SHARE],
  "axis: devices": ["How many devices there are along the axis.", NONE],
  "a link, one way": ["The bandwidth of one link in one direction.", "bytes per second"],
  "a device, all links": ["The bandwidth of all links that a device has along the axis, in one direction.", "bytes per second"],
  "latency of a round": ["How long a message takes that has no bytes: each round of an exchange takes at least that.", SECONDS],
  "exchange: devices": ["How many devices took part in the exchange.", NONE],
  "exchange: sizes": ["How many sizes were measured.", NONE],
  "exchange: error": ["How far the predicted time is from the measured one.", SHARE],
  "exchange: left out": ["How far the prediction for this size is off where the table is without it, so that the time follows from the sizes beside it, or from the nearest other table.", SHARE],
  "exchange: measured": ["What the exchange took in the measurement that is named as its source.", SECONDS],
  "exchange: predicted": ["What the model predicts, with what it has from measurements.", SECONDS],
  "exchange: figures alone": ["What bandwidths and latencies alone give, without anything measured.", SECONDS],
  "bus bandwidth": ["The bytes that a device receives in an ideal exchange by the time that it takes, so that exchanges of different kinds can be compared with all links of a device.", "bytes per second"],
  "kernel: work": ["The operations of the kernel.", "floating point operations"],
  "kernel: bytes": ["The bytes that the kernel reads and writes.", BYTES],
  "kernel: measured": ["What the kernel took in the measurement that is named as its source.", SECONDS],
  "kernel: predicted": ["What the model predicts for the same kernel.", SECONDS],
  "kernel: error": ["How far the predicted time is from the measured one.", SHARE],
  "kernel: inside 90 %": ["Whether the measured time is inside the interval that the model states with a probability of 90 %.", "yes or no"],
  "mesh: memory": ["What one device has, as its maker states it, and how fast it is read.", "powers of 1,000 bytes; per second"],
  peak: ["What a device computes at most in a second, by type. Real kernels reach a part of it, which the catalog of devices states with its source.", "floating point operations per second"],
  axes: ["How many devices there are along each axis, by what they are joined, the bandwidth of one link in each direction, and the latency of a message.", "bytes per second; seconds"],
};

/** Explanations that a page has fetched. @type {Map<string, Explanation>} */
const fetched = new Map();

/**
 * What a name of a figure means; null where nothing is known of it.
 * @param {string} name
 * @returns {Explanation | null}
 */
export function explanationOf(name) {
  const key = name.trim().toLowerCase();
  const own = fetched.get(key);
  if (own) return own;
  if (!Object.hasOwn(TEXTS, key)) return null;
  const [text, unit] = TEXTS[key];
  return { title: titleOf(key), text, unit };
}

/** The name without the word that says where it is used. @param {string} key */
function titleOf(key) {
  const [subject, detail] = key.split(": ");
  return detail ? `${detail} (${subject})` : subject;
}

/** Costs explain themselves: by their names and their titles. @param {{name: string, title: string, unit: string, description?: string, expression?: string}[]} catalog */
export function explainCosts(catalog) {
  for (const { name, title, unit, description, expression } of catalog) {
    const formula = expression && expression !== name ? ` It is ${expression}.` : "";
    const text = `${sentence(description || `A cost that this run or program states itself.`)}${formula}`;
    const found = { title, text, unit: UNITS[unit] ?? (unit || "none") };
    fetched.set(`cost: ${name}`, found);
    if (!Object.hasOwn(TEXTS, title.toLowerCase())) fetched.set(title.toLowerCase(), found);
  }
}

/** @type {Record<string, string>} */
const UNITS = { s: SECONDS, B: BYTES, flop: "floating point operations", J: "joules", USD: "US dollars" };

/** Options explain themselves, too. @param {Record<string, string>} descriptions by titles */
export function explainOptions(descriptions) {
  for (const [title, text] of Object.entries(descriptions)) fetched.set(`option: ${title.toLowerCase()}`, { title, text: sentence(text), unit: "as in the form for a run" });
}

/** @param {string} text */
function sentence(text) {
  const whole = `${text[0].toUpperCase()}${text.slice(1)}`.replaceAll("`", "");
  return /[.!?]$/.test(whole) ? whole : `${whole}.`;
}
