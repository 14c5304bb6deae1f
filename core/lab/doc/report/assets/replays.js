// Response times over the time of a trace, with the rate of the trace above them.

function drawReplays() {
  const host = document.getElementById("replays-figure"), list = report.doc.replays.map((r) => ({ ...r, lines: r.lines.filter((l) => visible(l.cell)) })).filter((r) => r.lines.length);
  document.getElementById("replays").hidden = !list.length;
  const panels = el("div", { class: "panels" }), figures = list.map((r) => el("figure", {}, el("figcaption", {}, r.load),
    el("ul", { class: "legend plain" }, r.lines.map((l) => el("li", {}, key(report.doc.cells.series[l.cell], [], null), `${labelOf(l.cell)}: ${l.worst}`)))));
  panels.append(...figures);
  host.replaceChildren(panels, ...list.map((r) => folded("replays " + r.load, r.load + ", as a table", (host) => fillTable(host, r.table))));
  list.forEach((r, i) => {
    const seconds = (at) => (at * r.step) / 1e9, x = { title: "time of the trace (s)", range: [0, seconds(r.rates.length)], text: (v) => digits(v) };
    const points = (l, values, what, unit) => values.map((y, at) => ({ x: seconds(at + 0.5), y, cell: l.cell, lines: [labelOf(l.cell), `${what} ${number(y, unit)}`, l.within && unit === "ns" ? `${digits(l.within[at])}% within ${number(r.limit, "ns")}` : "", `${digits(seconds(at))} to ${digits(seconds(at + 1))} s`].filter(Boolean) }));
    drawChart(figures[i], { label: "Rate of the trace, " + r.load, height: 130, x, y: { title: "due (op/s)", text: (v) => short(v) },
      curves: [{ series: -1, dash: [], points: points(r.lines[0], r.rates, "due", "op/s") }] });
    drawChart(figures[i], { label: "Response time over the trace, " + r.load, height: 260, x, levels: r.limit ? [{ y: r.limit, text: "objective " + number(r.limit, "ns") }] : [], y: { title: "response time", log: true, text: (v) => number(v, "ns") },
      curves: r.lines.flatMap((l) => [["p99", l.p99, []], ["p50", l.p50, [2, 3]]].map(([what, values, dash]) => ({ series: report.doc.cells.series[l.cell], dash, points: points(l, values, what, "ns") }))) });
  });
}
