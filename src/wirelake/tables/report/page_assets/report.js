// Draws the plots, in the colours of the page, and again when these change. Sorts tables, and copies
// commands.
(() => {
  "use strict";
  const plots = JSON.parse(document.getElementById("plots").textContent);
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  const phone = window.matchMedia("(max-width: 640px)");

  // Colours are given by name; whatever else begins with $ is somebody's own.
  function coloured(value, css, key) {
    if (typeof value === "string") {
      const named = (key === "color" || key === "colorscale") && value.startsWith("$");
      return named ? css.getPropertyValue("--" + value.slice(1)).trim() : value;
    }
    if (Array.isArray(value)) return value.map((each) => coloured(each, css, key));
    if (value === null || typeof value !== "object") return value;
    return Object.fromEntries(
      Object.entries(value).map(([name, each]) => [name, coloured(each, css, name)])
    );
  }

  function axis(given, rule) {
    const { shorttext, ...rest } = given || {};
    if (shorttext && phone.matches) rest.ticktext = shorttext;
    return {
      gridcolor: rule, linecolor: rule, zerolinecolor: rule, fixedrange: true,
      automargin: true, nticks: phone.matches ? 5 : 10, ...rest,
    };
  }

  function layout(given, css) {
    const colour = (name) => css.getPropertyValue("--" + name).trim();
    return {
      ...given,
      xaxis: axis(given.xaxis, colour("rule")),
      yaxis: axis(given.yaxis, colour("rule")),
      margin: { l: 50, r: 24, t: 8, b: 36 },
      font: { family: css.getPropertyValue("font-family"), size: 12, color: colour("text") },
      paper_bgcolor: "rgba(0,0,0,0)",
      plot_bgcolor: "rgba(0,0,0,0)",
      hoverlabel: {
        bgcolor: colour("panel"), bordercolor: colour("rule"), font: { color: colour("text") },
      },
      legend: { orientation: "h", y: 1.02, yanchor: "bottom", x: 0, traceorder: "normal" },
    };
  }

  function draw() {
    const css = getComputedStyle(document.body);
    for (const plot of plots) {
      Plotly.react(
        "plot-" + plot.name,
        coloured(plot.traces, css),
        layout(coloured(plot.layout, css), css),
        { responsive: true, displayModeBar: false }
      );
    }
  }

  // Numbers sort by their exact value, text as people sort it; what is not known comes last.
  function compare(one, other, numeric) {
    if (!numeric) {
      return one.textContent.localeCompare(other.textContent, undefined, { numeric: true });
    }
    const [a, b] = [one.dataset.sort, other.dataset.sort];
    return a === undefined || b === undefined ? 0 : Number(a) - Number(b);
  }

  function sort(head) {
    const table = head.closest("table");
    const place = head.cellIndex;
    const numeric = head.classList.contains("number");
    // Largest numbers and first names are what one looks for.
    const before = head.getAttribute("aria-sort");
    const first = numeric ? "descending" : "ascending";
    const second = numeric ? "ascending" : "descending";
    const order = before === first ? second : first;
    for (const each of head.parentNode.cells) each.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", order);
    const sign = order === "ascending" ? 1 : -1;
    const unknown = (row) => numeric && row.cells[place].dataset.sort === undefined;
    const rows = Array.from(table.tBodies[0].rows);
    rows.sort((one, other) =>
      unknown(one) - unknown(other) ||
      sign * compare(one.cells[place], other.cells[place], numeric)
    );
    table.tBodies[0].append(...rows);
  }

  for (const head of document.querySelectorAll("th")) {
    head.firstElementChild.addEventListener("click", () => sort(head));
  }

  for (const button of document.querySelectorAll(".copy")) {
    const code = button.parentNode.querySelector("code");
    button.addEventListener("click", async () => {
      try {
        await navigator.clipboard.writeText(code.textContent);
        button.textContent = "Copied";
      } catch {
        // A page from a file may not use the clipboard: the text is selected for Ctrl-C.
        getSelection().selectAllChildren(code);
        button.textContent = "Ctrl-C";
      }
    });
  }

  draw();
  dark.addEventListener("change", draw);
  phone.addEventListener("change", draw);
})();
