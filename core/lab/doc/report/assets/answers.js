// The first screen: which transport for which load, how far from the limit, how far to trust it.

const rankingTitles = { throughput: "throughput", latency_p50: "service time p50", latency_p99: "service time p99" };
const rowsInShort = 8;
let rankedBy = "throughput", allRows = false;

function drawAnswers() {
  const host = document.getElementById("answers-figure"), d = report.doc;
  const metrics = [...new Set(d.rankings.map((r) => r.metric))];
  if (!metrics.includes(rankedBy)) rankedBy = metrics[0];
  const shown = d.rankings.filter((r) => r.metric === rankedBy && filter.sets.has(r.set));
  const figure = rankingFigure(shown);
  host.replaceChildren(
    el("div", { class: "question" }, el("h3", {}, "Which transport for which load, and how far from the limit"),
      metrics.length > 1 ? el("label", { class: "controls" }, "by ", el("select", { id: "ranked-by", onchange: (e) => {
        rankedBy = e.target.value;
        drawAnswers();
        document.getElementById("ranked-by").focus();
      } }, metrics.map((m) => el("option", { value: m, selected: m === rankedBy }, rankingTitles[m] || m)))) : null),
    figure || el("p", { class: "note" }, "No load shown has two transports to compare."),
    ...(d.unranked || []).map((t) => el("p", { class: "note" }, t)),
    ...changesInShort(),
    el("h3", {}, "How far to trust it"), trustList(shown));
}

// rankingFigure has a row for each load and set, and a column for each transport, those that are best
// most often first. Of more rows than fit it has those of the last set first.
function rankingFigure(rankings) {
  const d = report.doc, places = new Map(), all = [];
  for (const r of rankings) for (const l of r.loads) {
    const cells = l.cells.filter((c) => visible(c.cell));
    if (cells.length < 2) continue;
    all.push({ ...l, cells, set: r.set });
    cells.forEach((c, i) => {
      const s = d.cells.series[c.cell];
      places.set(s, [...(places.get(s) || []), i]);
    });
  }
  if (!all.length) return null;
  const sets = new Set(all.map((l) => l.set)), loads = [...new Set(all.map((l) => l.load))], metric = rankings[0].metric;
  all.sort((a, b) => loads.indexOf(a.load) - loads.indexOf(b.load) || a.set - b.set);
  const mean = (s) => places.get(s).reduce((a, v) => a + v, 0) / places.get(s).length;
  const columns = [...places.keys()].sort((a, b) => mean(a) - mean(b)), folds = all.length > rowsInShort, last = Math.max(...sets);
  const rows = folds && !allRows ? all.filter((l) => l.set === last).slice(0, rowsInShort) : all;
  const cell = (l, s) => {
    const at = l.cells.findIndex((c) => d.cells.series[c.cell] === s);
    if (at < 0) return el("td", { class: "right quiet" }, "-");
    const { cell, group } = l.cells[at], m = metricOf(cell, metric), about = [labelOf(cell), m.line, d.cells.states[cell]];
    return el("td", { class: at === 0 ? "right first" : "right" }, el("a", { href: "#cell-" + cell, title: about.filter(Boolean).join("; ") }, m.text.replace(" op/s", "")),
      el("sup", { title: "cells of a row with a letter in common cannot be told apart" }, group),
      el("span", { class: "limit" }, markOf(cell), " ", d.cells.limit[cell] || "\u00a0"));
  };
  const caption = `Medians of ${rankingTitles[metric] || metric}${metric === "throughput" ? " in op/s" : ""}, the best of each row bold. Transports of a row with a letter in common cannot be told apart. Below, as a multiple of what the bare medium needs for the same load (1 x is the limit).`;
  return el("div", {}, el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Ranking" },
    el("table", { class: "ranking" }, el("caption", {}, caption),
      el("thead", {}, el("tr", {}, el("th", { scope: "col" }, "load"), d.sets.length > 1 ? el("th", { scope: "col" }, "set") : null, columns.map((s) => el("th", { scope: "col", class: "right" }, swatch(s), " ", d.series[s].transport)))),
      el("tbody", {}, rows.map((l) => el("tr", {}, el("th", { scope: "row" }, l.load, l.of ? el("span", { class: "limit" }, l.of) : null), d.sets.length > 1 ? el("td", {}, d.sets[l.set].name) : null, columns.map((s) => cell(l, s))))))),
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
  const undecided = shown.reduce((n, r) => n + r.loads.filter((l) => !l.led).length, 0), loads = shown.reduce((n, r) => n + r.loads.length, 0);
  const lines = [
    [el("strong", { class: bad ? "error" : null }, `${measured - bad} of ${count(shownCells.length, "cell")} usable`), bad ? `, ${count(bad, "failed cell")} must not be used` : "", warned ? `, ${warned} with ` : "", warned ? el("a", { href: "#trust" }, "warnings") : ""],
    repeats.length ? [el("strong", {}, few === many ? count(few, "repeat") : `${few} to ${many} repeats`), ` of each${few < 5 ? ", too few to tell most differences apart" : ""}${states ? "; the machine changed between states, which comparisons take into account" : ""}`] : null,
    loads ? [el("strong", {}, `${loads - undecided} of ${count(loads, "load")}`), ` with a clear best: it leads all others by more than ${shown[0].lead}`] : null,
  ];
  return el("ul", { class: "trust-list" }, lines.filter(Boolean).map((l) => el("li", {}, l.filter(Boolean))));
}

// changesInShort counts the verdicts of each comparison with the first set, over all its cells.
function changesInShort() {
  const d = report.doc;
  if (!d.diffs.length) return [];
  const line = (x) => {
    if (x.refused) return [x.sides + ": ", el("span", { class: "warning" }, "not compared: "), x.refused];
    const list = x.verdicts || [], all = list.reduce((n, v) => n + v.count, 0);
    return [x.sides + ": ", ...list.flatMap((v, i) => [i ? ", " : "", el("span", { class: "verdict " + v.verdict.toLowerCase() }, `${v.count} ${v.verdict}`)]), ` of ${count(all, "comparison")} (`, el("a", { href: "#changes" }, "each change"), ")"];
  };
  return [el("h3", {}, "What changed"), el("ul", { class: "trust-list changed" }, d.diffs.map((x) => el("li", {}, line(x))))];
}
