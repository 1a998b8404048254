"use strict";
// The figures of the page. Everything that is drawn is in one JSON element; every switch changes `state` and draws anew.
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const root = document.documentElement;
  const all = (selector) => [...document.querySelectorAll(selector)];
  const checked = document.querySelector("input[name=axis]:checked");
  const state = { axis: checked ? checked.value : "round", log: true, hidden: new Set() };
  const symbols = ["circle", "square", "diamond", "triangle-up", "triangle-down", "pentagon"];
  const hues = 6;

  const { plain, colour, axis, layout, draw, logarithmic, percent, visible, pattern } = Figures;
  const names = data.methods.map((m) => plain(m.title));
  const brief = (i) => plain([...data.methods[i].title].slice(0, 18).join(""));
  const shown = () => data.methods.map((_, i) => i).filter((i) => !state.hidden.has(i));

  const own = (i, alpha) => colour(`c-${data.methods[i].colour}`, alpha);
  const symbol = (i) => (data.methods[i].look === "reference" ? "x-thin" : symbols[data.methods[i].look % hues]);

  function panel({ key, log }) {
    const logarithm = log && state.log;
    const curve = (i) => data.curves.lines[i].y[key];
    const drawn = shown().filter((i) => key !== "consensus" || data.methods[i].look !== "reference");
    const top = Math.max(...drawn.flatMap((i) => curve(i).mean));
    const kept = visible(logarithm, top);
    // Lines that coincide are seen both: the upper is the narrower.
    const width = (i) => 1.8 + Math.min(2, 0.7 * (data.methods.length - 1 - i));
    const traces = drawn.flatMap((i) => {
      // Not everything is measured as often as the loss.
      const seen = [...curve(i).mean.keys()].filter((k) => curve(i).mean[k] !== null);
      const those = (values) => values && seen.map((k) => values[k]);
      const x = those(data.curves.lines[i].x[state.axis]);
      const [mean, low, high] = [curve(i).mean, curve(i).low, curve(i).high].map(those);
      const line = {
        x, y: mean.map(kept), name: names[i], mode: mean.length > 1 ? "lines" : "markers",
        line: { color: own(i), width: width(i), dash: pattern(data.methods[i].dash) }, hovertemplate: "%{y:.4~g}",
      };
      if (!low) return [line];
      const at = [...mean.keys()].filter((k) => kept(low[k]) !== null && kept(high[k]) !== null);
      const back = [...at].reverse();
      const band = {
        x: [...at, ...back].map((k) => x[k]), y: [...at.map((k) => high[k]), ...back.map((k) => low[k])],
        fill: "toself", fillcolor: own(i, 0.16), line: { width: 0 }, mode: "lines", hoverinfo: "skip",
      };
      return [band, line];
    });
    const share = key.includes("accuracy");
    const unit = data.curves.axes[state.axis];
    const values = traces.flatMap((t) => t.y).filter((v) => v > 0);
    const y = axis("", logarithm ? logarithmic(values) : { rangemode: share ? "normal" : "tozero", tickformat: share ? percent(values) : "" });
    if (share) traces.forEach((t) => { if (t.hovertemplate) t.hovertemplate = "%{y:.1%}"; });
    // At the foot: when each method's slowest gradients ended.
    const marks = key === "loss" && state.axis === "virtual_seconds" && data.slowest.length ? drawn : [];
    marks.forEach((i, row) => traces.push({
      x: data.slowest[i], y: data.slowest[i].map(() => 0.02 + 0.035 * row), yaxis: "y2", mode: "markers", hoverinfo: "skip",
      marker: { symbol: "line-ns-open", size: 7, color: own(i), line: { width: 1.5 } },
    }));
    const foot = { yaxis2: { overlaying: "y", range: [0, 1], visible: false, fixedrange: true } };
    draw(`plot-${key}`, traces, layout(axis(unit, { unifiedhovertitle: { text: `%{x:.4~g} ${unit}` } }), y, { hovermode: "x unified", ...(marks.length ? foot : {}) }));
  }

  // Of learning rates so near to each other that their numbers would overlap, only the larger is named.
  function spaced(rates) {
    const room = document.getElementById("plot-grid").clientWidth - 100;
    const place = (v) => (room * Math.log(v / rates.at(-1))) / Math.log(rates[0] / rates.at(-1) || 1);
    return rates.reduce((kept, v) => (kept.length && place(kept.at(-1)) - place(v) < 38 ? kept : [...kept, v]), []);
  }

  // The loss below, and a strip above it where runs that diverged have their crosses, a row for each method.
  function grid() {
    const gone = shown().filter((i) => data.grid[i].diverged.some(Boolean));
    const share = gone.length ? Math.min(0.4, 0.07 * gone.length + 0.03) : 0;
    const ticks = spaced([...new Set(data.grid.flatMap((g) => g.lr))].sort((a, b) => b - a));
    const traces = shown().flatMap((i) => {
      const g = data.grid[i];
      const at = [...g.lr.keys()];
      const cross = at.filter((k) => g.diverged[k]);
      return [
        {
          x: g.lr, y: g.mean, name: names[i], mode: "lines+markers", line: { color: own(i), width: 2, dash: pattern(data.methods[i].dash) },
          marker: { size: 8, symbol: symbol(i), color: own(i), line: { color: own(i), width: symbol(i) === "x-thin" ? 2 : 0 } },
          error_y: {
            visible: g.seeds > 1, type: "data", symmetric: false, color: own(i, 0.6), thickness: 1.5, width: 3,
            array: g.mean.map((m, k) => (m === null ? 0 : g.high[k] - m)),
            arrayminus: g.mean.map((m, k) => (m === null ? 0 : m - g.low[k])),
          },
          hovertemplate: `${names[i]}, lr %{x}: %{y:.4~g}<extra></extra>`,
        },
        g.best === null ? null : {
          x: [g.lr[g.best]], y: [g.mean[g.best]], mode: "markers", hoverinfo: "skip",
          marker: { size: 18, symbol: "circle-open", color: own(i), line: { width: 2.5 } },
        },
        !cross.length ? null : {
          x: cross.map((k) => g.lr[k]), y: cross.map(() => names[i]), yaxis: "y2", mode: "markers",
          marker: { size: 10, symbol: "x", color: own(i) },
          text: cross.map((k) => `${g.diverged[k]} of ${g.seeds}`),
          hovertemplate: `${names[i]}, lr %{x}: %{text} seeds diverged<extra></extra>`,
        },
      ].filter(Boolean);
    });
    const values = shown().flatMap((i) => [...data.grid[i].low, ...data.grid[i].high]).filter((v) => v > 0);
    const x = axis("learning rate", {
      type: "log", tickvals: ticks, ticktext: ticks.map(String), anchor: "y", tickangle: 0,
    });
    const y = axis("", { ...(state.log ? logarithmic(values) : { rangemode: "tozero" }), domain: [0, 1 - share - (share && 0.04)] });
    const strip = {
      yaxis2: axis("", {
        domain: [1 - share, 1], type: "category", ticktext: gone.map((i) => `${brief(i)} diverged`),
        tickvals: gone.map((i) => names[i]), range: [-0.6, gone.length - 0.4], fixedrange: true,
      }),
    };
    draw("plot-grid", traces, layout(x, y, { hovermode: "closest", ...(gone.length ? strip : {}) }));
  }

  function histogram(h, k) {
    const bars = { type: "bar", x: h.bins, y: h.nodes, marker: { color: colour("accent") }, hovertemplate: "%{x}: %{y} nodes<extra></extra>" };
    draw(`plot-held-${k}`, [bars], layout(axis(h.title, { type: "category" }), axis("nodes"), { bargap: 0.15 }));
  }

  function everything() {
    data.curves.panels.filter((p) => !p.bare).forEach(panel);
    if (document.getElementById("plot-grid")) grid();
    data.histograms.forEach(histogram);
  }

  // Switches
  all("input[name=axis]").forEach((input) => input.addEventListener("change", () => { state.axis = input.value; everything(); }));
  document.getElementById("log")?.addEventListener("change", (event) => { state.log = event.target.checked; everything(); });
  all("[data-toggle]").forEach((chip) => chip.addEventListener("click", () => {
    const i = Number(chip.dataset.toggle);
    if (!state.hidden.delete(i)) state.hidden.add(i);
    chip.setAttribute("aria-pressed", String(!state.hidden.has(i)));
    all(`[data-method="${i}"]`).forEach((row) => { row.hidden = state.hidden.has(i); });
    everything();
  }));
  all("input[name=drawing]").forEach((input) => input.addEventListener("change", () => {
    all("[data-drawing]").forEach((figure) => figure.toggleAttribute("data-off", figure.dataset.drawing !== input.value));
  }));

  // Every node's distance from the mean model, on the graph: one scale for all methods and rounds.
  const method = document.getElementById("apart-method");
  if (method) {
    const time = document.getElementById("apart-time");
    const number = (v) => (v === null ? "infinite" : String(Number(v.toPrecision(2))));
    const every = data.apart.filter(Boolean).flatMap((a) => a.values.flat()).filter((v) => v > 0);
    const high = Math.max(...every);
    const low = Math.max(Math.min(...every), high / 1e4);
    const part = (v) => (v === null ? 100 : v > low && high > low ? Math.round((100 * Math.log(v / low)) / Math.log(high / low)) : 0);
    document.getElementById("apart-low").textContent = `${number(low)} or less`;
    document.getElementById("apart-high").textContent = number(high);
    const titles = all("[data-node] title").map((title) => title.textContent);
    const show = () => {
      const { round, values } = data.apart[method.value];
      const k = Number(time.value);
      all("[data-node]").forEach((node, place) => {
        const v = values[k][node.dataset.node];
        node.querySelector("circle").style.fill = `color-mix(in srgb, var(--apart) ${part(v)}%, var(--card))`;
        node.querySelector("title").textContent = `${titles[place]}; ${number(v)} from the mean model`;
      });
      const far = values[k].includes(null) ? values[k].indexOf(null) : values[k].indexOf(Math.max(...values[k]));
      const said = `after round ${round[k]}: node ${far} is farthest, ${number(values[k][far])}`;
      document.getElementById("apart-said").textContent = said;
      time.setAttribute("aria-valuetext", said);
    };
    const choose = () => {
      time.max = data.apart[method.value].round.length - 1;
      time.value = Math.min(time.value, time.max);
      all("[data-drawing]").forEach((figure) => {
        const other = figure.dataset.rule !== data.rules[method.value];
        figure.toggleAttribute("data-off", other);
        const input = document.querySelector(`input[name=drawing][value="${figure.dataset.drawing}"]`);
        if (input) input.checked = !other;
      });
      show();
    };
    method.addEventListener("change", choose);
    time.addEventListener("input", show);
    time.max = data.apart[method.value].round.length - 1;
    time.value = Math.min(2, time.max);
    show();
  }

  // Light and dark: as the system says, until the button is pressed.
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const button = document.getElementById("theme");
  const isDark = () => (root.dataset.theme ? root.dataset.theme === "dark" : dark.matches);
  function theme(name) {
    if (name) root.dataset.theme = name;
    else delete root.dataset.theme;
    button.setAttribute("aria-pressed", String(isDark()));
    everything();
  }
  button.addEventListener("click", () => theme(isDark() ? "light" : "dark"));
  dark.addEventListener("change", () => theme(root.dataset.theme));

  // Paper is white, and narrower than most windows.
  let before;
  addEventListener("beforeprint", () => { before = root.dataset.theme; root.dataset.printing = ""; theme("light"); });
  addEventListener("afterprint", () => { delete root.dataset.printing; theme(before); });

  // What one jumps to is not to end below the bar, however high the methods make it.
  const bar = document.querySelector(".bar");
  new ResizeObserver(() => {
    const covers = getComputedStyle(bar).position === "sticky";
    root.style.setProperty("--bar", `${covers ? bar.offsetHeight : 0}px`);
  }).observe(bar);

  let waiting;
  addEventListener("resize", () => {
    cancelAnimationFrame(waiting);
    waiting = requestAnimationFrame(everything);
  });

  // Copying
  all("[data-copy]").forEach((copy) => copy.addEventListener("click", async () => {
    const code = document.getElementById(copy.dataset.copy);
    try {
      await navigator.clipboard.writeText(code.textContent);
      copy.textContent = "Copied";
    } catch {
      getSelection().selectAllChildren(code);
      copy.textContent = "Selected";
    }
    document.getElementById("said").textContent = copy.textContent;
    setTimeout(() => { copy.textContent = "Copy"; }, 1500);
  }));

  theme(root.dataset.theme);
  root.dataset.ready = "";
})();
