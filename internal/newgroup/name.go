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

// group contains the values of the templates for a group.
type group struct {
	// Package is the name of the folder and of the function: customdomains.
	Package string
	// Path is the segment that names the group in the paths of its operations: custom-domains. Noun is the name of one
	// object in audit records: custom-domain.
	Path, Noun string
	// Plural and Singular are for use in sentences, and Title is for the beginning of a sentence: custom domains,
	// custom domain, Custom domains.
	Plural, Singular, Title string
	// Type, Types and Var are for names in Go and for operation IDs: CustomDomain, CustomDomains, customDomain.
	Type, Types, Var string
	// Scope is a constant of package auth, and ScopeText is its value.
	Scope, ScopeText string
}

// A returns the indefinite article for Singular: "a" or "an".
func (g group) A() string {
	if strings.ContainsRune("aeiou", rune(g.Singular[0])) {
		return "an"
	}
	return "a"
}

// CapitalA returns the article for the beginning of a sentence: "A" or "An".
func (g group) CapitalA() string { return capitalize(g.A()) }

// URL returns the path to which a client sends the POST request that creates an object. The paths of all operations of
// the group begin with it.
func (g group) URL() string {
	return "/v1/accounts/{accountName}/projects/{projectName}/" + g.Path
}

const usage = "set NAME to the plural and NOUN to the singular: make group NAME=custom-domains NOUN=custom-domain " +
	"[SCOPE=custom-domains]"

// validName matches a valid name: one to three words, not too long for the name of a file or a Lambda function.
var validName = regexp.MustCompile(`^[a-z]{2,20}(-[a-z]{2,20}){0,2}$`)

// reserved contains the nouns that a group cannot have, because the paths of all groups already have parameters with
// these names, such as {projectName}.
var reserved = []string{"account", "project", "branch"}

// newGroup returns the group with a name and a noun.
func newGroup(name, noun string) (group, error) {
	switch {
	case name == "" || noun == "":
		return group{}, errors.New(usage)
	case !validName.MatchString(name):
		return group{}, fmt.Errorf("NAME=%s: give one to three words of lower-case letters with hyphens between them, such "+
			"as custom-domains", name)
	case !validName.MatchString(noun):
		return group{}, fmt.Errorf("NOUN=%s: give one to three words of lower-case letters with hyphens between them, such "+
			"as custom-domain", noun)
	case !strings.HasSuffix(name, "s") || name == noun:
		return group{}, fmt.Errorf("NAME=%s: give a plural, such as %ss, and in NOUN its singular", name,
			strings.TrimSuffix(noun, "s"))
	case name[0] != noun[0]:
		return group{}, fmt.Errorf("NAME=%s is no plural of NOUN=%s", name, noun)
	case slices.Contains(reserved, noun):
		return group{}, fmt.Errorf("NOUN=%s: the paths of all groups already have the parameter {%sName}; choose another "+
			"word", noun, noun)
	}
	g := group{
		Package: strings.ReplaceAll(name, "-", ""), Path: name, Noun: noun,
		Plural: strings.ReplaceAll(name, "-", " "), Singular: strings.ReplaceAll(noun, "-", " "),
		Type: joinWords(noun), Types: joinWords(name),
	}
	g.Title, g.Var = capitalize(g.Plural), strings.ToLower(g.Type[:1])+g.Type[1:]
	for argument, identifier := range map[string]string{"NAME=" + name: g.Package, "NOUN=" + noun: g.Var} {
		if token.IsKeyword(identifier) || types.Universe.Lookup(identifier) != nil ||
			slices.Contains([]string{"main", "init", "internal", "vendor", "testdata"}, identifier) {
			return group{}, fmt.Errorf("%s: %s means something in Go; choose another word", argument, identifier)
		}
	}
	return g, nil
}

// capitalize returns a text with its first letter in upper case.
func capitalize(text string) string { return strings.ToUpper(text[:1]) + text[1:] }

// joinWords returns the name of a Go type for a name with hyphens: CustomDomain for custom-domain.
func joinWords(text string) string {
	var out strings.Builder
	for word := range strings.SplitSeq(text, "-") {
		out.WriteString(capitalize(word))
	}
	return out.String()
}

// chooseScope sets Scope to the constant of package auth whose value is text, and ScopeText to text. It returns an
// error if there is no such constant.
func (g *group) chooseScope(root, text string) error {
	const source = "shared/core/auth/scope.go"
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
	return fmt.Errorf("SCOPE=%s: %s has no such resource; choose one of %s, or add it there", text, source,
		strings.Join(all, ", "))
}

// checkUnused returns an error if a folder with the name of the package exists, or if other operations use the name of
// the path parameter for another resource.
func (g group) checkUnused(root string) error {
	var taken []string
	for _, pattern := range []string{"functions/", "events/", "shared/*/"} {
		found, err := fs.Glob(os.DirFS(root), pattern+g.Package)
		if err != nil {
			return err
		}
		taken = append(taken, found...)
	}
	if len(taken) > 0 {
		return fmt.Errorf("%s exists and is not overwritten; choose another NAME, or remove it", taken[0])
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
		var sampleFile struct{ Names map[string]string }
		if err := json.Unmarshal(raw, &sampleFile); err != nil {
			return fmt.Errorf("read %s: %w", path, err)
		}
		if _, taken := sampleFile.Names[g.Var+"Name"]; taken {
			return fmt.Errorf("NOUN=%s: %s calls another thing {%sName}; choose another word", g.Noun, path, g.Var)
		}
	}
	return nil
}
