import { render } from "preact";
import "uplot/dist/uPlot.min.css";
import "./style/tokens.css";
import "./style/base.css";
import "./style/layout.css";
import "./style/parts.css";
import "./style/network.css";
import { App } from "./app";
import { pages } from "./pages";
import { Pages } from "./registry";
import { apply, theme } from "./ui/theme";

apply(theme.get());
render(<Pages.Provider value={pages}><App /></Pages.Provider>, document.getElementById("console")!);
