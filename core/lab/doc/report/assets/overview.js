// The first part of the page, the heat maps' metric, and the tables of all drawings.

// fastestOf returns the fastest visible one of the curves' best points, which Go has computed.
function fastestOf(series, set, open) {
  let best = null;
  for (const curve of report.doc.curves) {
    if (curve.series !== series || curve.set !== set || curve.open !== open || curve.most < 0 || !visible(curve.most)) continue;
    const rate = metricOf(curve.most, "throughput").median;
    if (!best || rate > best.rate) best = { rate, open, card: curve.card };
  }
  return best;
}

function drawStrip() {
  const host = document.getElementById("strip"), d = report.doc, loops = [];
  for (const open of [false, true]) {
    const best = [...d.series.keys()].flatMap((series) => [...d.sets.keys()].map((set) => fastestOf(series, set, open))).filter(Boolean);
    if (!best.length) continue;
    const list = el("ul"), most = Math.max(...best.map((b) => b.rate));
    list.innerHTML = best.map((b) => b.card).join("");
    best.forEach((b, i) => list.children[i].querySelector("rect").setAttribute("width", (100 * b.rate) / most + "%"));
    loops.push(el("div", { class: "strip" }, el("h3", {}, open ? "Open loop" : "Closed loop"), list));
  }
  const none = el("p", { class: "note" }, d.objective ? `No cell shown meets ${d.objective}.` : "No cell shown has a usable throughput.");
  host.replaceChildren(...(loops.length ? loops : [none]), folded("verdict", "Every load curve, as a table", (host) => fillTable(host, d.tables.curves)));
}

// heatMetric is the metric of the heat maps, which Go has drawn with throughput.
let heatMetric = "throughput";

function paintHeat() {
  const m = report.metrics.get(heatMetric);
  for (const a of document.querySelectorAll(".heat a")) {
    const c = Number(a.dataset.c), level = m.level[c];
    a.className = (level < 0 ? "none" : "h" + level) + (a.classList.contains("off") ? " off" : "");
    a.firstChild.textContent = m.share[c] || "-";
    a.lastChild.textContent = m.text[c] || report.doc.cells.status[c];
  }
}

function drawHeatControls() {
  const select = document.getElementById("heat-metric");
  const list = report.doc.metrics.filter((m) => m.level);
  select.replaceChildren(...list.map((m) => el("option", { value: m.name, selected: m.name === heatMetric, title: m.help }, m.name)));
  select.onchange = () => {
    heatMetric = select.value;
    paintHeat();
    drawHeatTable();
  };
  const absolute = document.getElementById("bars-absolute");
  if (absolute) absolute.onchange = () => scaleBars(absolute.checked);
  const main = document.getElementById("main");
  const tip = (e) => {
    const a = e.target.closest?.("a[data-c]");
    if (!a || !a.closest(".heat")) return false;
    const box = a.getBoundingClientRect(), c = Number(a.dataset.c), d = report.doc.cells, m = metricOf(c, heatMetric);
    showTip([labelOf(c), m ? m.line : d.reason[c], a.firstChild.textContent + " of the best in its column", d.floors[c], d.states[c]].filter(Boolean), box.left + box.width / 2, box.bottom - 8, true);
    return true;
  };
  main.onmouseover = main.onfocusin = tip;
  main.onmouseout = (e) => { if (e.target.closest?.(".heat")) hideTip(); };
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

// drawHeatTable adds the metric of the heat maps to their table.
function drawHeatTable() {
  const m = report.metrics.get(heatMetric);
  document.getElementById("heat-table").replaceChildren(folded("heat", "The figures, as a table", (host) => fillTable(host, report.doc.tables.heat, (row, c) => {
    const [, median, interval] = row.cells;
    if (c < 0) [median.textContent, median.title] = [heatMetric, m?.help || ""];
    else [median.textContent, interval.textContent] = [m?.text[c] || "-", m?.interval[c] || "-"];
    if (m?.text[c]) median.dataset.value = m.median[c];
  })));
}

function drawTables() {
  const d = report.doc, t = d.tables, put = (id, ...nodes) => document.getElementById(id).replaceChildren(...nodes);
  drawHeatTable();
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
  if (t.findings.groups?.some((g) => g.some(visible))) fillTable(findings, t.findings, (row, i) => {
    if (i < 0) return;
    const cells = t.findings.groups[i].filter(visible);
    row.cells[2].textContent = cells.length;
    row.lastElementChild.append(el("details", {}, el("summary", {}, "cells"), el("ul", { class: "cells" }, cells.slice(0, rowsAtOnce).map((c) => el("li", {}, cellLink(c))))));
  });
  else findings.append(el("p", { class: "note" }, "No check failed in the cells shown."));
  put("trust-more", findings, folded("machines", "The machine, as a table", (host) => t.machines.forEach((m) => fillTable(host, m))));
  put("all-table");
  fillTable(document.getElementById("all-table"), t.all);
}
