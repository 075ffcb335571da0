"use strict";
// Draws the page out of the data that stands in it. Text from outside is only ever set as text, never as
// markup. What is chosen stands in the address, so that a view can be sent to somebody.
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const main = document.getElementById("main");
  const form = document.getElementById("filters");
  let drawn = null;

  const make = (tag, attributes = {}, ...children) => {
    const element = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
    element.append(...children.filter((child) => child !== null && child !== undefined));
    return element;
  };
  const percent = (value) => (value === null ? "–" : `${(value * 100).toFixed(1)} %`);
  const interval = (low, high) =>
    low === null ? "–" : `${(low * 100).toFixed(1)}–${(high * 100).toFixed(1)} %`;
  const short = (text) => (text === null ? "(none)" : text.replace("sha256:", "").slice(0, 12));
  const nulls = (counts) =>
    Object.entries(counts).map(([type, n]) => `${type} ${n}`).join(", ") || "–";
  const when = (at) => new Date(at / 1000).toISOString().slice(0, 19).replace("T", " ");

  const chosen = () => new URLSearchParams(location.hash.slice(1));
  const address = (changes) => {
    const next = chosen();
    for (const [name, value] of Object.entries(changes)) value ? next.set(name, value) : next.delete(name);
    return `#${next}`;
  };

  const table = (caption, head, rows) => {
    const counts = new Set(["pass rate", "interval", "n", "not applicable", "coverage", "unstable"]);
    const headRow = make("tr", {}, ...head.map((text) =>
      make("th", counts.has(text) ? { scope: "col", class: "n" } : { scope: "col" }, text)));
    const body = rows.map((cells) =>
      make("tr", {}, ...cells.map((cell, column) => {
        if (column === 0) return make("th", { scope: "row" }, cell);
        return make("td", counts.has(head[column]) ? { class: "n" } : {}, cell);
      })));
    const whole = make("table", {}, make("caption", {}, caption), make("thead", {}, headRow),
      make("tbody", {}, ...body));
    return make("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": caption }, whole);
  };

  const result = (row) => {
    const word = row.result === null ? "null" : row.result;
    const text = row.result === null ? `null: ${row.error_type}` : word.replace("_", " ");
    return make("span", { class: `badge ${word}` }, text);
  };

  const figures = (point) => [percent(point.rate), interval(point.low, point.high), String(point.n),
    String(point.na), percent(point.coverage), nulls(point.nulls)];
  const FIGURES = ["pass rate", "interval", "n", "not applicable", "coverage", "nulls"];

  // ---- the overview

  const overview = (choice) => {
    const rows = data.judges.map((judge) => {
      const line = lineOf(judge, choice);
      const segment = line && line.segments.at(-1);
      const point = segment && segment.points.at(-1);
      const link = make("a", { href: address({ judge: judge.judge_id }) }, judge.name || judge.judge_id);
      const state = judge.calibration || "unknown";
      return [link, judge.recipe_id || "–", state, point ? short(point.key) : "–",
        ...(point ? figures(point) : FIGURES.map(() => "–")), String(judge.unstable)];
    });
    main.append(make("h2", {}, "Standards"));
    if (!rows.length) main.append(make("p", {}, "The store has no judgements yet."));
    else main.append(table("Each judge at its newest version",
      ["judge", "recipe", "calibration", "version", ...FIGURES, "unstable"], rows));
  };

  // ---- one judge

  const lineOf = (judge, choice) => {
    const service = choice.get("service") || null;
    const lines = judge.lines.filter((line) => line.service === service);
    const environment = choice.get("environment");
    if (environment) return lines.find((line) => line.environment === environment);
    return lines.find((line) => line.environment === "production") || lines[0];
  };

  const style = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

  // Chart text knows a little markup: nothing that could be one is passed on.
  const plain = (text) => text.replace(/[^\w.-]/g, "");

  // The interval of a segment: one outline for each run of points that have one, with gaps between.
  const band = (points, start) => {
    const x = [], y = [];
    let run = [];
    const close = () => {
      if (!run.length) return;
      const edge = run.length > 1 ? 0 : 0.15; // a lone point has a width too
      const xs = run.length > 1 ? run : [run[0] - edge, run[0] + edge];
      const at = (position) => points[Math.round(position) - start];
      x.push(...xs, ...xs.toReversed(), null);
      y.push(...xs.map((one) => at(one).high * 100), ...xs.toReversed().map((one) => at(one).low * 100), null);
      run = [];
    };
    points.forEach((point, index) => (point.low === null ? close() : run.push(start + index)));
    close();
    return { x, y };
  };

  const traces = (line) => {
    let start = 0;
    const few = line.segments.reduce((sum, segment) => sum + segment.points.length, 0) < 60;
    return line.segments.flatMap((segment, number) => {
      const colour = style(number % 2 ? "--other" : "--one");
      const xs = segment.points.map((_, index) => start + index);
      const outline = band(segment.points, start);
      start += segment.points.length;
      return [
        { ...outline, type: "scatter", mode: "lines", line: { width: 0 }, fill: "toself",
          fillcolor: `${colour}33`, hoverinfo: "skip" },
        { x: xs, y: segment.points.map((point) => (point.rate === null ? null : point.rate * 100)),
          type: "scatter", mode: few ? "lines+markers" : "lines", hoverinfo: "none",
          line: { color: colour, width: 2, dash: segment.cosmetic ? "dash" : "solid" },
          marker: { color: colour, size: 7 } },
      ];
    });
  };

  // Where one segment ends and the next begins, and their numbers where there is room for them.
  const borders = (line) => {
    let start = 0;
    const starts = line.segments.map((segment) => (start += segment.points.length) - segment.points.length);
    return {
      shapes: starts.slice(1).map((at) => ({ type: "line", x0: at - 0.5, x1: at - 0.5, y0: 0, y1: 1,
        yref: "paper", line: { color: style("--soft"), width: 1 } })),
      annotations: starts.length > 8 || starts.length < 2 ? [] : starts.map((at, number) => ({
        x: at - 0.5, y: 1, yref: "paper", xanchor: "left", yanchor: "bottom", showarrow: false,
        text: `segment ${number + 1}` })),
    };
  };

  const layout = (line, points) => {
    const every = Math.ceil(points.length / (innerWidth < 600 ? 4 : 10));
    const marked = points.map((_, index) => index).filter((index) => index % every === 0);
    const axis = { color: style("--soft"), gridcolor: style("--rule"), zeroline: false, fixedrange: true };
    return {
      ...borders(line), height: 280, margin: { l: 56, r: 16, t: 28, b: 40 }, showlegend: false, dragmode: false,
      hovermode: "x", hoverdistance: -1, paper_bgcolor: "transparent", plot_bgcolor: "transparent",
      font: { family: "system-ui, sans-serif", color: style("--soft") },
      xaxis: { ...axis, showgrid: false, ticks: "outside", ticklen: 8, tickangle: 0, tickvals: marked, range: [-0.5, points.length - 0.5],
        ticktext: marked.map((index) => plain(short(points[index].key)).slice(0, 7)),
        showspikes: true, spikemode: "across", spikethickness: 1, spikedash: "dot" },
      yaxis: { ...axis, range: [-2, 102], ticksuffix: " %" },
    };
  };

  // The chart library is by far the largest part of the page: it is run when the first chart is drawn, or
  // once nothing else is to be done. The policy knows its text by its hash, wherever it stands.
  const charts = () => {
    if (!window.Plotly) {
      const script = make("script");
      script.textContent = document.getElementById("library").textContent;
      document.head.append(script);
    }
    return window.Plotly;
  };

  const chart = (line) => {
    const points = line.segments.flatMap((segment) => segment.points);
    const last = points.at(-1);
    const place = make("div", { class: "chart", role: "img", tabindex: "0", "aria-describedby": "readout",
      "aria-label": `Pass rate over ${points.length} versions in ${line.segments.length} segments; the newest is ` +
        `${percent(last.rate)}, ${interval(last.low, last.high)}. Arrow keys read each version. ` +
        "The table below has every figure." });
    const readout = make("p", { class: "note", id: "readout", role: "status" },
      "Point at a version or tap it to read it, or use the arrow keys.");
    main.append(place, readout);
    charts().newPlot(place, traces(line), layout(line, points), { displayModeBar: false, responsive: true });
    drawn = place;
    let current = points.length;
    const say = (index) => {
      current = index;
      const point = points[index];
      readout.textContent = `${short(point.key)}: ${percent(point.rate)}, ` +
        `${interval(point.low, point.high)}, n ${point.n}, coverage ${percent(point.coverage)}` +
        (point.drift ? `, drift: ${point.drift}` : "");
    };
    // A finger does not hover: its tap is a click alone.
    for (const kind of ["plotly_hover", "plotly_click"]) {
      place.on(kind, (event) => {
        if (event.points.length) say(event.points[0].x);
      });
    }
    place.addEventListener("keydown", (event) => {
      const end = points.length - 1;
      const to = { ArrowLeft: Math.max(0, current - 1), ArrowRight: Math.min(end, current + 1), Home: 0, End: end };
      if (!(event.key in to)) return;
      event.preventDefault();
      say(to[event.key]);
      Plotly.relayout(place, { shapes: [...borders(line).shapes, { type: "line", x0: current, x1: current, y0: 0, y1: 1, yref: "paper",
        line: { color: style("--soft"), width: 1, dash: "dot" } }] });
    });
  };

  const judgePage = (judge, choice) => {
    main.append(make("h2", {}, judge.name || judge.judge_id));
    main.append(make("p", { class: "note" },
      `${judge.recipe_id || "no recipe"} · judge id ${judge.judge_id} · ${judge.calibration || "calibration unknown"}`));
    const line = lineOf(judge, choice);
    if (!line) main.append(make("p", {}, "Nothing is stored for this choice."));
    else {
      main.append(make("h3", {}, `Pass rate by version, ${line.environment || "no environment"}` +
        (line.service ? `, ${line.service}` : ", all services")));
      chart(line);
      segments(line);
    }
    services(judge, choice);
    disagreements(judge);
    judgements(judge, choice);
  };

  const segments = (line) => {
    const rows = [];
    line.segments.forEach((segment, number) => segment.points.forEach((point) => {
      rows.push([short(point.key), String(number + 1), when(point.first), ...figures(point), point.drift || "–"]);
    }));
    const list = make("ul", {}, ...line.segments.map((segment, number) => make("li", {},
      `Segment ${number + 1}: definition ${short(segment.definition_hash)}, contract ${segment.contract_version}` +
      (segment.known ? "" : " (unknown to this version)") +
      (number === 0 ? "" : segment.cosmetic ? ", a cosmetic edit" : ", not comparable with the one before"))));
    const details = make("details", {}, make("summary", {}, "Every version in figures"),
      table("Every version", ["version", "segment", "first seen", ...FIGURES, "drift"], rows.reverse()));
    main.append(list, details);
  };

  const services = (judge, choice) => {
    const environment = (lineOf(judge, choice) || {}).environment;
    const rows = judge.lines
      .filter((line) => line.service !== null && line.environment === environment)
      .map((line) => {
        const segment = line.segments.at(-1);
        const link = make("a", { href: address({ judge: judge.judge_id, service: line.service }) }, line.service);
        return [link, short(segment.points.at(-1).key), short(segment.definition_hash),
          ...figures(segment.points.at(-1))];
      });
    if (!rows.length) return;
    main.append(make("h3", {}, "Across services"),
      table("The newest version of each service", ["service", "version", "definition", ...FIGURES], rows));
  };

  const disagreements = (judge) => {
    const rows = data.disagreements.filter((one) => one.judge_id === judge.judge_id).map((one) =>
      [when(one.at), one.kind, one.first || "null", one.again || "null", one.conversation_id]);
    main.append(make("h3", {}, "Disagreements"));
    if (!rows.length) main.append(make("p", { class: "note" }, "None: nothing was graded twice with another result."));
    else main.append(table("Graded twice with another result",
      ["time", "how", "first", "again", "conversation"], rows));
  };

  // ---- judgements

  const judgements = (judge, choice) => {
    const wanted = choice.get("result");
    const rows = data.judgements.filter((row) => row.judge_id === judge.judge_id &&
      (!wanted || wanted === (row.result === null ? "null" : row.result)) &&
      (!choice.get("service") || row.service === choice.get("service")) &&
      (!choice.get("environment") || row.environment === choice.get("environment")));
    main.append(make("h3", {}, "Recent judgements"), make("p", { class: "note" }, data.selection));
    main.append(rows.length ? table("Recent judgements",
      ["time", "result", "service", "version", "conversation"],
      rows.map((row) => [make("a", { href: address({ id: row.event_id }) }, when(row.at)), result(row),
        row.service || "–", short(row.commit), row.conversation_id]))
      : make("p", {}, "None for this choice."));
  };

  const judgement = (row) => {
    const item = (name, value) => [make("dt", {}, name), make("dd", {}, value)];
    main.append(make("p", {}, make("a", { href: address({ id: "" }) }, "Back to the judge")),
      make("h2", {}, `Judgement of ${when(row.at)}`),
      make("dl", {}, ...item("result", result(row)), ...item("judge", row.judge_name || row.judge_id),
        ...item("conversation", row.conversation_id), ...item("service", row.service || "–"),
        ...item("environment", row.environment || "–"), ...item("version", row.commit || "–"),
        ...item("definition", row.definition_hash), ...item("model", row.model || "–"),
        ...item("judgement id", row.judgement_id),
        ...(row.superseded ? item("standing", "superseded by a later judgement of the same conversation") : [])));
    if (row.error_message) main.append(make("h3", {}, "Why there is no verdict"), make("pre", {}, row.error_message));
    if (row.reasoning) main.append(make("h3", {}, "Reasoning"), make("pre", {}, row.reasoning));
    if (row.evidence.length) {
      main.append(make("h3", {}, "Evidence"), ...row.evidence.map((one) => make("figure", {},
        make("blockquote", {}, String(one.quote ?? "")),
        make("figcaption", { class: "note" },
          `entry ${one.entry ?? "?"}, ${one.verified ? "found in the view" : "not found in the view"}`))));
    }
    main.append(make("h3", {}, "What the judge saw"), row.view
      ? make("pre", { tabindex: "0" }, row.view)
      : make("p", { class: "note" }, data.no_view));
  };

  // ---- the whole

  const options = (name, values, all) => {
    const select = form.elements[name];
    const current = chosen().get(name) || "";
    select.replaceChildren(make("option", { value: "" }, all),
      ...values.map(([value, text]) => make("option", { value }, text)));
    select.value = values.some(([value]) => value === current) ? current : "";
  };
  const distinct = (pick) => [...new Set(data.judges.flatMap((judge) => judge.lines.map(pick)))]
    .filter((value) => value !== null).sort().map((value) => [value, value]);

  const draw = () => {
    const choice = chosen();
    if (drawn) Plotly.purge(drawn);
    drawn = null;
    main.replaceChildren();
    options("judge", data.judges.map((one) => [one.judge_id, one.name || one.judge_id]), "all judges");
    options("environment", distinct((line) => line.environment), "production first");
    options("service", distinct((line) => line.service), "all services");
    options("result", ["pass", "fail", "not_applicable", "null"].map((word) => [word, word]), "all results");
    const row = choice.get("id") && data.judgements.find((one) => one.event_id === choice.get("id"));
    const judge = data.judges.find((one) => one.judge_id === choice.get("judge"));
    if (row) judgement(row);
    else if (judge) judgePage(judge, choice);
    else overview(choice);
    document.title = judge ? `${judge.name || judge.judge_id} – Judgements` : "Judgements";
  };

  document.getElementById("about").textContent =
    `${data.counts.judgements.toLocaleString("en")} judgements · ${data.counts.quarantined.toLocaleString("en")} ` +
    `in quarantine · as of ${data.generated}`;
  form.addEventListener("change", (event) => {
    location.hash = address({ [event.target.name]: event.target.value, id: "" });
  });
  document.querySelector(".skip").addEventListener("click", (event) => {
    event.preventDefault(); // the address holds what is chosen
    main.focus();
  });
  form.addEventListener("submit", (event) => event.preventDefault());
  addEventListener("hashchange", () => { draw(); main.focus(); });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
  draw();
  addEventListener("load", () => (window.requestIdleCallback || setTimeout)(charts));
})();
