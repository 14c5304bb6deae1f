// What the daemons of each rank did in their loops.

function loopsOf(loops) {
  const writes = loops.flatMap((l) => (l.writes || []).map((w) => ({ rank: l.rank, ...w })));
  return [loopEvents(loops), loopPhases(loops), loopTimes(loops), writes.length ? loopWrites(writes) : null].filter(Boolean);
}

const rankColumn = { name: "rank", text: (r) => String(r.rank), key: (r) => r.rank };

function loopEvents(loops) {
  const names = report.doc.loop_events.filter((name) => loops.some((l) => name in l.per_loop));
  return table("Events per iteration of the daemons' loop", [rankColumn, { name: "daemons", right: true, text: (l) => String(l.daemons) },
    { name: "loops/s", right: true, text: (l) => short(l.per_second, "op/s") }, ...names.map((name) => ({ name: name.replaceAll("_", " "), right: true, text: (l) => (name in l.per_loop ? digits(l.per_loop[name]) : "-") })),
    { name: "loops/req", right: true, text: (l) => (l.loops_per_request ? digits(l.loops_per_request) : "-") }], loops);
}

function loopPhases(loops) {
  const rows = loops.flatMap((l) => report.doc.loop_phases.filter((name) => l.phases[name]?.samples).map((name) => ({ rank: l.rank, name, ...l.phases[name] })));
  if (!rows.length) return el("p", { class: "note" }, "No iteration was timed.");
  return table("Phases of sampled iterations", [rankColumn, { name: "phase", text: (p) => p.name, key: (p) => p.name },
    ...["mean", "p50", "p90", "p99", "max"].map((of) => ({ name: of, right: true, text: (p) => number(p[of + "_ns"], "ns"), key: (p) => p[of + "_ns"] })),
    { name: "samples", right: true, text: (p) => String(p.samples) }], rows);
}

// loopTimes is the histogram of the time of an iteration, with a bar for each rank.
function loopTimes(loops) {
  const timed = loops.filter((l) => l.times?.some((b) => b.count));
  if (!timed.length) return null;
  const share = (l, i) => l.times[i].count / l.times.reduce((sum, b) => sum + b.count, 0);
  const name = (i) => { const b = timed[0].times; return b[i].at_most_ns ? "to " + roundTime(b[i].at_most_ns) : "over " + roundTime(b[i - 1].at_most_ns); };
  return table("Sampled iterations by their time", [{ name: "time", text: name }, ...timed.flatMap((l) => [
    { name: "rank " + l.rank, right: true, text: (i) => String(l.times[i].count) },
    { name: "share", right: true, text: (i) => digits(100 * share(l, i)) + "%" }, { name: "", node: (i) => shareBar(share(l, i)) }])], timed[0].times.map((_, i) => i));
}

function shareBar(share) {
  return svg("svg", { class: "share", "aria-hidden": "true" }, svg("rect", { class: "under", width: 100 * share + "%", y: 3, height: 10 }));
}

function roundTime(ns) { return ns >= 1000 ? ns / 1000 + " us" : ns + " ns"; }

// loopWrites has the batches of each window. Batches are counted by powers of two, so a percentile is a range.
function loopWrites(rows) {
  const quantile = (w, q) => {
    const sizes = w.sizes || [], total = sizes.reduce((sum, b) => sum + b.count, 0);
    let seen = 0;
    const at = sizes.find((b) => (seen += b.count) > 0 && seen >= q * total)?.at_most;
    return at === undefined ? "-" : at <= 2 ? String(at) : `${at / 2 + 1}-${at}`;
  };
  return table("Batches of the transport in each window; mean to p99: messages per batch", [rankColumn, { name: "window", text: (w) => String(w.window), key: (w) => w.window },
    { name: "batches", right: true, text: (w) => String(w.batches) }, { name: "messages", right: true, text: (w) => String(w.messages) }, { name: "mean", right: true, text: (w) => (w.batches ? digits(w.messages / w.batches) : "-") },
    ...[["p50", 0.5], ["p90", 0.9], ["p99", 0.99]].map(([name, q]) => ({ name, right: true, text: (w) => quantile(w, q) })),
    { name: "doorbells", right: true, text: (w) => String(w.doorbells) }, { name: "credit only", right: true, text: (w) => String(w.credit_only) }], rows);
}
