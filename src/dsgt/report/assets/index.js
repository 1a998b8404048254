// Two comparisons side by side. Whatever was written by somebody is set as text.
(() => {
  const { plain, colour, axis, layout, draw, logarithmic, percent, visible, pattern, swatch } = Figures;
  const data = JSON.parse(document.getElementById("data").textContent);
  const at = (id) => document.getElementById(id);
  const root = document.documentElement;
  if (!at("left")) {
    root.dataset.ready = "";
    return;
  }
  const sides = ["left", "right"];
  const chosen = () => sides.map((side) => data.comparisons[at(side).value]);

  function options(select, pairs, wish) {
    const before = select.value || wish;
    select.replaceChildren(...pairs.map(([key, text]) => new Option(text, key)));
    if (pairs.some(([key]) => key === before)) select.value = before;
  }

  // On the left methods look as in their own report; so they do on the right, but who is on the left too looks as there,
  // and who would look like another takes what is free.
  function looks([left, right]) {
    const found = new Map(left.methods.map((m) => [m.name, m]));
    const taken = new Set(left.methods.map((m) => m.look));
    const take = (m, look) => { found.set(m.name, look); taken.add(look.look); };
    const others = right.methods.filter((m) => !found.has(m.name));
    const alone = others.filter((m) => m.reference || !taken.has(m.look));
    alone.forEach((m) => take(m, m));
    others.filter((m) => !alone.includes(m)).forEach((m) => take(m, data.looks.find((l) => !taken.has(l.look))));
    return found;
  }

  function traces(one, key, against, look) {
    return one.methods.map((method, i) => {
      const { x, y } = one.curves.lines[i];
      // Not everything is measured as often as the loss.
      const seen = [...y[key].mean.keys()].filter((k) => y[key].mean[k] !== null);
      const { colour: hue, dash } = look.get(method.name);
      return {
        x: seen.map((k) => x[against][k]), y: seen.map((k) => y[key].mean[k]), name: plain(method.title || method.name),
        mode: "lines", line: { color: colour(`c-${hue}`), dash: pattern(dash), width: 2 }, hovertemplate: "%{y:.4~g}",
      };
    }).filter((_, i) => key !== "consensus" || !one.methods[i].reference);
  }

  function row(kind, texts, best = []) {
    const made = document.createElement("tr");
    texts.forEach((text, k) => {
      const cell = made.appendChild(document.createElement(kind === "th" || k === 0 ? "th" : "td"));
      if (cell.tagName === "TH") cell.scope = kind === "th" ? "col" : "row";
      if (best.includes(k)) cell.className = "best";
      cell.textContent = text;
    });
    return made;
  }

  function results(one, look) {
    const head = document.createElement("thead");
    head.append(row("th", ["method", ...one.columns.map((c) => c.heading)]));
    const body = document.createElement("tbody");
    one.methods.forEach((method, i) => {
      const best = one.columns.flatMap((c, k) => (c.best.includes(i) ? [k + 1] : []));
      const made = row("td", [method.title || method.name, ...one.columns.map((c) => c.cells[i])], best);
      made.firstChild.prepend(swatch(look.get(method.name)));
      body.append(made);
    });
    return [head, body];
  }

  function show() {
    const two = chosen();
    const shared = (name) => Object.entries(name(two[0])).filter(([key]) => key in name(two[1]));
    options(at("figure"), shared((one) => Object.fromEntries(one.curves.panels.map((p) => [p.key, p.title]))), "loss");
    options(at("against"), shared((one) => one.curves.axes), two[0].axis);
    const [key, against] = [at("figure").value, at("against").value];
    const look = looks(two);
    const drawn = two.map((one) => traces(one, key, against, look));
    const log = two[0].curves.panels.find((p) => p.key === key)?.log;
    const kept = visible(log, Math.max(...drawn.flat().flatMap((t) => t.y)));
    drawn.flat().forEach((t) => { t.y = t.y.map(kept); });
    const seen = drawn.flat().flatMap((t) => t.y).filter((v) => v !== null);
    const [low, high] = seen.length ? [Math.min(...seen), Math.max(...seen)] : [1, 1];
    const margin = log ? (high / low) ** 0.05 : 0.05 * (high - low || 1);
    const range = log ? [Math.log10(low / margin), Math.log10(high * margin)] : [low - margin, high + margin];
    const furthest = Math.max(0, ...drawn.flat().flatMap((t) => t.x));
    const y = { ...(log ? logarithmic(seen) : {}), range, tickformat: key.includes("accuracy") ? percent(seen) : "" };
    two.forEach((one, k) => {
      const side = sides[k];
      at(`${side}-name`).textContent = data.names[at(side).value];
      at(`${side}-verdict`).textContent = one.verdict.join(" ");
      at(`${side}-table`).replaceChildren(...results(one, look));
      const bare = drawn[k].every((t) => t.y.filter((v) => v !== null).length < 2);
      at(`${side}-plot`).hidden = bare;
      at(`${side}-bare`).hidden = !bare;
      if (bare) return;
      draw(`${side}-plot`, drawn[k], layout(
        axis(one.curves.axes[against], { range: [0, furthest] }), axis("", y), { hovermode: "x unified" },
      ));
    });
    const names = [...new Set(two.flatMap((one) => Object.keys(one.settings)))];
    const apart = names.filter((name) => two[0].settings[name] !== two[1].settings[name]);
    const said = apart.map((name) => `${name} ${two[0].settings[name] ?? "–"} and ${two[1].settings[name] ?? "–"}`);
    at("differ").textContent = said.length ? `They differ in ${said.join("; ")}.` : "Their settings are the same.";
  }

  ["left", "right", "figure", "against"].forEach((id) => at(id).addEventListener("change", show));
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", show);
  let waiting;
  addEventListener("resize", () => {
    cancelAnimationFrame(waiting);
    waiting = requestAnimationFrame(show);
  });
  show();
  root.dataset.ready = "";
})();
