// What a test asks of a page. One expression: an object of functions.
({
  // Whether a place in a page can be seen.
  seen(element) {
    const box = element.getBoundingClientRect();
    const style = getComputedStyle(element);
    return box.width > 0 && box.height > 0 && style.visibility === "visible" && style.opacity !== "0";
  },

  // All elements with text of their own that can be seen.
  texts() {
    return [...document.body.querySelectorAll("*")].filter(
      (each) =>
        !["SCRIPT", "STYLE", "NOSCRIPT"].includes(each.tagName) &&
        [...each.childNodes].some((node) => node.nodeType === 3 && node.data.trim()) &&
        this.seen(each)
    );
  },

  colour(text) {
    const found = text.match(/[\d.]+/g).map(Number);
    return { rgb: found.slice(0, 3), alpha: found.length > 3 ? found[3] : 1 };
  },

  // The colour behind an element: of the nearest that has one which is not see-through.
  behind(element) {
    for (let each = element; each; each = each.parentElement) {
      const { rgb, alpha } = this.colour(getComputedStyle(each).backgroundColor);
      if (alpha === 1) return rgb;
    }
    return [255, 255, 255];
  },

  // Relative luminance and contrast, as the Web Content Accessibility Guidelines define them.
  luminance(rgb) {
    const [r, g, b] = rgb
      .map((each) => each / 255)
      .map((each) => (each <= 0.03928 ? each / 12.92 : ((each + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  },
  contrast(one, other) {
    const [low, high] = [this.luminance(one), this.luminance(other)].sort((a, b) => a - b);
    return (high + 0.05) / (low + 0.05);
  },

  // How bright the page itself is, from 0 to 1.
  brightness() {
    return this.luminance(this.behind(document.body));
  },

  // By text: its size in pixels and its contrast with what is behind it.
  legibility() {
    return this.texts().map((each) => {
      const style = getComputedStyle(each);
      const svg = each instanceof SVGElement;
      return {
        text: each.textContent.trim().slice(0, 40),
        size: parseFloat(style.fontSize),
        contrast: this.contrast(this.colour(svg ? style.fill : style.color).rgb, this.behind(each)),
      };
    });
  },

  // The contrast of each colour that marks are filled with.
  marks() {
    const found = {};
    for (const each of document.querySelectorAll(".barlayer .point path, .legendpoints path")) {
      const style = getComputedStyle(each);
      if (style.fill === "none") continue;
      const pattern = style.fill.startsWith("url(") ? style.fill.slice(5, -2) : null;
      const hatch = pattern && document.querySelector(`${pattern} path`);
      const shown = hatch ? getComputedStyle(hatch).stroke : style.fill;
      found[shown] = this.contrast(this.colour(shown).rgb, this.behind(each));
    }
    return found;
  },

  // What is wider than the window, or beyond its edge, and is not in something that scrolls. Plotly
  // keeps a place to measure texts far away.
  beyond() {
    const width = document.documentElement.clientWidth;
    return [...document.body.querySelectorAll("*")]
      .filter((each) => !each.parentElement.closest(".scroll, #js-plotly-tester"))
      .filter((each) => each.id !== "js-plotly-tester" && this.seen(each))
      .filter((each) => {
        const box = each.getBoundingClientRect();
        return box.right > width + 0.5 || box.left < -0.5;
      })
      .map((each) => `${each.tagName} ${each.getAttribute("class")} ${each.textContent.slice(0, 30)}`);
  },

  // Of a plot: how many marks with an area there are of each kind.
  drawn(name) {
    const plot = document.getElementById("plot-" + name);
    const count = (which) => [...plot.querySelectorAll(which)].filter((each) => this.seen(each)).length;
    const strokes = (which) =>
      [...plot.querySelectorAll(which)].filter((each) => each.getTotalLength() > 0).length;
    return {
      bars: [...plot.querySelectorAll(".barlayer .point path")].filter((each) => {
        const box = each.getBBox();
        return box.width > 0 && box.height > 0;
      }).length,
      points: strokes(".scatterlayer .point"),
      lines: strokes(".scatterlayer .js-line"),
      images: count(".heatmaplayer image"),
      ticks: count(".xtick text") + count(".ytick text"),
    };
  },

  // What has the focus, and how it shows.
  focused() {
    const element = document.activeElement;
    const style = getComputedStyle(element);
    return {
      tag: element.tagName,
      place: element.getAttribute("href") || element.getAttribute("aria-labelledby") || element.textContent,
      style: style.outlineStyle,
      width: parseFloat(style.outlineWidth),
      contrast: this.contrast(this.colour(style.outlineColor).rgb, this.behind(element.parentElement)),
    };
  },
})
