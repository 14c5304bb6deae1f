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
  host.replaceChildren(...(groups.length ? groups : [none]), folded("verdict", "Every load curve, as a table", (host) => fillTable(host, d.tables.curves)));
}

function card(b, most) {
  const d = report.doc, tail = b.open ? "response_" : "latency_";
  const p50 = metricOf(b.cell, tail + "p50"), p99 = metricOf(b.cell, "response_p99"), p999 = metricOf(b.cell, "response_p999");
  const time = metricOf(b.cell, "floor_ratio"), op = metricOf(b.cell, "op_time_ratio");
  const library = metricOf(b.cell, "library_ratio"), harness = metricOf(b.cell, "harness_share"), states = report.doc.cells.states[b.cell], windows = d.cells.windows[b.cell] ? ` in ${d.cells.windows[b.cell]} windows` : "";
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
      time ? `p50 ${value(time)} x the floor` : "", op ? `op ${value(op)} x the floor` : "", report.doc.cells.states[c]].filter(Boolean), box.left + box.width / 2, box.bottom - 8, true);
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
  const d = report.doc, t = d.tables, put = (id, ...nodes) => document.getElementById(id).replaceChildren(...nodes);
  put("heat-table", folded("heat", "The figures, as a table", () => table("Throughput by cell", [
    { name: "cell", node: (c) => cellLink(c), key: labelOf }, metricColumn(heatMetric), intervalColumn(heatMetric),
    ...ratioColumns()], shownCells)));
  const fold = (id) => (x, i) => folded(id + i, x.title, (host) => {
    if (x.table) fillTable(host, x.table);
    if (!x.html) return;
    const more = el("div", { class: "notes" });
    more.innerHTML = x.html;
    sortTables(more);
    host.append(more);
  });
  put("phases-table", ...t.stacks.map(fold("stack")));
  put("changes-table", ...t.changes.map(fold("diff")));
  put("curve-notes", ...d.notes?.length ? [el("details", {}, el("summary", {}, count(d.notes.length, "load") + " without a curve"), el("ul", { class: "notes" }, d.notes.slice(0, 100).map((t) => el("li", {}, t))))] : []);
  const findings = el("div");
  if (t.findings.groups?.some((g) => g.some(visible))) fillTable(findings, t.findings);
  else findings.append(el("p", { class: "note" }, "No check failed in the cells shown."));
  put("trust-more", findings, folded("machines", "The machine, as a table", (host) => t.machines.forEach((m) => fillTable(host, m))));
  put("all-table");
  fillTable(document.getElementById("all-table"), t.all);
}
