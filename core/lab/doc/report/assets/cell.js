// The page of one cell. Go has made its HTML; this file draws its charts.

async function openCell(cell, again) {
  const page = document.getElementById("page"), detail = await detailOf(cell);
  page.innerHTML = detail.html;
  sortTables(page);
  for (const host of page.querySelectorAll("[data-table]")) fillTable(host, detail[host.dataset.table]);
  for (const host of page.querySelectorAll("[data-machine]")) fillTable(host, report.doc.tables.machines[host.dataset.machine]);
  for (const [name, draw] of Object.entries({ spectrum: drawSpectrumOf, repeats: drawRepeats })) {
    const figure = page.querySelector(`[data-chart=${name}]`);
    figure?.addEventListener("draw", () => draw(figure, cell, detail));
  }
  show(true);
  document.title = labelOf(cell) + " · transportbench";
  for (const draw of page.querySelectorAll(".later")) draw.dispatchEvent(new Event("draw"));
  if (again) return;
  page.querySelector("h2").focus({ preventScroll: true });
  window.scrollTo(0, 0);
}

function show(cellPage) {
  document.body.classList.toggle("on-cell", cellPage);
  document.getElementById("page").hidden = !cellPage;
  document.getElementById("main").hidden = cellPage;
  document.getElementById("filters").hidden = cellPage;
  hideTip();
}

function drawSpectrumOf(figure, cell, detail) {
  const curves = spectrumCurves(cell, detail).map((c) => ({ ...c, dash: c.kind === "response" ? [6, 4] : [] }));
  drawChart(figure, { label: "Percentile spectrum", height: 260, curves, levels: floorsOf([cell]),
    x: { title: "percentile: 1/(1-p), logarithmic", log: true, ticks: report.doc.ticks }, y: { title: "time", log: true, text: (v) => number(v, "ns") } });
}

// drawRepeats draws the throughput of each repeat in the order of measurement.
function drawRepeats(figure, cell) {
  const dots = dotsOf(cell, null, "throughput"), m = metricOf(cell, "throughput"), states = [...new Set(dots.map((d) => d.state).filter(Boolean))];
  if (!dots.length || !m) return;
  if (states.length && !figure.previousElementSibling?.classList.contains("legend")) figure.before(stateLegend(states));
  drawChart(figure, { label: "Throughput of each repeat", height: 200, levels: [{ y: m.median, text: "median" }],
    curves: [{ series: report.doc.cells.series[cell], dash: [0, 9999], shape: "circle", points: dots.map((d, i) => ({ x: i + 1, y: d.y, cell, color: stateColor(d.state), lines: [`repeat ${i + 1}: ${number(d.y, "op/s")}`, d.state && "the machine was " + d.state].filter(Boolean) })) }],
    x: { title: "repeat", range: [0.5, dots.length + 0.5], ticks: dots.map((_, i) => ({ x: i + 1, text: String(i + 1) })) }, y: { title: "throughput (op/s)", text: (v) => short(v) } });
}
