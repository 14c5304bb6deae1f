// The first part of the page, the heat maps' metric, and the tables of all drawings.

// fastestOf returns the fastest visible one of the curves' best points, which Go has computed.
function fastestOf(series, set, open) {
  let best = null;
  for (const curve of report.doc.curves) {
    if (curve.series !== series || curve.set !== set || curve.open !== open || curve.most === undefined) continue;
    const cell = curve.points[curve.most].cell, rate = metricOf(cell, "throughput");
    if (rate && visible(cell) && (!best || rate.median > best.rate.median)) best = { cell, rate, curve };
  }
  return best;
}

// ratioColumns are the ratios to floors. A cell has those that mean something for its load.
function ratioColumns() {
  return [["floor_ratio", "p50/floor"], ["op_time_ratio", "op/floor"], ["library_ratio", "x library"], ["witness_ratio", "x witness"],
    ["witness_time_ratio", "op/witness"]].filter(([name]) => report.metrics.has(name)).map(([name, title]) => metricColumn(name, title));
}

function shareColumn(name, title) {
  const share = (cell) => metricOf(cell, name)?.median ?? null;
  return { name: title, help: report.metrics.get(name).help, right: true, text: (cell) => (share(cell) === null ? "-" : digits(100 * share(cell)) + "%"), key: share };
}

// statesText has the throughput and the ratio to the floor in each state of the machine that the cell
// saw. It is empty if the sets saw one state only.
function statesText(cell) {
  return (report.doc.cells.states[cell] || []).map((s) => `${s.state} ${number(s.metric.median, s.metric.unit)}${s.ratio ? `, ${digits(s.ratio)} x the floor` : ""} (${count(s.metric.n, "window")})`).join("; ");
}

function drawStrip() {
  const host = document.getElementById("strip"), d = report.doc, best = [];
  for (const open of [false, true])
    for (const series of d.series.keys())
      for (const set of d.sets.keys()) {
        const found = fastestOf(series, set, open);
        if (found) best.push({ ...found, series, set, open });
      }
  const most = (open) => Math.max(...best.filter((b) => b.open === open).map((b) => b.rate.median));
  const groups = [false, true].filter((open) => best.some((b) => b.open === open)).map((open) =>
    el("div", { class: "strip" }, el("h3", {}, open ? "Open loop" : "Closed loop"), el("ul", {}, best.filter((b) => b.open === open).map((b) => card(b, most(open))))));
  const none = el("p", { class: "note" }, d.objective ? `No cell shown meets ${d.objective}.` : "No cell shown has a usable throughput.");
  host.replaceChildren(...(groups.length ? groups : [none]), folded("verdict", "Every load curve, as a table", () => curveTable()));
}

function card(b, most) {
  const d = report.doc, tail = b.open ? "response_" : "latency_";
  const p50 = metricOf(b.cell, tail + "p50"), p99 = metricOf(b.cell, "response_p99"), p999 = metricOf(b.cell, "response_p999");
  const time = metricOf(b.cell, "floor_ratio"), op = metricOf(b.cell, "op_time_ratio");
  const library = metricOf(b.cell, "library_ratio"), harness = metricOf(b.cell, "harness_share"), states = statesText(b.cell), windows = d.cells.windows[b.cell] ? ` in ${d.cells.windows[b.cell]} windows` : "";
  const bar = svg("svg", { class: "share", "aria-hidden": "true", height: 4 }, svg("rect", { width: (100 * b.rate.median) / most + "%", height: 4, class: "s" + (b.series % 8) }));
  return el("li", { class: "card", "data-cell": b.cell },
    el("h4", {}, swatch(b.series), seriesName(b.series), d.sets.length > 1 ? el("span", { class: "set" }, d.sets[b.set].name) : null),
    el("p", { class: "big" }, cellLink(b.cell, value(b.rate))), bar,
    el("p", {}, el("span", { class: "quiet" }, "95% "), intervalWithUnit(b.rate) + windows),
    el("dl", {},
      el("dt", {}, b.open ? "response" : "service"), el("dd", {}, `p50 ${value(p50)}` + (b.open ? `, p99 ${value(p99)}` + (p999 ? `, p99.9 ${value(p999)}` : "") : "")),
      time || op ? [el("dt", {}, "floor"), el("dd", {}, time ? `p50 is ${value(time)} x` : `an op takes ${value(op)} x`)] : null,
      library ? [el("dt", {}, "library"), el("dd", {}, `p50 is ${value(library)} x`)] : null,
      harness ? [el("dt", {}, "harness"), el("dd", {}, `${digits(100 * harness.median)}% of an op`)] : null,
      states ? [el("dt", {}, "states"), el("dd", {}, states)] : null,
      el("dt", {}, "load"), el("dd", {}, cellLink(b.cell, d.cells.label[b.cell].split(" ").slice(1).join(" ") || "the only one")),
      d.cells.bound[b.cell] ? [el("dt", {}, "bound"), el("dd", {}, el("strong", {}, d.cells.bound[b.cell]), d.cells.why[b.cell] ? ": " + d.cells.why[b.cell] : null)] : null),
    warningsOf(b.cell));
}

