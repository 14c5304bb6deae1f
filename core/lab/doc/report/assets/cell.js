// The page of one cell: figures, configuration, environment, checks and raw samples.

async function openCell(cell, again) {
  const page = document.getElementById("page"), d = report.doc, c = d.cells;
  const detail = await detailOf(cell);
  const part = (title, ...nodes) => el("section", {}, el("h3", {}, title), nodes.flat());
  const heading = el("h2", { tabindex: "-1" }, swatch(c.series[cell]), labelOf(cell));
  page.replaceChildren(...[
    el("p", {}, el("a", { href: "#back", id: "back" }, "← all cells"), " ", cell > 0 ? el("a", { href: "#cell-" + (cell - 1) }, "previous") : null, " ",
      cell + 1 < c.label.length ? el("a", { href: "#cell-" + (cell + 1) }, "next") : null),
    heading,
    el("p", { class: "meta" }, [seriesName(c.series[cell]), detail.plugin?.version, detail.started_at, c.status[cell] !== "measured" ? `${c.status[cell]}: ${c.reason[cell]}` : ""].filter(Boolean).join(" · ")),
    detail.problem ? el("p", { class: "notice" }, detail.problem) : null,
    detail.analysis ? part("Verdict", verdictOf(detail.analysis)) : null,
    part("Figures", statesText(cell) ? el("p", {}, "Throughput in the machine's states: " + statesText(cell)) : null, figureTable(cell)),
    classesOf(detail.classes || []),
    (detail.flows || []).length ? part("Pairs of ranks", flowTable(detail.flows)) : null,
    spectrumOf(cell, detail),
    repeatsOf(cell),
    (detail.analysis?.breakdowns || []).length ? part("Where the time goes", detail.analysis.breakdowns.map(breakdownTable)) : null,
    (detail.loops || []).length ? part("The daemons' loop", loopsOf(detail.loops)) : null,
    detail.start ? part("What a start takes", breakdownTable(detail.start)) : null,
    detail.analysis?.stalls ? part("Longest stalls", stallsOf(detail.analysis.stalls)) : null,
    part("Checks", checkTable(detail)),
    part("Raw samples", sampleTable(detail)),
    (detail.rates || []).length ? part("Rates within windows", rateTable(detail.rates)) : null,
    part("Configuration", pairTable("Options as resolved", detail.config)),
    part("Environment", c.environment[cell] >= 0 ? machineTable(d.environments[c.environment[cell]], c.environment[cell]) : el("p", { class: "note" }, "The machine is unknown."), pairTable("Plugin", flat(detail.plugin))),
    (detail.runs || []).length ? part("Runs", detail.runs.map(runTables)) : null,
  ].filter(Boolean));
  show(true);
  document.title = labelOf(cell) + " · transportbench";
  for (const draw of page.querySelectorAll(".later")) draw.dispatchEvent(new Event("draw"));
  if (again) return;
  heading.focus({ preventScroll: true });
  window.scrollTo(0, 0);
}

function show(cellPage) {
  document.body.classList.toggle("on-cell", cellPage);
  document.getElementById("page").hidden = !cellPage;
  document.getElementById("main").hidden = cellPage;
  document.getElementById("filters").hidden = cellPage;
  hideTip();
}

function verdictOf(a) {
  const v = a.verdict || {};
  return el("div", {}, el("p", {}, el("strong", {}, v.bound || ""), v.message ? ": " + v.message : ""),
    (v.evidence || []).length ? el("ul", {}, v.evidence.map((t) => el("li", {}, t))) : null,
    (a.losses || []).length ? el("ul", {}, a.losses.map((l) => el("li", {}, l.message))) : null,
    (a.missing || []).length ? el("ul", { class: "quiet" }, a.missing.map((t) => el("li", {}, t))) : null);
}

function figureTable(cell) {
  const rows = report.doc.metrics.filter((m) => m.median[cell] !== null).map((m) => metricOf(cell, m.name));
  return table(report.doc.cells.windows[cell] ? `Medians over ${report.doc.cells.windows[cell]} windows` : "Medians over the repeats; response times of open loops over all windows together", [
    { name: "metric", text: (m) => m.name, key: (m) => m.name }, { name: "median", right: true, text: value }, { name: "95% interval", right: true, text: interval },
    { name: "repeats", right: true, text: (m) => String(m.n) }, { name: "meaning", text: (m) => report.metrics.get(m.name).help }], rows);
}

