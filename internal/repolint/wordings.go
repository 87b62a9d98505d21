package repolint

import (
	"fmt"
	"go/ast"
	"go/token"
	"maps"
	"regexp"
	"slices"
	"strings"
	"unicode"
)

// wording is a wording that readers parse twice. pattern is a regular expression in lower case. replacement says what
// to write instead.
type wording struct{ pattern, replacement string }

// commentWordings returns the wordings that no comment should have.
func commentWordings() []wording {
	return []wording{
		{`answers|answered`, "returns, responds, serves"},
		{`gives`, "returns, creates, assigns"},
		{`tells?|told`, "reports, logs, shows, notifies, distinguishes"},
		{`of which|by which|in which|(?:of|by|for) whom|for who`, "a new sentence that repeats the name"},
		{`the ones? that|whoever|whatever|who (?:asks|reads|writes|calls)`, "the name of the thing"},
		{`anew|lately|as of|by (?:itself|themselves)|may everything`, "again, recently, since, alone, has full access"},
		{`beside`, "next to, in addition to, with"},
		{`has \w+ be`, "who does what: the subject and a verb"},
	}
}

// nameWordings returns the words that no name should have.
func nameWordings() []wording {
	return []wording{
		{`tells?|told|untold`, "report, log, notify"},
		{`asked|asks`, "request, query, call"},
		{`patience`, "timeout"},
		{`beside|anew|elsewhere|lately|oftener|whoever|whatever`, "the term of the field"},
		{`begun`, "started"},
	}
}

// Comments reports each wording of commentWordings in the comments of Go files. It ignores generated files.
func Comments(t *Tree) (found []Finding) {
	wordings := commentWordings()
	expression := oneOf(wordings)
	t.eachFile(func(name string, file *ast.File) {
		for _, group := range file.Comments {
			text := strings.Join(strings.Fields(group.Text()), " ")
			for _, m := range expression.FindAllStringSubmatchIndex(text, -1) {
				found = append(found, Finding{
					name, t.line(group.Pos()),
					fmt.Sprintf("the comment has %q: write %s", text[m[0]:m[1]], replacementFor(wordings, m)),
				})
			}
		}
	})
	return found
}

// Names reports each name that a Go file declares if the name has a word of nameWordings, or if its first word is
// "most": the name of a maximum begins with "max".
func Names(t *Tree) (found []Finding) {
	wordings := nameWordings()
	expression := oneOf(wordings)
	t.eachFile(func(name string, file *ast.File) {
		for _, id := range declaredNames(file) {
			words := strings.ToLower(strings.Join(camelWords(id.Name), " "))
			if m := expression.FindStringSubmatchIndex(words); m != nil {
				found = append(found, Finding{
					name, t.line(id.Pos()),
					fmt.Sprintf("the name %s: use %s", id.Name, replacementFor(wordings, m)),
				})
			}
			if strings.HasPrefix(words, "most ") {
				found = append(found, Finding{name, t.line(id.Pos()), fmt.Sprintf("the name %s: a bound begins with max", id.Name)})
			}
		}
	})
	return found
}

// oneOf returns a regular expression that matches each of the wordings as whole words, in upper or lower case. It has
// one group for each wording.
func oneOf(wordings []wording) *regexp.Regexp {
	var parts []string
	for _, w := range wordings {
		parts = append(parts, "("+w.pattern+")")
	}
	return regexp.MustCompile(`(?i)\b(?:` + strings.Join(parts, "|") + `)\b`)
}

// replacementFor returns what to write instead of a match. match is a result of FindStringSubmatchIndex, with a group
// for each wording.
func replacementFor(wordings []wording, match []int) string {
	for i, w := range wordings {
		if match[2*i+2] >= 0 {
			return w.replacement
		}
	}
	return ""
}

// eachFile calls visit for each Go file that no program has generated, sorted by path.
func (t *Tree) eachFile(visit func(name string, file *ast.File)) {
	for _, p := range t.Packages {
		for _, name := range slices.Sorted(maps.Keys(p.Files)) {
			if file := p.Files[name]; !ast.IsGenerated(file) {
				visit(name, file)
			}
		}
	}
}

// declaredNames returns the names of a file's types, functions, methods, fields, parameters, results, constants and
// variables.
func declaredNames(file *ast.File) (names []*ast.Ident) {
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncDecl:
			names = append(names, n.Name)
		case *ast.TypeSpec:
			names = append(names, n.Name)
		case *ast.ValueSpec:
			names = append(names, n.Names...)
		case *ast.Field:
			names = append(names, n.Names...)
		case *ast.AssignStmt:
			if n.Tok == token.DEFINE {
				names = appendIdents(names, n.Lhs...)
			}
		case *ast.RangeStmt:
			if n.Tok == token.DEFINE {
				names = appendIdents(names, n.Key, n.Value)
			}
		}
		return true
	})
	return names
}

func appendIdents(names []*ast.Ident, list ...ast.Expr) []*ast.Ident {
	for _, e := range list {
		if id, ok := e.(*ast.Ident); ok {
			names = append(names, id)
		}
	}
	return names
}

// camelWords splits a name before each capital: maxOpenConns has the words max, Open and Conns.
func camelWords(name string) (words []string) {
	start := 0
	for i, r := range name {
		if i > start && unicode.IsUpper(r) {
			words = append(words, name[start:i])
			start = i
		}
	}
	return append(words, name[start:])
}