// warningsOf counts warnings as the tables in the terminal do.
function warningsOf(cell) {
  const c = report.doc.cells;
  if (c.worst[cell] !== "error" && !c.warnings[cell]) return null;
  return el("p", { class: c.worst[cell] }, c.worst[cell] === "error" ? "failed: do not use" : count(c.warnings[cell], "warning"));
}

function curveTable() {
  const rows = report.doc.curves.flatMap((curve) => curve.points.map((p) => ({ curve, p }))).filter((r) => visible(r.p.cell));
  const of = (name) => (r) => metricOf(r.p.cell, name);
  const tail = (r, p) => metricOf(r.p.cell, (r.curve.open ? "response_" : "latency_") + p);
  return table("Throughput and latency of every load", [
    { name: "cell", node: (r) => cellLink(r.p.cell), key: (r) => labelOf(r.p.cell) },
    { name: "loop", text: (r) => (r.curve.open ? "open: response time" : "closed: service time"), key: (r) => String(r.curve.open) },
    { name: "throughput", right: true, text: (r) => value(of("throughput")(r)), key: (r) => of("throughput")(r)?.median },
    { name: "95% interval", right: true, text: (r) => interval(of("throughput")(r)) },
    ...["p50", "p99", "p999"].flatMap((p) => [
      { name: p.replace("p999", "p99.9"), right: true, text: (r) => value(tail(r, p)), key: (r) => tail(r, p)?.median },
      { name: "95% interval", right: true, text: (r) => interval(tail(r, p)) }]),
    { name: "past the peak", text: (r) => (r.p.past ? "yes" : "") },
    ...(report.doc.objective ? [{ name: report.doc.objective, text: (r) => r.p.meets || "-" }] : []),
    { name: "unusable because", text: (r) => r.p.unusable || "" },
  ], rows);
}

// heatMetric is the metric of the heat maps. paintHeat draws them as Go has drawn them with
// throughput.
const heatLevels = [0, 0.1, 0.25, 0.45, 0.65, 0.85, 0.97];
let heatMetric = "throughput";

function paintHeat() {
  for (const map of document.querySelectorAll("[data-map]")) {
    const best = new Map(), better = (a, b, m) => (m.better === "lower" ? a < b : a > b);
    const columns = [...map.querySelectorAll("a[data-c]")].map((a) => ({ a, x: a.querySelector("rect").getAttribute("x"), m: metricOf(Number(a.dataset.c), heatMetric) }));
    for (const { x, m } of columns) if (m && m.median > 0 && (!best.has(x) || better(m.median, best.get(x), m))) best.set(x, m.median);
    for (const { a, x, m } of columns) {
      const share = !m || !(m.median > 0) ? 0 : m.better === "lower" ? best.get(x) / m.median : m.median / best.get(x);
      const level = m ? heatLevels.findLastIndex((from) => share >= from) : -1;
      const c = Number(a.dataset.c), [first, second] = a.querySelectorAll("text");
      a.setAttribute("class", (level < 0 ? "none" : "h" + level) + (a.classList.contains("off") ? " off" : ""));
      first.textContent = m ? digits(100 * share) + "%" : "-";
      second.textContent = m ? value(m) : report.doc.cells.status[c];
      a.setAttribute("aria-label", `${labelOf(c)}: ${first.textContent}, ${second.textContent}`);
    }
  }
}

