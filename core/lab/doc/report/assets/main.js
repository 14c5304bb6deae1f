// Start, navigation between overview and cells, and updates of a live page.

let scrolled = 0;

function drawAll() {
  writeAddress();
  applyFilter();
  drawAnswers();
  drawStrip();
  drawCurves();
  drawScaling();
  drawReplays();
  drawTables();
  return drawSpectrum();
}

async function begin() {
  await loadDocument();
  restore(chosenInAddress());
  await draw(false);
}

async function draw(again) {
  drawFilters(drawAll);
  drawHeatControls();
  if (!report.metrics.has(heatMetric)) heatMetric = "throughput";
  if (heatMetric !== "throughput") paintHeat();
  document.body.classList.remove("no-script");
  await drawAll();
  await route(again);
}

async function route(again) {
  const cell = /^#cell-(\d+)$/.exec(location.hash);
  if (cell && Number(cell[1]) < report.doc.cells.label.length) {
    if (document.getElementById("page").hidden) scrolled = window.scrollY;
    return openCell(Number(cell[1]), again === true);
  }
  if (!document.getElementById("page").hidden) {
    show(false);
    document.title = report.doc.title + " · transportbench";
    if (location.hash === "#back" || location.hash === "") window.scrollTo(0, scrolled);
    else document.querySelector(location.hash)?.scrollIntoView();
  }
}

function redrawCurves() {
  if (!document.getElementById("main").hidden) {
    drawCurves();
    drawScaling();
    drawReplays();
    drawSpectrum();
  } else for (const f of document.querySelectorAll("#page .later")) {
    f.replaceChildren();
    f.dispatchEvent(new Event("draw"));
  }
}

let width = 0, resizing = 0;
function listenToWindow() {
  width = window.innerWidth;
  window.addEventListener("hashchange", () => route());
  window.addEventListener("resize", () => {
    if (window.innerWidth === width) return;
    width = window.innerWidth;
    clearTimeout(resizing);
    resizing = setTimeout(redrawCurves, 100);
  });
  for (const query of ["(prefers-color-scheme: dark)", "print"]) matchMedia(query).addEventListener("change", recolor);
  window.addEventListener("keydown", (e) => {
    if (e.key === "Escape" && !document.getElementById("page").hidden) location.hash = "back";
  });
}

function duration(seconds) {
  return seconds < 90 ? `${Math.round(seconds)} s` : `${Math.round(seconds / 60)} min`;
}

// follow updates the page when the server's page changes, and tells how far a sweep is.
function follow() {
  const state = document.getElementById("live"), pause = document.getElementById("pause");
  let waiting = false, busy = false, stopped = false, sweep = "";
  // An update may end after the server has stopped.
  const tell = (text) => {
    if (stopped) text = "the server was stopped; this is its last page";
    state.textContent = sweep ? `${sweep}; ${text}` : text;
  };
  const update = async () => {
    if (busy || pause.getAttribute("aria-pressed") === "true") {
      waiting = true;
      return;
    }
    [busy, waiting] = [true, false];
    try {
      const page = new DOMParser().parseFromString(await (await fetch("/")).text(), "text/html");
      const y = window.scrollY, focus = document.activeElement?.id;
      for (const old of document.querySelectorAll("script[type='text/plain']")) old.remove();
      document.body.append(...page.querySelectorAll("script[type='text/plain']"));
      for (const id of ["handoffs", "heat", "phases", "changes", "trust"]) document.getElementById(id).replaceWith(page.getElementById(id));
      document.querySelector(".top .meta").replaceWith(page.querySelector(".top .meta"));
      const chosen = choices(), open = /^#cell-(\d+)$/.exec(location.hash), label = open && labelOf(Number(open[1]));
      await loadDocument();
      restore(chosen);
      const cell = report.doc.cells.label.indexOf(label);
      if (cell >= 0) history.replaceState(null, "", "#cell-" + cell);
      await draw(true);
      window.scrollTo(0, y);
      if (focus) document.getElementById(focus)?.focus({ preventScroll: true });
      tell(`live, ${count(report.doc.cells.label.length, "cell")} at ${new Date().toLocaleTimeString()}`);
    } catch (e) {
      tell("the server did not answer: " + e.message);
    }
    busy = false;
    if (waiting) update();
  };
  pause.addEventListener("click", () => {
    const paused = pause.getAttribute("aria-pressed") !== "true";
    pause.setAttribute("aria-pressed", String(paused));
    if (!paused && waiting) update();
  });
  const events = new EventSource("/events");
  events.addEventListener("changed", update);
  events.addEventListener("progress", (e) => {
    const p = JSON.parse(e.data), windows = `${p.done} of ${count(p.planned, "window")}`;
    if (!p.ended) sweep = `sweep: ${windows}` + (p.left_s ? `, about ${duration(p.left_s)} left` : "");
    else sweep = p.done === p.planned ? `the sweep has ended with all ${count(p.planned, "window")}` : `the sweep has ended with ${windows}`;
    tell("live");
  });
  events.addEventListener("gone", () => tell("the results were deleted; this is their last page"));
  events.addEventListener("stopped", () => {
    events.close();
    stopped = true;
    tell();
  });
  events.addEventListener("error", () => tell("the server is gone; this is its last page"));
}

listenToWindow();
begin().then(() => {
  document.documentElement.dataset.ready = "yes";
  if (report.doc.live) follow();
}).catch((e) => {
  document.getElementById("main").prepend(el("p", { class: "notice" }, "Cannot show this page: " + e.message + ". It needs a browser of 2023 or later."));
  throw e;
});