function spectrumOf(cell, detail) {
  const curves = [["service", detail.service, []], ["response", detail.response, [6, 4]]].filter((c) => c[1]?.length).map(([kind, values, dash]) => ({
    series: report.doc.cells.series[cell], dash, kind, cell, points: values.map((v, i) => ({ x: 1 / (1 - report.doc.grid[i]), y: v, cell,
      lines: [`${shareText(report.doc.grid[i])} of the ${kind} times are at most ${number(v, "ns")}`] })) }));
  if (!curves.length) return null;
  const figure = el("figure", { class: "later" });
  figure.addEventListener("draw", () => drawChart(figure, { label: "Percentile spectrum", height: 260, curves, levels: floorsOf([cell]),
    x: { title: "percentile: 1/(1-p), logarithmic", log: true, text: (v) => shareText(1 - 1 / v), ticks: tens }, y: { title: "time", log: true, text: (v) => number(v, "ns") } }));
  return el("section", {}, el("h3", {}, "Percentiles, all repeats merged"), figure, folded("cell-spectrum", "The percentiles, as a table", () => spectrumTable(curves)));
}

// classesOf draws how much each class of traffic is slowed by the others, and has a table of its figures.
function classesOf(figures) {
  if (!figures.length) return null;
  const slowed = figures.filter((f) => f.slowdown), most = Math.max(1, ...slowed.map((f) => f.slowdown.median));
  const x = (v) => (100 * v) / most + "%";
  const bars = slowed.map((f, i) => el("div", { class: "bar-row" }, el("span", { class: "bar-label" }, f.class + " " + f.metric),
    svg("svg", { class: "bar", role: "img", "aria-label": `${f.class} ${f.metric}: ${value(f.slowdown)}` },
      svg("rect", { width: x(f.slowdown.median), y: 2, height: 16, class: "s" + (figures.findIndex((o) => o.class === f.class) % 8) }), svg("line", { class: "zero", x1: x(1), x2: x(1), y1: 0, y2: 20 })),
    el("span", { class: "bar-value" }, value(f.slowdown))));
  return el("section", {}, el("h3", {}, "Classes of traffic"),
    bars.length ? el("figure", { class: "bars slowdowns" }, el("figcaption", {}, "How many times worse a class is with the others than alone; 1, the dashed line, is no difference"), bars) : null,
    table("Medians with all classes at once, alone, and the former over the latter", [{ name: "class", text: (f) => f.class }, { name: "metric", text: (f) => f.metric + (f.objective ? " of " + f.objective : "") },
      { name: "together", right: true, text: (f) => value(f.together) }, { name: "alone", right: true, text: (f) => value(f.alone) }, { name: "slowdown", right: true, text: (f) => value(f.slowdown) }, { name: "95% interval", right: true, text: (f) => interval(f.slowdown) }], figures));
}

function flowTable(flows) {
  const all = flows.reduce((sum, f) => sum + f.per_second, 0), rank = (name, of) => ({ name, right: true, text: (f) => String(of(f)), key: of });
  const time = (name) => ({ name, right: true, text: (f) => number(f.latency[name + "_ns"], "ns"), key: (f) => f.latency[name + "_ns"] });
  return table("Operations by the calling rank and the rank that it called; times are service times", [rank("from", (f) => f.from), rank("to", (f) => f.to),
    { name: "throughput", right: true, text: (f) => number(f.per_second, "op/s"), key: (f) => f.per_second }, { name: "share", right: true, text: (f) => digits((100 * f.per_second) / all) + "%" },
    time("mean"), time("p50"), time("p99"), time("max")], flows);
}

// repeatsOf draws the throughput of each repeat in the order of measurement.
function repeatsOf(cell) {
  const dots = dotsOf(cell, null, "throughput"), m = metricOf(cell, "throughput");
  if (!dots.length || !m) return null;
  const figure = el("figure", { class: "later" }), states = [...new Set(dots.map((d) => d.state).filter(Boolean))];
  figure.addEventListener("draw", () => drawChart(figure, { label: "Throughput of each repeat", height: 200, levels: [{ y: m.median, text: "median" }],
    curves: [{ series: report.doc.cells.series[cell], dash: [0, 9999], shape: "circle", points: dots.map((d, i) => ({ x: i + 1, y: d.y, cell, color: stateColor(d.state), lines: [`repeat ${i + 1}: ${number(d.y, m.unit)}`, d.state && "the machine was " + d.state].filter(Boolean) })) }],
    x: { title: "repeat", range: [0.5, dots.length + 0.5], text: String, ticks: () => dots.map((_, i) => i + 1) }, y: { title: "throughput (op/s)", text: (v) => short(v, "op/s") } }));
  return el("section", {}, el("h3", {}, "Repeats"), states.length ? stateLegend(states) : null, figure);
}

