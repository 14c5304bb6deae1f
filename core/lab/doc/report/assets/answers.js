// The first screen: which transport for which load, how far from the limit, how far to trust it.

const rankingTitles = { throughput: "throughput", latency_p50: "service time p50", latency_p99: "service time p99" };
const rowsInShort = 8;
let rankedBy = "throughput", allRows = false;

function drawAnswers() {
  const host = document.getElementById("answers-figure"), d = report.doc;
  const metrics = [...new Set(d.rankings.map((r) => r.metric))];
  if (!metrics.includes(rankedBy)) rankedBy = metrics[0];
  const shown = d.rankings.filter((r) => r.metric === rankedBy && filter.sets.has(r.set));
  if (!shownCells.length) {
    host.replaceChildren(el("p", { class: "note" }, "No cell matches the filters."));
    return;
  }
  const figure = rankingFigure(shown), newest = newestOf(shown), chart = newest.length ? winnersChart(newest, rankedBy) : null;
  host.replaceChildren(
    newest.length ? el("p", { class: "answer" }, winnersOf(newest, rankedBy)) : "", chart || "",
    el("h3", {}, "How far to trust it"), trustList(shown),
    el("div", { class: "question" }, el("h3", {}, "Which transport for which load, and how far from the limit"),
      metrics.length > 1 ? el("label", { class: "controls" }, "by ", el("select", { id: "ranked-by", onchange: (e) => {
        rankedBy = e.target.value;
        drawAnswers();
        document.getElementById("ranked-by").focus();
      } }, metrics.map((m) => el("option", { value: m, selected: m === rankedBy }, rankingTitles[m] || m)))) : null),
    figure || el("p", { class: "note" }, "No load shown has two transports to compare."),
    ...(d.unranked || []).map((t) => el("p", { class: "note" }, t)),
    ...changesInShort());
}

// visibleLoads returns the loads of rankings with two visible cells or more, and those cells.
function visibleLoads(rankings) {
  return rankings.flatMap((r) => r.loads.map((l) => ({ ...l, set: r.set, cells: l.cells.filter((c) => visible(c.cell)) }))).filter((l) => l.cells.length > 1);
}

// newestOf returns the loads of the newest set that has any.
function newestOf(rankings) {
  const all = visibleLoads(rankings), newest = Math.max(...all.map((l) => l.set));
  return all.filter((l) => l.set === newest);
}

function transportOf(cell) { return report.doc.series[report.doc.cells.series[cell]].transport; }

function listed(names) { return names.length > 3 && names.join("").length > 150 ? `${names.length} loads` : names.length < 2 ? names.join("") : names.slice(0, -1).join(", ") + " and " + names.at(-1); }

// leads reports whether the first cell of a load has no letter in common with another one.
function leads(l) { return l.cells[0].group !== "" && l.cells.slice(1).every((c) => c.group !== "" && ![...c.group].some((g) => l.cells[0].group.includes(g))); }

// winnersOf says in a sentence which transport is best under each load.
function winnersOf(loads, metric) {
  const best = new Map(), rest = new Map(), name = rankingTitles[metric] || metric;
  const add = (to, key, load) => to.set(key, [...(to.get(key) || []), load]);
  for (const l of loads) {
    const first = transportOf(l.cells[0].cell);
    if (leads(l)) add(best, first, l.load);
    else if (l.cells.some((c) => !c.group)) add(rest, `${first} is first, with too few repeats, or windows in the same states of the machine, to be certain`, l.load);
    else add(rest, `undecided between ${listed(l.cells.filter((c) => [...c.group].some((g) => l.cells[0].group.includes(g))).map((c) => transportOf(c.cell)))}`, l.load);
  }
  const wins = [...best].map(([transport, list]) => `${transport} has the best ${name} under ${listed(list)}`);
  return (report.doc.sets.length > 1 ? report.doc.sets[loads[0].set].name + ": " : "") + [...wins, ...[...rest].map(([outcome, list]) => `${listed(list)}: ${outcome}`)].join("; ") + ".";
}

