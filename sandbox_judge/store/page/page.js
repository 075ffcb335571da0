"use strict";
// Draws the page out of the data that stands in it. Text from outside is only ever set as text, never as
// markup. What is chosen stands in the address, so that a view can be sent to somebody.
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const main = document.getElementById("main");
  const form = document.getElementById("filters");
  let charts = [];

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

  const chart = (judge, line) => {
    const points = line.segments.flatMap((segment) => segment.points);
    const xs = points.map((_, index) => index);
    const columns = [xs];
    const series = [{}];
    const bands = [];
    let start = 0;
    line.segments.forEach((segment, number) => {
      const colour = style(number % 2 ? "--other" : "--one");
      const column = (name) => xs.map((x) => {
        const inside = x >= start && x < start + segment.points.length;
        const value = inside ? segment.points[x - start][name] : null;
        return value === null ? null : value * 100;
      });
      columns.push(column("rate"), column("high"), column("low"));
      const quiet = { stroke: "transparent", width: 0, points: { show: false } };
      series.push(
        { stroke: colour, width: 2, dash: segment.cosmetic ? [6, 4] : undefined,
          points: { show: segment.points.length < 80, size: 6, fill: colour } },
        quiet, quiet);
      bands.push({ series: [3 * number + 2, 3 * number + 3], fill: `${colour}33` });
      start += segment.points.length;
    });
    const last = points.at(-1);
    const place = make("div", { class: "chart", role: "img", "aria-label":
      `Pass rate over ${points.length} versions in ${line.segments.length} segments; the newest is ` +
      `${percent(last.rate)}, ${interval(last.low, last.high)}. The table below has every figure.` });
    const readout = make("p", { class: "note", "aria-hidden": "true" }, "Point at a version to read it.");
    const say = (index) => {
      const point = points[index];
      if (point) readout.textContent = `${short(point.key)}: ${percent(point.rate)}, ` +
        `${interval(point.low, point.high)}, n ${point.n}, coverage ${percent(point.coverage)}` +
        (point.drift ? `, drift: ${point.drift}` : "");
    };
    main.append(place, readout);
    const axis = { stroke: style("--soft"), grid: { stroke: style("--rule"), width: 1 },
      ticks: { stroke: style("--rule") } };
    const width = () => Math.max(280, place.clientWidth);
    const drawn = new uPlot({
      width: width(), height: 260, series, bands, legend: { show: false },
      scales: { x: { time: false }, y: { range: [0, 100] } },
      axes: [
        { ...axis, incrs: [1, 2, 5, 10, 20, 50, 100, 200, 500],
          values: (_, marks) => marks.map((x) => (points[x] ? short(points[x].key).slice(0, 7) : "")) },
        { ...axis, values: (_, marks) => marks.map((value) => `${value} %`) },
      ],
      cursor: { drag: { x: false, y: false } },
      hooks: { setCursor: [(plot) => say(plot.cursor.idx)] },
    }, columns, place);
    charts.push({ drawn, width });
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
      chart(judge, line);
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
    charts.forEach((one) => one.drawn.destroy());
    charts = [];
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
  addEventListener("resize", () => charts.forEach((one) => one.drawn.setSize({ width: one.width(), height: 260 })));
  draw();
})();
