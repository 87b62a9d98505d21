package house

import (
	"go/ast"
	"go/types"
	"slices"
	"strings"
)

// mayReadBodies are the files of the product that read a request's body whole without package bodies, and the reasons. Files
// outside the folders of servedFrom serve no clients.
func mayReadBodies() map[string]string {
	return map[string]string{
		"local/control/control.go":        "commands of the operating system's user who runs the server, by a socket that has no other client",
		"local/lambdahost/runtimeapi.go":  "answers of the function processes that the server has started",
		"shared/cloud/bedrock/bedrock.go": "a request that this process makes",
		"shared/tunnel/agent.go":          "the configuration that an agent's own relay sends to it",
	}
}

// servedFrom are the folders whose code serves requests of clients.
func servedFrom() []string {
	return []string{
		"console", "functions", "shared", "local/apigateway", "local/control", "local/lambdahost", "local/product", "local/server",
	}
}

// wholeReaders are functions and methods of other values that read all of their argument, a reader.
func wholeReaders() []string {
	return []string{"io.ReadAll", "json.NewDecoder", "xml.NewDecoder", "gob.NewDecoder", "ReadFrom"}
}

// formReaders are methods of a request that read its body whole.
func formReaders() []string {
	return []string{"ParseForm", "ParseMultipartForm", "FormValue", "PostFormValue", "FormFile"}
}

// RequestBodies reports code that holds a request's body in memory without the budget of package bodies: many clients
// together could fill the memory through such code.
func RequestBodies(t *Tree) (found []Finding) {
	for _, p := range t.Packages {
		served := slices.ContainsFunc(servedFrom(), func(folder string) bool { return within(p.Dir, folder) })
		if !served || p.Dir == "shared/bodies" || strings.HasSuffix(p.Name, "test") {
			continue
		}
		for name, file := range p.sources() {
			if mayReadBodies()[name] != "" {
				continue
			}
			for n := range ast.Preorder(file) {
				f, ok := n.(*ast.FuncDecl)
				if !ok || f.Body == nil {
					continue
				}
				for _, call := range wholeReads(f) {
					found = append(found, Finding{name, t.line(call.Pos()), types.ExprString(call.Fun) + " reads a request's body whole: use bodies.Read, which bounds the memory of all bodies"})
				}
			}
		}
	}
	return found
}

// wholeReads returns the calls of a function that read a request's body whole.
func wholeReads(f *ast.FuncDecl) (calls []*ast.CallExpr) {
	requests := requestsIn(f)
	isBody := func(n ast.Node) bool {
		sel, ok := n.(*ast.SelectorExpr)
		return ok && sel.Sel.Name == "Body" && slices.Contains(requests, types.ExprString(sel.X))
	}
	for n := range ast.Preorder(f.Body) {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			continue
		}
		fun := types.ExprString(call.Fun)
		on, method, _ := strings.Cut(fun, ".")
		if slices.Contains(requests, on) && slices.Contains(formReaders(), method) {
			calls = append(calls, call)
			continue
		}
		if !slices.ContainsFunc(wholeReaders(), func(reader string) bool { return fun == reader || strings.HasSuffix(fun, "."+reader) }) {
			continue
		}
		for _, argument := range call.Args {
			for inside := range ast.Preorder(argument) {
				if isBody(inside) {
					calls = append(calls, call)
				}
			}
		}
	}
	return calls
}

// requestsIn returns the names of parameters that are requests or exchanges: of a function and of the functions inside it.
func requestsIn(f *ast.FuncDecl) (names []string) {
	for n := range ast.Preorder(f) {
		fields, ok := n.(*ast.FieldList)
		if !ok {
			continue
		}
		for _, field := range fields.List {
			switch types.ExprString(field.Type) {
			case "*http.Request", "*pipeline.Exchange", "*Exchange":
				for _, name := range field.Names {
					names = append(names, name.Name)
				}
			}
		}
	}
	return names
}