// winnersChart has a row for each load, with a lane for each transport, on one logarithmic axis.
function winnersChart(loads, metric) {
  const drawn = allRows ? loads : loads.slice(0, 3 * rowsInShort);
  const rows = drawn.map((l) => ({ load: l.load, points: l.cells.filter((c) => !c.again).map((c) => ({ cell: c.cell, ...metricOf(c.cell, metric) })).filter((p) => p.median > 0) })).filter((r) => r.points.length);
  if (!rows.length) return null;
  const points = rows.flatMap((r) => r.points), low = Math.min(...points.map((p) => p.low || p.median)) / 1.3, high = Math.max(...points.map((p) => p.high || p.median)) * 1.3;
  const at = (v) => (100 * Math.log(v / low)) / Math.log(high / low) + "%", lane = 5.5, series = [...new Set(points.map((p) => report.doc.cells.series[p.cell]))];
  const ticks = logSplits(low, high, 0), unit = report.metrics.get(metric).unit;
  const grid = (height) => ticks.map((v) => svg("line", { class: "grid", x1: at(v), x2: at(v), y1: 0, y2: height }));
  const bars = rows.map((r) => {
    const height = lane * r.points.length + 5;
    const marks = r.points.map((p, i) => {
      const y = 2.5 + lane * (i + 0.5), link = svg("a", { href: "#cell-" + p.cell, class: "s" + report.doc.series[report.doc.cells.series[p.cell]].look, "aria-label": labelOf(p.cell) + ": " + p.line });
      if (p.low > 0) link.append(svg("line", { x1: at(p.low), x2: at(p.high), y1: y, y2: y }));
      const mark = svg("svg", { x: at(p.median), y, overflow: "visible", "aria-hidden": "true" }, shapeAt(shapeOf(report.doc.cells.series[p.cell]), 0, 0, 2.8));
      link.append(mark, svg("title", {}, labelOf(p.cell) + ": " + p.line));
      return link;
    });
    const bar = svg("svg", { class: "bar", role: "group", "aria-label": r.load }, ...grid(height), ...marks);
    bar.style.height = height + "px";
    return el("div", { class: "bar-row" }, el("span", { class: "bar-label" }, r.load), bar);
  });
  const axis = svg("svg", { class: "bar", "aria-hidden": "true" }, ...ticks.map((v) => { const t = svg("text", { x: at(v), y: 14 }); t.textContent = number(v, unit); return t; }));
  return el("figure", { class: "winners" }, el("figcaption", {}, `${rankingTitles[metric] || metric} with 95% intervals, ${report.metrics.get(metric).better || "higher"} is better`),
    el("ul", { class: "legend plain" }, series.map((s) => el("li", {}, key(s, [], shapeOf(s)), seriesName(s)))),
    ...bars, drawn.length < loads.length ? el("p", { class: "note" }, `and ${count(loads.length - drawn.length, "more load")} in the table`) : "", el("div", { class: "bar-row ticks" }, el("span", { class: "bar-label" }), axis));
}

// rankingFigure has a row for each load and set, and a column for each transport, those that are best
// most often first. Of more rows than fit it has those of the last set first.
function rankingFigure(rankings) {
  const d = report.doc, places = new Map(), all = visibleLoads(rankings);
  for (const l of all) l.cells.forEach((c, i) => {
    const s = d.cells.series[c.cell];
    places.set(s, [...(places.get(s) || []), i]);
  });
  if (!all.length) return null;
  const sets = new Set(all.map((l) => l.set)), loads = [...new Set(all.map((l) => l.load))], metric = rankings[0].metric;
  all.sort((a, b) => loads.indexOf(a.load) - loads.indexOf(b.load) || b.set - a.set);
  const mean = (s) => places.get(s).reduce((a, v) => a + v, 0) / places.get(s).length;
  const columns = [...places.keys()].sort((a, b) => mean(a) - mean(b)), folds = all.length > rowsInShort, last = Math.max(...sets);
  const rows = folds && !allRows ? all.filter((l) => l.set === last).slice(0, rowsInShort) : all;
  const cell = (l, s) => {
    const at = l.cells.findIndex((c) => d.cells.series[c.cell] === s);
    if (at < 0) return el("td", { class: "right quiet" }, "-");
    const { cell, group, again } = l.cells[at], m = metricOf(cell, metric), about = [labelOf(cell), m.line, d.cells.states[cell]];
    return el("td", { class: "right" + (at === 0 ? " first" : "") + (again ? " quiet" : "") }, el("a", { href: "#cell-" + cell, title: about.filter(Boolean).join("; ") }, m.text.replace(" op/s", "")),
      el("sup", { title: "cells of a row with a letter in common do not differ significantly; ? has too few repeats, or windows in the same states of the machine" }, group || "?"),
      again ? null : el("span", { class: "limit" }, markOf(cell), " ", d.cells.limit[cell] || "\u00a0"));
  };
  const caption = `Medians of ${rankingTitles[metric] || metric}${metric === "throughput" ? " in op/s" : ""}, the best of each row bold. Transports of a row with a letter in common do not differ significantly. Below, as a multiple of what the bare medium needs for the same load (1 x is the limit).`;
  return el("div", {}, el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Ranking" },
    el("table", { class: "ranking" }, el("caption", {}, caption),
      el("thead", {}, el("tr", {}, el("th", { scope: "col" }, "load"), d.sets.length > 1 ? el("th", { scope: "col" }, "set") : null, columns.map((s) => el("th", { scope: "col", class: "right" }, swatch(s), " ", d.series[s].transport)))),
      el("tbody", {}, rows.map((l) => el("tr", {}, el("th", { scope: "row" }, l.load, l.cells.some((c) => c.again) ? el("span", { class: "limit" }, "grey: the same cells as above") : l.of ? el("span", { class: "limit" }, l.of) : null), d.sets.length > 1 ? el("td", {}, d.sets[l.set].name) : null, columns.map((s) => cell(l, s))))))),
    folds ? el("button", { type: "button", class: "more-loads", onclick: () => { allRows = !allRows; drawAnswers(); } }, allRows ? "fewer rows" : sets.size > 1 ? `all ${count(loads.length, "load")} of ${sets.size} sets` : `all ${count(loads.length, "load")}`) : null);
}

