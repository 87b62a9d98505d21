// Package project turns the archive that a user uploads into an Artifact that
// the gateway serves: Unpack reads the archive, a Compiler checks the project's
// files and resolves its variables.
//
// It is the place where a project's faults are found, all of them at once, each
// with its file, a JSON pointer and what to do about it. What it is not: it
// stores nothing and knows no table (package deployments has the flow), and it
// knows no handler or policy by itself (a Catalogue, which package gateway has,
// checks their options).
//
// What contract 4.1 leaves open is an error where serving it anyway would
// surprise: a misspelt "policies" would serve a route without its key check. It
// is a warning where it only tells, such as an unknown setting of
// gatewright.jsonc, which other tools read too. docs/projects.md has the list.
//
// Read project.go first, then routes.go; artifact.go is what comes out. The
// rules are those of contract 4.1 and 4.2 and of design, section 7.
package project

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
)

const (
	policiesFile = "config/policies.json"
	settingsFile = "gatewright.jsonc"
)

// Input is what a project is compiled for.
type Input struct {
	// Identity goes into the artifact as it is.
	Identity Identity
	// Variables are all variables of the environment, by name.
	Variables map[string]string
	// Catalogue knows the handlers and policies.
	Catalogue Catalogue
	// Verify, if not nil, answers what would keep a gateway from serving an
	// artifact without other errors, with places in the project's files. It is
	// not interrupted: the budgets bound what it is asked about.
	Verify func(*Artifact) []Problem
}

// Result is what a build tells its author.
type Result struct {
	// Errors are why there is no artifact, in the order of files and pointers;
	// empty when there is one. Their number and size are bounded.
	Errors []Problem `json:"errors"`
	// Warnings are what is probably not meant, ordered and bounded likewise.
	Warnings []Problem `json:"warnings"`
}

// Compiler compiles projects. It is safe for concurrent use.
type Compiler struct{ schemas func() *schemas }

// NewCompiler returns a Compiler. All compilers of a process share the schemas of OpenAPI, which the first project loads
// in some milliseconds: a function that never sees a project does not start with them.
func NewCompiler() *Compiler {
	return &Compiler{sharedSchemas}
}

// sharedSchemas returns the compiled schemas. They do not change after they are compiled.
var sharedSchemas = sync.OnceValue(mustLoadSchemas)

// Compile checks a project and puts the variables in. It answers the artifact,
// or nil and all that is wrong in Result.Errors. The same files and input give
// the same artifact, byte for byte. The error is the context's, whose end ends
// it within a moment, and only that.
func (k *Compiler) Compile(ctx context.Context, files Files, in Input) (*Artifact, Result, error) {
	c := &compiler{
		report:    report{files: files},
		done:      ctx.Done(),
		catalogue: in.Catalogue,
		schemas:   k.schemas(),
		artifact: &Artifact{
			Format:    ArtifactFormat,
			Identity:  in.Identity,
			Routes:    []Route{},
			Policies:  map[string]Policy{},
			Variables: map[string]string{},
			Env:       map[string]string{},
		},
		policies: map[string]*policyUse{},
		unread:   map[string]bool{},
		docs:     map[string]*document{},
		offers:   map[Source]*offerMaker{},
	}
	c.knownPolicies = sync.OnceValue(c.listPolicies)
	c.env = &environment{variables: in.Variables, report: &c.report, read: c.artifact.Env}
	c.settings = c.readSettings()
	c.warnOfMistaken()
	c.readPolicies()
	c.readRoutes()
	c.warnOfHidden()
	c.warnOfUnused()
	c.warnOfDoubts()
	if c.settings.preservePaths {
		c.artifact.PathNormalisation = PreservePaths
		c.warnOfReachable()
	}
	if ctx.Err() != nil {
		return nil, Result{}, fmt.Errorf("compile a project: %w", context.Cause(ctx))
	}
	if in.Verify != nil && c.problems.len() == 0 {
		for _, p := range in.Verify(c.artifact) {
			c.problems.add(entry{Problem: p})
		}
	}
	result := Result{Errors: c.report.errors(), Warnings: c.report.sorted(c.report.warnings)}
	if len(result.Errors) > 0 {
		return nil, result, nil
	}
	return c.artifact, result, nil
}

// compiler is one run of Compiler.Compile.
type compiler struct {
	report                    // and the project's files
	done      <-chan struct{} // of the context
	catalogue Catalogue
	schemas   *schemas
	env       *environment
	settings  settings
	artifact  *Artifact
	// policies are those of policies.json by name, also the faulty ones, so
	// that a route which names one is not at fault as well.
	policies map[string]*policyUse
	// knownPolicies is what policies are called, for whoever names another one.
	knownPolicies func() string
	// unread are the files that could not be read: what others expect of them is
	// not missing for that.
	unread map[string]bool
	// docs are the documents of routes by their files, servers the routes that are MCP servers, and
	// offers what they offer of routes, by where these are declared.
	docs    map[string]*document
	servers []mcpServer
	offers  map[Source]*offerMaker
	// values, operations and size count what has a budget: the values read, the
	// routes of them, and about what the artifact's encoding has in bytes.
	values, operations, size int
}

// stopped reports whether the context has ended.
func (c *compiler) stopped() bool {
	select {
	case <-c.done:
		return true
	default:
		return false
	}
}

// policyUse is a policy's place and whether a route names it.
type policyUse struct {
	at, policyType string
	used           bool
}

