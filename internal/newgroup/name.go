package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// group is what templates say about a group.
type group struct {
	// Package is the folder's and the function's name: customdomains.
	Package string
	// Path is the last part of its operations' path, Noun one of its things in
	// audit records: custom-domains and custom-domain.
	Path, Noun string
	// Plural and Singular are for sentences, Title begins one: custom domains,
	// custom domain, Custom domains.
	Plural, Singular, Title string
	// Type, Types and Var are in Go and in ids: CustomDomain, CustomDomains,
	// customDomain.
	Type, Types, Var string
	// Scope is a constant of package auth, ScopeText its value.
	Scope, ScopeText string
}

// A is the article before Singular.
func (g group) A() string {
	if strings.ContainsRune("aeiou", rune(g.Singular[0])) {
		return "an"
	}
	return "a"
}

// CapitalA is A at the beginning of a sentence.
func (g group) CapitalA() string { return capital(g.A()) }

// URL is the path of the group's operations.
func (g group) URL() string {
	return "/v1/accounts/{accountName}/projects/{projectName}/" + g.Path
}

const usage = "name the things and one of them: make group NAME=custom-domains NOUN=custom-domain [SCOPE=custom-domains]"

// words is a name as it may be given; none is too long for a file, a function of
// Lambda or a line.
var words = regexp.MustCompile(`^[a-z]{2,20}(-[a-z]{2,20}){0,2}$`)

// reserved are nouns whose names in paths, {projectName} for one, say where
// things are; operations about them stand elsewhere.
var reserved = []string{"account", "project", "branch"}

// newGroup reads what a group is to be called.
func newGroup(name, noun string) (group, error) {
	switch {
	case name == "" || noun == "":
		return group{}, errors.New(usage)
	case !words.MatchString(name):
		return group{}, fmt.Errorf("NAME=%s: give one to three words of lower-case letters with hyphens between them, such as custom-domains", name)
	case !words.MatchString(noun):
		return group{}, fmt.Errorf("NOUN=%s: give one to three words of lower-case letters with hyphens between them, such as custom-domain", noun)
	case !strings.HasSuffix(name, "s") || name == noun:
		return group{}, fmt.Errorf("NAME=%s: give a plural, such as %ss, and in NOUN one of them", name, strings.TrimSuffix(noun, "s"))
	case name[0] != noun[0]:
		return group{}, fmt.Errorf("NAME=%s is no plural of NOUN=%s", name, noun)
	case slices.Contains(reserved, noun):
		return group{}, fmt.Errorf("NOUN=%s: paths have {%sName} already, which says where things are; choose another word", noun, noun)
	}
	g := group{
		Package: strings.ReplaceAll(name, "-", ""), Path: name, Noun: noun,
		Plural: strings.ReplaceAll(name, "-", " "), Singular: strings.ReplaceAll(noun, "-", " "),
		Type: joined(noun), Types: joined(name),
	}
	g.Title, g.Var = capital(g.Plural), strings.ToLower(g.Type[:1])+g.Type[1:]
	for given, word := range map[string]string{"NAME=" + name: g.Package, "NOUN=" + noun: g.Var} {
		if token.IsKeyword(word) || types.Universe.Lookup(word) != nil || slices.Contains([]string{"main", "init", "internal", "vendor", "testdata"}, word) {
			return group{}, fmt.Errorf("%s: %s means something in Go; choose another word", given, word)
		}
	}
	return g, nil
}

// capital gives a text with its first letter as a capital.
func capital(text string) string { return strings.ToUpper(text[:1]) + text[1:] }

// joined gives words as one: CustomDomain.
func joined(text string) string {
	var out strings.Builder
	for word := range strings.SplitSeq(text, "-") {
		out.WriteString(capital(word))
	}
	return out.String()
}

// chooseScope finds the constant of package auth that has the text of a
// resource.
func (g *group) chooseScope(root, text string) error {
	const source = "shared/auth/scope.go"
	file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(root, source), nil, parser.SkipObjectResolution)
	if err != nil {
		return fmt.Errorf("read the scopes: %w", err)
	}
	var all []string
	for n := range ast.Preorder(file) {
		v, ok := n.(*ast.ValueSpec)
		if !ok || len(v.Values) != 1 {
			continue
		}
		kind, _ := v.Type.(*ast.Ident)
		value, _ := v.Values[0].(*ast.BasicLit)
		if kind == nil || kind.Name != "Resource" || value == nil {
			continue
		}
		resource, err := strconv.Unquote(value.Value)
		if err != nil {
			return fmt.Errorf("read the scopes: %w", err)
		}
		if resource == text {
			g.Scope, g.ScopeText = v.Names[0].Name, text
			return nil
		}
		all = append(all, resource)
	}
	return fmt.Errorf("SCOPE=%s: %s has no such resource; choose one of %s, or add it there", text, source, strings.Join(all, ", "))
}

// free refuses names that something in the repository has.
func (g group) free(root string) error {
	for _, folder := range []string{"functions", "shared", "events"} {
		path := filepath.Join(folder, g.Package)
		if _, err := os.Lstat(filepath.Join(root, path)); err == nil {
			return fmt.Errorf("%s exists: nothing is written over; choose another NAME, or remove what is there", path)
		} else if !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	samples, err := filepath.Glob(filepath.Join(root, "events", "*", "samples.json"))
	if err != nil {
		return err
	}
	for _, path := range samples {
		raw, err := os.ReadFile(path) //nolint:gosec // G304: a file of the repository
		if err != nil {
			return err
		}
		var of struct{ Names map[string]string }
		if err := json.Unmarshal(raw, &of); err != nil {
			return fmt.Errorf("read %s: %w", path, err)
		}
		if _, taken := of.Names[g.Var+"Name"]; taken {
			return fmt.Errorf("NOUN=%s: %s calls another thing {%sName}; choose another word", g.Noun, path, g.Var)
		}
	}
	return nil
}
