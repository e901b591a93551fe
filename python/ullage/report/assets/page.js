"use strict";
(() => {
  const number = (value) => value.toLocaleString("en-US");
  const share = (part, whole) => (whole ? `${((100 * part) / whole).toFixed(1)} %` : "–");

  const theme = document.getElementById("theme");
  const dark = () => {
    const chosen = document.documentElement.dataset.theme;
    return chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  };
  const say = () => { theme.textContent = dark() ? "Light colours" : "Dark colours"; };
  theme.addEventListener("click", () => {
    document.documentElement.dataset.theme = dark() ? "light" : "dark";
    say();
  });
  theme.hidden = false;
  say();

  for (const section of document.querySelectorAll("section.session")) {
    const data = section.querySelector("script[type='application/json']");
    const slider = section.querySelector("input[type='range']");
    if (data && slider) follow(section, JSON.parse(data.textContent), slider);
    tabs(section);
    filter(section);
  }

  function follow(section, data, slider) {
    const readout = section.querySelector("output");
    const show = () => {
      const [at, tokens, unmanaged, read, written, again, acted, when] = data.points[slider.value];
      slider.setAttribute("aria-valuetext", `request ${at}`);
      const parts = [
        `Request ${number(at)} of ${number(data.last)}${when ? `, ${when}` : ""}: ${number(tokens)} tokens (${share(tokens, data.window)} of the window)`,
        `unmanaged ${number(unmanaged)} (${share(unmanaged, data.window)})`,
        `from the cache ${number(read)}, written ${number(written)}${again ? `, of that again ${number(again)}` : ""}`,
      ];
      if (acted) parts.push(`acted: ${acted}`);
      readout.textContent = parts.join(" · ");
      const span = Math.max(1, data.last - 1);
      for (const line of section.querySelectorAll(".cursor")) {
        const [left, right] = [Number(line.dataset.left), Number(line.dataset.right)];
        const x = left + ((right - left) * (at - 1)) / span;
        line.setAttribute("x1", x);
        line.setAttribute("x2", x);
        line.removeAttribute("visibility");
      }
    };
    slider.addEventListener("input", show);
    for (const chart of section.querySelectorAll("svg.fill")) {
      chart.addEventListener("pointerdown", (event) => {
        const line = chart.querySelector(".cursor");
        const place = chart.createSVGPoint();
        place.x = event.clientX;
        place.y = event.clientY;
        const x = place.matrixTransform(chart.getScreenCTM().inverse()).x;
        const [left, right] = [Number(line.dataset.left), Number(line.dataset.right)];
        const wanted = 1 + ((x - left) / (right - left)) * (data.last - 1);
        let best = 0;
        data.points.forEach((point, at) => {
          if (Math.abs(point[0] - wanted) < Math.abs(data.points[best][0] - wanted)) best = at;
        });
        slider.value = best;
        show();
      });
    }
    show();
  }

  function tabs(section) {
    const buttons = [...section.querySelectorAll(".tabs button")];
    const choose = (chosen) => {
      for (const button of buttons) {
        const on = button === chosen;
        button.setAttribute("aria-pressed", String(on));
        document.getElementById(button.getAttribute("aria-controls")).hidden = !on;
      }
    };
    if (buttons.length === 0) return;
    for (const button of buttons) button.addEventListener("click", () => choose(button));
    buttons[0].parentElement.hidden = false;
    choose(buttons[0]);
  }

  function filter(section) {
    const select = section.querySelector("select");
    if (!select) return;
    const rows = [...section.querySelectorAll(".removal")];
    const said = section.querySelector(".shown");
    select.parentElement.hidden = false;
    select.addEventListener("change", () => {
      let shown = 0;
      for (const row of rows) {
        row.hidden = select.value !== "" && row.dataset.level !== select.value;
        shown += row.hidden ? 0 : 1;
      }
      said.textContent = `${number(shown)} shown`;
    });
  }
})();