function breakdownTable(b) {
  return el("div", {}, table(`${b.title}: means`, [{ name: "part", text: (p) => (p.inside ? p.inside + ": " : "") + p.name }, { name: "mean", right: true, text: (p) => number(p.mean_ns, "ns") },
    { name: "share", right: true, text: (p) => digits(100 * p.share) + "%" }, { name: "meaning", text: (p) => p.help || "" }],
  [...b.parts, { name: "whole", mean_ns: b.whole_ns, share: 1 }]), b.note ? el("p", { class: "note" }, b.note) : null);
}

function stallsOf(s) {
  return el("div", {}, el("p", {}, `${count(s.count, "stall")}, ${number(s.total_ns, "ns")} in all`), el("ul", {}, s.longest.map((one) => el("li", {}, one.message))));
}

function checkTable(detail) {
  const all = (detail.runs || []).flatMap((r) => r.checks || []);
  const known = new Set(all.filter((c) => !c.ok).map((c) => c.name));
  const more = (detail.doubts || []).filter((d) => !known.has(d.name));
  const found = (detail.analysis?.findings || []).filter((f) => !known.has(f.name) && !more.some((m) => m.name === f.name)).map((f) => ({ ...f, ok: false }));
  const rows = [...all, ...more, ...found].sort((a, b) => a.ok - b.ok);
  if (!rows.length) return el("p", { class: "note" }, "There are no checks.");
  return table("Checks, failed ones first", [
    { name: "check", text: (c) => c.name, key: (c) => c.name }, { name: "outcome", node: (c) => (c.ok ? "ok" : el("strong", { class: c.severity }, c.severity)), key: (c) => String(c.ok) }, { name: "message", long: true, text: (c) => c.message }], rows);
}

function sampleTable(detail) {
  const names = report.doc.metrics.map((m) => m.name).filter((n) => detail.samples[n]);
  const n = Math.max(0, ...names.map((m) => detail.samples[m].length));
  return table("One value per repeat, unrounded", [{ name: "metric", text: (m) => m }, { name: "unit", text: (m) => report.metrics.get(m).unit },
    ...Array.from({ length: n }, (_, i) => ({ name: String(i), right: true, text: (m) => String(detail.samples[m][i] ?? "") }))], names);
}

function rateTable(rates) {
  return folded("rates", "Operations per second in each part of each window, as a table", () => table("Rates", [{ name: "repeat", text: (r) => String(r.i) },
    ...rates[0].map((_, j) => ({ name: String(j + 1), right: true, text: (r) => short(r.list[j] ?? 0, "op/s") }))], rates.map((list, i) => ({ list, i }))));
}

function flat(v, prefix = "") {
  if (v === null || typeof v !== "object") return { [prefix]: String(v) };
  return Object.assign({}, ...Object.entries(v).map(([k, x]) => flat(x, prefix ? prefix + "." + k : k)));
}

function pairTable(caption, list) {
  return table(caption, [{ name: "name", text: (r) => r[0] }, { name: "value", text: (r) => r[1] }], Object.entries(list || {}).sort());
}

function runTables(r) {
  return el("div", {}, el("p", {}, el("code", {}, (r.argv || []).join(" "))), r.incomplete ? el("p", { class: "notice" }, "Incomplete: " + r.incomplete) : null,
    pairTable("Run " + r.id, { file: r.file || "-", started: r.started_at, ...flat(r.tool, "tool"), ...(r.impaired_by && { "network impaired by": r.impaired_by }) }),
    table("Set-up", [{ name: "step", text: (s) => s.name }, { name: "took", right: true, text: (s) => number(s.ms * 1e6, "ns") }], r.setup?.steps || []),
    table("Processors of the threads", [{ name: "rank", text: (p) => String(p.rank) }, { name: "processors", text: (p) => (p.cpus || []).join(", ") },
      { name: "affinity", text: (p) => (p.affinity || []).join(", ") }, { name: "idle", text: (p) => p.idle }], r.placement || []),
    ...(r.setup?.ranks || []).flatMap((s, rank) => (s.paths || []).map((p) => pairTable("Path of the bytes of rank " + rank, flat(p)))));
}
