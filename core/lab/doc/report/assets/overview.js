// The first part of the page, the heat maps' metric, and the tables of all drawings.

// drawStrip shows the fastest visible cell of each transport for each load, in the newest set that has
// both. Go has drawn the rows of all that may be it.
function drawStrip() {
  const host = document.getElementById("strip"), d = report.doc, loads = new Map();
  for (const c of d.curves) {
    const load = [c.load, c.open ? "open loop" : ""].filter(Boolean).join(", ") || "Closed loop", best = loads.get(load) || new Map();
    for (const p of c.points) {
      if (!p.row || !visible(p.cell)) continue;
      const rate = metricOf(p.cell, "throughput").median, known = best.get(c.series);
      if (!known || c.set > known.set || (c.set === known.set && rate > known.rate)) best.set(c.series, { rate, set: c.set, row: p.row });
    }
    if (best.size) loads.set(load, best);
  }
  const newest = (best) => Math.max(...[...best.values()].map((b) => b.set));
  const figures = [...loads].sort(([, a], [, b]) => newest(b) - newest(a)).map(([load, best]) => {
    const figure = el("figure", { class: "bars", "data-bars": "" }, el("figcaption", {}, load)), list = [...best.values()].sort((a, b) => b.rate - a.rate);
    figure.insertAdjacentHTML("beforeend", list.map((b) => b.row).join(""));
    figure.querySelectorAll("rect").forEach((rect, i) => rect.setAttribute("width", (100 * list[i].rate) / list[0].rate + "%"));
    shorten(figure);
    return figure;
  });
  const none = el("p", { class: "note" }, d.objective ? `No cell shown meets ${d.objective}.` : "No cell shown has a usable throughput.");
  host.replaceChildren(...(figures.length ? figures : [none]), folded("verdict", "Every load curve, as a table", (host) => fillTable(host, d.tables.curves)));
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
  const fill = document.getElementById("bars-fill");
  if (fill) fill.onchange = () => scaleBars(fill.checked);
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

// scaleBars fills each row, or makes the lengths of a load's bars proportional to their times.
function scaleBars(fill) {
  for (const bar of document.querySelectorAll("svg.bar[data-fill]")) {
    const by = fill ? Number(bar.dataset.fill) : 1;
    for (const part of bar.children) for (const name of ["x", "width", "x1", "x2"]) {
      if (!part.hasAttribute(name)) continue;
      part.dataset[name] ??= part.getAttribute(name);
      part.setAttribute(name, parseFloat(part.dataset[name]) * by + "%");
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
  const compared = d.diffs.filter((x) => !x.refused);
  put("changes-table", ...t.changes.map(fold("diff")).filter((_, i) => comparesShown(compared[i])));
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
