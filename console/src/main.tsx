import { render } from "preact";
import "uplot/dist/uPlot.min.css";
import "./style/tokens.css";
import "./style/base.css";
import "./style/layout.css";
import "./style/parts.css";
import "./style/network.css";
import { App } from "./app";
import { apply, theme } from "./ui/theme";

apply(theme.get());
render(<App />, document.getElementById("console")!);