// markOf marks a figure that must not be used, or that has a warning.
function markOf(cell) {
  const c = report.doc.cells;
  if (failed(cell)) return el("span", { class: "mark error", title: "failed: do not use" }, "failed");
  return c.warnings[cell] ? el("span", { class: "mark warning", title: count(c.warnings[cell], "warning") }, "!") : null;
}

// trustList says in a few lines what stands behind the figures.
function trustList(shown) {
  const c = report.doc.cells, of = (test) => shownCells.filter(test).length;
  const measured = of((i) => c.status[i] === "measured"), bad = of(failed), warned = of((i) => !failed(i) && c.warnings[i] > 0);
  const repeats = shownCells.map((i) => c.repeats.throughput[i]?.length || 0).filter((n) => n > 0);
  const few = Math.min(...repeats), many = Math.max(...repeats), states = shownCells.some((i) => c.states[i]);
  const margins = [...new Set(shown.map((r) => r.lead))].reverse(); // that of the newest set first
  const led = margins.map((lead) => {
    const of = shown.filter((r) => r.lead === lead), ranked = visibleLoads(of);
    const sets = margins.length > 1 ? " of " + listed([...new Set(ranked.map((l) => report.doc.sets[l.set].name))].reverse()) : "";
    return ranked.length ? [el("strong", {}, `${ranked.filter(leads).length} of ${count(ranked.length, "load")}`), `${sets} with a clear best: it leads all others by more than ${lead}`] : null;
  });
  const lines = [
    [el("strong", { class: bad ? "error" : null }, `${measured - bad} of ${count(shownCells.length, "cell")} usable`), bad ? `, ${count(bad, "failed cell")} must not be used` : "", warned ? `, ${warned} with ` : "", warned ? el("a", { href: "#trust" }, "warnings") : ""],
    repeats.length ? [el("strong", {}, few === many ? count(few, "repeat") : `${few} to ${many} repeats`), ` of each${few < 5 ? ", too few to tell most differences apart" : ""}${states ? "; the machine changed between states, which comparisons take into account" : ""}`] : null,
    ...led,
  ];
  return el("ul", { class: "trust-list" }, lines.filter(Boolean).map((l) => el("li", {}, l.filter(Boolean))));
}

// changesInShort counts the verdicts of each comparison of shown sets over the visible cells.
function changesInShort() {
  const verdicts = (list) => ["WORSE", "BETTER", "SAME", "AMBIGUOUS", "INCOMPARABLE"].map((v) => [v, list.filter((c) => c.verdict === v).length]).filter(([, n]) => n)
    .flatMap(([v, n], i) => [i ? ", " : "", el("span", { class: "verdict " + v.toLowerCase() }, `${n} ${v}`)]);
  const line = (x) => {
    if (x.refused) return [x.sides + ": ", el("span", { class: "warning" }, "not compared: "), x.refused];
    const shown = (x.changes || []).filter((c) => allVisible(c.cells)), over = shown.filter((c) => c.over), cells = shown.filter((c) => !c.over);
    if (!shown.length) return null;
    return [x.sides + ": ", ...(over.length ? [...verdicts(over), " of transports over all loads; "] : []), ...verdicts(cells), ` of ${count(cells.length, "comparison")} (`, el("a", { href: "#changes" }, "each change"), ")"];
  };
  const lines = report.doc.diffs.filter(comparesShown).map(line).filter(Boolean);
  return lines.length ? [el("h3", {}, "What changed"), el("ul", { class: "trust-list changed" }, lines.map((l) => el("li", {}, l)))] : [];
}
