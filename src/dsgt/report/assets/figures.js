"use strict";
// What the pages' figures have in common: the colours of the style sheet, axes, and how Plotly is called.
const Figures = (() => {
  // Plotly reads a few HTML tags in its texts; the names of methods are not to be read as such.
  const plain = (text) => text.replaceAll("&", "&amp;").replaceAll("<", "&lt;");

  // The colours are those of the style sheet, as they are now: light or dark.
  const probe = document.body.appendChild(document.createElement("i"));
  probe.hidden = true;
  function colour(name, alpha = 1) {
    probe.style.color = `var(--${name})`;
    const [r, g, b] = getComputedStyle(probe).color.match(/[\d.]+/g);
    return `rgba(${r}, ${g}, ${b}, ${alpha})`;
  }

  // Below this part of the largest value nodes agree, and a logarithm shows only rounding; of zero it shows nothing.
  const agreed = 1e-6;
  const visible = (logarithm, top) => (v) => (v === null || (logarithm && v <= agreed * top) ? null : v);

  // Dashes as SVG has them, for Plotly.
  const pattern = (dashes) => (dashes ? dashes.split(" ").map((v) => `${v}px`).join() : "solid");

  // The key of a line, as in the tables of a report.
  function swatch({ colour: hue, dash }) {
    const made = document.createElement("template");
    made.innerHTML = '<svg class="swatch" viewBox="0 0 36 10" aria-hidden="true"><line x1="0" y1="5" x2="36" y2="5"/></svg>';
    const key = made.content.firstChild;
    key.style.color = `var(--c-${hue})`;
    key.firstChild.setAttribute("stroke-dasharray", dash || "none");
    return key;
  }

  function axis(title, more) {
    return {
      title: { text: title, standoff: 8 }, automargin: true, gridcolor: colour("rule"), linecolor: colour("rule"),
      zeroline: false, tickfont: { color: colour("soft") }, ...more,
    };
  }

  function layout(x, y, more) {
    return {
      margin: { l: 52, r: 12, t: 10, b: 40 }, paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
      font: { family: "system-ui, sans-serif", size: 12, color: colour("ink") }, showlegend: false,
      hoverlabel: { bgcolor: colour("card"), bordercolor: colour("rule"), font: { color: colour("ink") } },
      // A finger that scrolls the page must not zoom a figure.
      dragmode: matchMedia("(pointer: coarse)").matches ? false : "zoom",
      xaxis: x, yaxis: y, ...more,
    };
  }

  function draw(id, traces, where) {
    const box = document.getElementById(id);
    const size = { width: box.clientWidth, height: box.clientHeight };
    Plotly.react(box, traces, { ...where, ...size }, { displayModeBar: false, doubleClick: "reset" });
  }

  // Round numbers at even steps, for an axis on which a logarithm is almost a line.
  function even(low, high) {
    const unit = 10 ** Math.floor(Math.log10((high - low) / 4));
    const step = [1, 2, 5, 10].map((d) => d * unit).find((d) => d >= (high - low) / 4);
    const first = Math.floor(low / step);
    const count = Math.ceil(high / step) - first + 1;
    const tickvals = Array.from({ length: count }, (_, k) => (first + k) * step).filter((v) => v > 0);
    return { tickvals, ticktext: tickvals.map((v) => String(Number(v.toPrecision(8)))) };
  }

  // Shares in per cent, with as many digits as tell two lines of the grid apart.
  function percent(values) {
    const span = Math.max(...values) - Math.min(...values);
    return span > 0.06 ? ".0%" : span > 0.006 ? ".1%" : ".2%";
  }

  // Round numbers on a logarithmic axis, few enough to be read.
  function logarithmic(values) {
    const [low, high] = [Math.min(...values), Math.max(...values)].map(Math.log10);
    const span = high - low;
    if (span > 1e-9 && span < 0.3) return { type: "log", ...even(10 ** low, 10 ** high) };
    const many = [1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 7, 8, 9];
    const digits = span > 3 ? [1] : span > 0.6 || span <= 1e-9 ? [1, 2, 5] : many;
    const powers = Array.from({ length: Math.ceil(high) - Math.floor(low) + 3 }, (_, k) => Math.floor(low) - 1 + k);
    const every = Math.ceil(span / 6);
    const ticks = powers.filter((p) => digits.length > 1 || p % every === 0).flatMap((p) => digits.map((d) => d * 10 ** p));
    return { type: "log", ...(values.length ? { tickvals: ticks, ticktext: ticks.map((v) => String(Number(v.toPrecision(3)))) } : {}) };
  }

  return { plain, colour, axis, layout, draw, logarithmic, percent, visible, pattern, swatch };
})();
