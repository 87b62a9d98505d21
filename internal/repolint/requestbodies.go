package repolint

import (
	"go/ast"
	"go/types"
	"slices"
	"strings"
)

// mayReadBodies returns the files of the product that are allowed to read a request's whole body without the package
// shared/base/bodies, with the reasons. Files outside servedFolders need no entry, because they do not serve clients.
func mayReadBodies() map[string]string {
	return map[string]string{
		"local/control/control.go": "commands of the operating system's user who runs the server, through " +
			"a socket that has no other client",
		"local/dev/lambdahost/runtimeapi.go":      "responses of the function processes that the server has started",
		"shared/runtime/cloud/bedrock/bedrock.go": "a request that this process makes",
		"shared/format/tunnel/agent.go":           "the configuration that an agent's own relay sends to it",
	}
}

// servedFolders returns the folders whose code serves requests of clients.
func servedFolders() []string {
	return []string{
		"console", "functions", "shared", "local/apigateway", "local/control", "local/dev/lambdahost", "local/product",
	}
}

// unboundedReaders returns the functions and methods that take a reader as an argument and hold everything that they
// read from it in memory.
func unboundedReaders() []string {
	return []string{"io.ReadAll", "json.NewDecoder", "xml.NewDecoder", "gob.NewDecoder", "ReadFrom"}
}

// formReaders returns the methods of a request that read its whole body.
func formReaders() []string {
	return []string{"ParseForm", "ParseMultipartForm", "FormValue", "PostFormValue", "FormFile"}
}

// RequestBodies reports code that holds a request's whole body in memory, but does not reserve memory for it in the
// budget of the package shared/base/bodies. Through such code, many clients together could exhaust the memory.
func RequestBodies(t *Tree) (found []Finding) {
	for _, p := range t.Packages {
		served := slices.ContainsFunc(servedFolders(), func(folder string) bool { return within(p.Dir, folder) })
		if !served || p.Dir == "shared/base/bodies" || strings.HasSuffix(p.Name, "test") {
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
				for _, call := range unboundedReads(f) {
					found = append(found, Finding{
						name, t.line(call.Pos()),
						types.ExprString(call.Fun) +
							" reads a request's body whole: use bodies.Read, which bounds the memory of all bodies",
					})
				}
			}
		}
	}
	return found
}

// unboundedReads returns the calls in a function that read a request's whole body.
func unboundedReads(f *ast.FuncDecl) (calls []*ast.CallExpr) {
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
		receiver, method, _ := strings.Cut(fun, ".")
		if slices.Contains(requests, receiver) && slices.Contains(formReaders(), method) {
			calls = append(calls, call)
			continue
		}
		if !slices.ContainsFunc(unboundedReaders(), func(reader string) bool {
			return fun == reader || strings.HasSuffix(fun, "."+reader)
		}) {
			continue
		}
		for _, argument := range call.Args {
			for node := range ast.Preorder(argument) {
				if isBody(node) {
					calls = append(calls, call)
				}
			}
		}
	}
	return calls
}

// requestsIn returns the names of the parameters and receivers that are requests or exchanges, in a function and in the
// functions inside it.
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
