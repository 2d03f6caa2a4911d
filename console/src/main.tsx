// Where it starts: follows the daemon and draws the console.
import { render } from "preact";
import "uplot/dist/uPlot.min.css";
import "./style/base.css";
import "./style/frame.css";
import "./style/parts.css";
import "./style/tables.css";
import "./style/forms.css";
import "./style/narrow.css";
import { App } from "./app";
import { start } from "./live";

const place = document.getElementById("console");
if (place !== null) {
  start();
  render(<App />, place);
}
