package repolint

import (
	"fmt"
	"go/ast"
	"regexp"
	"slices"
	"strings"
)

// identifierWord matches a word with a capital after a lower-case letter. Only identifiers and a few proper names are
// written like this. The first group is the character before the word: "." for a name of another package, such as
// http.ResponseController.
var identifierWord = regexp.MustCompile(`(^|[^A-Za-z0-9_])([A-Za-z]*[a-z][A-Z][A-Za-z0-9]*)`)

// sentenceWord matches a word in lower case that begins a sentence after another sentence: it is a name.
var sentenceWord = regexp.MustCompile(`[.] ([a-z][A-Za-z0-9]*) [a-z]`)

// foreignNames are the names in comments that are not names of this repository: products, protocols, programs and functions of others.
var foreignNames = []string{
	"AmazonCloudWatch", "ClientHello", "CoyoteAdapter", "DevTools", "ExportTraceServiceRequest", "GetMethod",
	"IPvFuture", "OpenTelemetry", "PutFunctionEventInvokeConfig", "PutIntegration", "PutMethod", "PutMetricData",
	"RabbitMQ", "depguard", "errCannotRewind", "gRPC", "go", "gojq", "infra", "make", "maxOpenConns", "prettyBranch",
	"readLoop", "sha256sum",
}

// StaleNames reports words of comments that are written like identifiers, and that no Go file has as an identifier or
// within a literal: after a rename, a comment can still have the former name. A word that begins a sentence in lower
// case must be in a file of the same package. StaleNames ignores foreignNames, names after a dot, and the plural "s" of
// a name.
func StaleNames(t *Tree) (found []Finding) {
	everywhere := map[string]bool{}
	ownNames := map[*ast.File]map[string]bool{} // the names of the package of each file
	for _, p := range t.Packages {
		own := map[string]bool{p.Name: true}
		for _, file := range p.Files {
			collectNames(file, own)
			ownNames[file] = own
		}
		for name := range own {
			everywhere[name] = true
		}
	}
	t.eachFile(func(name string, file *ast.File) {
		for _, group := range file.Comments {
			text := strings.Join(strings.Fields(group.Text()), " ")
			var unknown []string
			for _, m := range identifierWord.FindAllStringSubmatch(text, -1) {
				if word := m[2]; m[1] != "." && !everywhere[word] && !everywhere[strings.TrimSuffix(word, "s")] {
					unknown = append(unknown, word)
				}
			}
			for _, m := range sentenceWord.FindAllStringSubmatch(text, -1) {
				if !ownNames[file][m[1]] {
					unknown = append(unknown, m[1])
				}
			}
			for _, word := range unknown {
				if !slices.Contains(foreignNames, word) {
					found = append(found, Finding{name, t.line(group.Pos()), fmt.Sprintf(
						"the comment names %s, which no Go file has: write the current name, or add it to foreignNames "+
							"(internal/repolint/stalenames.go)", word)})
				}
			}
		}
	})
	return found
}

// collectNames adds the identifiers of a file and the words of its literals to names.
func collectNames(file *ast.File, names map[string]bool) {
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.Ident:
			names[n.Name] = true
		case *ast.BasicLit:
			for _, word := range literalWord.FindAllString(n.Value, -1) {
				names[word] = true
			}
		}
		return true
	})
}

// literalWord matches a word within a literal.
var literalWord = regexp.MustCompile(`[A-Za-z][A-Za-z0-9]*`)