function drawHeatControls() {
  const select = document.getElementById("heat-metric");
  const list = report.doc.metrics.filter((m) => m.better !== "none" && ["op/s", "B/s", "ns", "ratio", "token/s", "iteration/s"].includes(m.unit));
  select.replaceChildren(...list.map((m) => el("option", { value: m.name, selected: m.name === heatMetric, title: m.help }, m.name)));
  select.onchange = () => {
    heatMetric = select.value;
    paintHeat();
  };
  for (const map of document.querySelectorAll("[data-map]")) map.style.setProperty("--columns", map.dataset.columns);
  const absolute = document.getElementById("bars-absolute");
  if (absolute) absolute.onchange = () => scaleBars(absolute.checked);
  const main = document.getElementById("main");
  const tip = (e) => {
    const a = e.target.closest?.("a[data-c]");
    if (!a || !a.closest(".heat-row")) return false;
    const box = a.getBoundingClientRect(), c = Number(a.dataset.c), m = metricOf(c, heatMetric);
    const time = metricOf(c, "floor_ratio"), op = metricOf(c, "op_time_ratio");
    showTip([labelOf(c), m ? `${heatMetric} ${value(m)} (${interval(m)})` : report.doc.cells.reason[c], a.querySelector("text").textContent + " of the best in its column",
      time ? `p50 ${value(time)} x the floor` : "", op ? `op ${value(op)} x the floor` : "", statesText(c)].filter(Boolean), box.left + box.width / 2, box.bottom - 8, true);
    return true;
  };
  main.onmouseover = main.onfocusin = tip;
  main.onmouseout = (e) => { if (e.target.closest?.(".heat-row")) hideTip(); };
  main.onfocusout = main.onmouseout;
}

// scaleBars makes the lengths of bars proportional to their times, or fills each row.
function scaleBars(absolute) {
  for (const bar of document.querySelectorAll("svg.bar[data-longest]")) {
    const by = absolute ? Number(bar.dataset.longest) : 1;
    for (const part of bar.children) for (const name of ["x", "width", "x1", "x2"]) {
      if (!part.hasAttribute(name)) continue;
      part.dataset[name] ??= part.getAttribute(name);
      part.setAttribute(name, parseFloat(part.dataset[name]) / by + "%");
    }
  }
}

function drawTables() {
  const d = report.doc, put = (id, ...nodes) => document.getElementById(id).replaceChildren(...nodes);
  put("heat-table", folded("heat", "The figures, as a table", () => table("Throughput by cell", [
    { name: "cell", node: (c) => cellLink(c), key: labelOf }, metricColumn(heatMetric), intervalColumn(heatMetric),
    ...ratioColumns()], shownCells)));
  put("phases-table", ...d.stacks.map((s, i) => folded("stack" + i, s.title + ", as a table", () => table(s.title + ": means", [
    { name: "cell", node: (r) => cellLink(r.cell), key: (r) => labelOf(r.cell) },
    ...s.parts.map((p, j) => ({ name: p, right: true, text: (r) => (r.means[j] == null ? "-" : number(r.means[j], "ns")), key: (r) => r.means[j] ?? null })),
    { name: "whole", right: true, text: (r) => number(r.whole, "ns"), key: (r) => r.whole }], s.rows.filter((r) => visible(r.cell))))));
  put("changes-table", ...d.diffs.filter((x) => x.report).map((x, i) => folded("diff" + i, `All changes to ${d.sets[x.new].name}, as a table`, () => changeTable(x))));
  put("curve-notes", ...d.notes?.length ? [el("details", {}, el("summary", {}, count(d.notes.length, "load") + " without a curve"), el("ul", { class: "notes" }, d.notes.slice(0, 100).map((t) => el("li", {}, t))))] : []);
  put("trust-more", findingTable(), folded("machines", "The machine, as a table", (host) => d.machines.forEach((t) => fillTable(host, t))));
  put("all-table", table("Every cell", [
    { name: "cell", node: (c) => cellLink(c), key: labelOf },
    metricColumn("throughput"), intervalColumn("throughput"), metricColumn("latency_p50", "service p50"),
    ...(report.metrics.has("response_p99") ? [metricColumn("response_p50", "response p50"), metricColumn("response_p99", "response p99"), metricColumn("response_p999", "response p99.9")] : []),
    ...ratioColumns(),
    ...(report.metrics.has("harness_share") ? [shareColumn("harness_share", "harness")] : []),
    ...(report.metrics.has("busy_per_op") ? [metricColumn("busy_per_op", "busy/op")] : []),
    ...(report.metrics.has("process_cpu_per_op") ? [metricColumn("process_cpu_per_op", "CPU/op"), metricColumn("kernel_per_op", "kernel/op")] : [metricColumn("cpu_per_op", "CPU/op")]),
    ...(d.cells.states.some((s) => s) ? [{ name: "windows", text: (c) => d.cells.windows[c] || "-" }, { name: "states", long: true, text: statesText }] : []),
    { name: "checks", node: (c) => (d.cells.status[c] === "measured" ? warningsOf(c) || "ok" : `${d.cells.status[c]}: ${d.cells.reason[c]}`), key: (c) => (d.cells.worst[c] === "error" ? 1e6 : d.cells.warnings[c]) },
  ], shownCells));
}