// readRoutes compiles all config/*.oas.json, in the order of their names.
func (c *compiler) readRoutes() {
	names := slices.Sorted(func(yield func(string) bool) {
		for name := range maps.Keys(c.files) {
			if isRoutesFile(name) && !yield(name) {
				return
			}
		}
	})
	if len(names) == 0 {
		c.fail("", "", "The project has no config/*.oas.json. Describe its routes in config/routes.oas.json, and deploy the folder that config/ is in; an archive has its content: tar -czf project.tar.gz -C FOLDER .")
		return
	}
	seen := newDuplicates()
	for _, name := range names {
		doc := c.parse(name, c.files[name])
		if doc == nil {
			continue
		}
		c.forbid(name, nil, doc.root, inHandlerOptions)
		if c.checkOpenAPI(doc) {
			c.docs[name] = doc
			c.readPaths(doc, seen)
		}
	}
	c.readServers(seen)
	clear(c.docs)
}

// warnOfMistaken warns of files that are there and not read.
func (c *compiler) warnOfMistaken() {
	for name := range c.files {
		if isMistaken(name) {
			c.warn(printable(name), "", "This file is not read. Routes are described in config/*.oas.json, policies in %s, settings in %s: write it in JSON under that name, or remove it.", policiesFile, settingsFile)
		}
	}
}

// inHandlerOptions holds for the places in an OpenAPI document where $env is
// read: /paths/PATH/METHOD/x-gateway-route/handler/options.
func inHandlerOptions(at []string) bool {
	return len(at) == 6 && at[0] == "paths" && at[3] == routeExtension && at[4] == "handler" && at[5] == "options"
}

// component reads a handler object that has the right shape.
func (c *compiler) component(file, at string, object map[string]any) (Component, resolution, bool) {
	export, _ := object["export"].(string)
	module, _ := object["module"].(string)
	ok := c.checkModule(file, at+"/module", module)
	out := Component{Export: export, Module: module}
	options, has := object["options"]
	if !has {
		return out, resolution{}, ok
	}
	if !c.withinOptions(file, at+"/options", options) {
		return out, resolution{}, false
	}
	res := c.env.resolve(file, at+"/options", options)
	c.env.patterns(file, at+"/options", res.value, c.artifact.Variables)
	if res.bytes > maxOptionBytes {
		c.over(file, at+"/options", "options", res.bytes, "With the variables put in they are too large. Shorten them.")
		return out, resolution{}, false
	}
	var within bool
	out.Options, within = c.encoded(file, at+"/options", res.value)
	return out, res, ok && within
}

// withinOptions reports options that are over their budgets as they are written.
func (c *compiler) withinOptions(file, at string, options any) bool {
	switch values, bytes := measure(options); {
	case values > maxOptionValues:
		c.over(file, at, "option values", int64(values), "Shorten them.")
	case bytes > maxOptionBytes:
		c.over(file, at, "options", int64(bytes), "Shorten them.")
	default:
		return true
	}
	return false
}

// measure counts the values of a tree, and the bytes of its texts.
func measure(value any) (values, bytes int) {
	values = 1
	add := func(child any) {
		v, b := measure(child)
		values, bytes = values+v, bytes+b
	}
	switch v := value.(type) {
	case string:
		bytes = len(v)
	case map[string]any:
		for name, child := range v {
			bytes += len(name)
			add(child)
		}
	case []any:
		for _, child := range v {
			add(child)
		}
	}
	return values, bytes
}

// encoded writes options for the artifact.
func (c *compiler) encoded(file, at string, value any) (json.RawMessage, bool) {
	data := encodeTree(value)
	if len(data) > maxOptionBytes {
		c.over(file, at, "options", int64(len(data)), "As JSON they are too large. Shorten them.")
		return nil, false
	}
	return data, true
}

// grow counts what is added to the artifact and reports once that it is full.
func (c *compiler) grow(file, at string, bytes int) bool {
	before := c.size
	if c.size += bytes; c.size <= maxArtifactBytes {
		return true
	}
	if before <= maxArtifactBytes {
		c.over(file, at, "artifact", int64(c.size), "The project's options and paths are too large together. Divide it into several projects.")
	}
	return false
}

// checkModule accepts the built-in modules.
func (c *compiler) checkModule(file, at, module string) bool {
	name, isImport := strings.CutPrefix(module, "$import(")
	name, isClosed := strings.CutSuffix(name, ")")
	switch {
	case isImport && isClosed && (name == "@gatewright/runtime" || name == "@gatewright/graphql"):
		return true
	case isImport && isClosed && strings.HasPrefix(name, "."):
		c.fail(file, at, "Modules of the project's own are not supported: this gateway runs no custom code. Use a built-in of $import(@gatewright/runtime) or $import(@gatewright/graphql).")
	default:
		c.fail(file, at, "This is no module. Write $import(@gatewright/runtime) or $import(@gatewright/graphql).")
	}
	return false
}

// report the catalogue's faults of a component at the place they have in the
// file. relative pointers that begin with /options count from options.
func (c *compiler) reportFaults(file, at string, res resolution, faults []Problem) {
	for _, f := range faults {
		if relative, ok := strings.CutPrefix(f.Path, "/options"); ok {
			message, unset := res.explain(relative, f.Message)
			c.failUnset(file, at+"/options"+res.origin(relative), unset, message)
			continue
		}
		message, unset := res.explain(f.Path, f.Message)
		c.failUnset(file, at+f.Path, unset, message)
	}
}

// quote shows a name of the project in a message, within bounds.
func quote(name string) string { return fmt.Sprintf("%q", printable(name)) }