function changeTable(x) {
  // common is the state of the machine in which both sides have most windows, as in the tables of diff.
  const common = (c) => (c.states || []).filter((s) => s.change !== undefined && s.state !== "mixed" && s.state !== "unread")
    .reduce((a, s) => (a && Math.min(a.old_n, a.new_n) >= Math.min(s.old_n, s.new_n) ? a : s), null);
  const m = (c, side) => (common(c) ? number(common(c)[side], c.unit) + " " + common(c).state : c[side] ? number(c[side].median, c.unit) : "-");
  const rows = x.report.changes.map((c, i) => ({ ...c, at: x.cells[i] }));
  return el("div", {}, table("Changes", [
    { name: "cell", node: (c) => (c.at >= 0 ? cellLink(c.at, c.cell) : c.cell), key: (c) => c.cell }, { name: "metric", text: (c) => c.metric, key: (c) => c.metric },
    { name: "old", right: true, text: (c) => m(c, "old") }, { name: "new", right: true, text: (c) => m(c, "new") },
    { name: "change", right: true, text: (c) => percent(c.change_of_medians), key: (c) => c.change_of_medians },
    { name: "shift", right: true, text: (c) => percent(c.change), key: (c) => c.change }, { name: "interval", right: true, text: (c) => percents(c.low, c.high) },
    { name: "p (Holm)", right: true, text: (c) => probability(c.p_holm), key: (c) => c.p_holm }, { name: "verdict", text: (c) => c.verdict, key: (c) => c.verdict },
    { name: "note", long: true, text: (c) => c.note || "" }], rows.filter((c) => c.at < 0 || visible(c.at))),
  notesOf(x.report));
}

function notesOf(r) {
  const lines = [...(r.across || []).map((a) => `compared across different ${a.key} (${a.old || "none"} and ${a.new || "none"})`), ...(r.notes || []),
    ...(r.only_old || []).map((c) => "only in the old: " + c.cell), ...(r.only_new || []).map((c) => "only in the new: " + c.cell)];
  return lines.length ? el("ul", { class: "notes" }, lines.slice(0, 200).map((l) => el("li", {}, l))) : null;
}

function findingTable() {
  const rows = report.doc.findings.map((f) => ({ ...f, here: f.cells.filter(visible) })).filter((f) => f.here.length);
  if (!rows.length) return el("p", { class: "note" }, "No check failed in the cells shown.");
  return table("Problems of the figures", [
    { name: "finding", node: (f) => el("span", { class: f.severity }, f.check), key: (f) => f.check },
    { name: "severity", text: (f) => f.severity, key: (f) => ["info", "warning", "error"].indexOf(f.severity) },
    { name: "cells", right: true, text: (f) => String(f.here.length), key: (f) => f.here.length },
    { name: "first message", long: true, node: (f) => el("span", {}, f.example + " ") },
    { name: "which", node: (f) => el("details", {}, el("summary", {}, count(f.here.length, "cell")), el("ul", { class: "cells" }, f.here.slice(0, 100).map((c) => el("li", {}, cellLink(c))))) },
  ], rows);
}
