// Package project turns the archive that a user uploads into an Artifact that the gateway serves:
// Unpack reads the archive, and a Compiler checks the project's files and resolves its variables.
//
// The package finds all mistakes of a project at once, and reports each with its file, a JSON pointer and
// what to do about it. It does not store anything and uses no table: package deployments does that. It
// does not know handlers or policies: a Catalog, which package gateway implements, checks their options.
//
// Input that contract 4.1 leaves undefined fails the build if serving it could surprise callers: a
// misspelt "policies" would serve a route without its key check. Otherwise the build warns, for example
// about an unknown setting of gatewright.jsonc, which other tools read too. docs/projects.md has the list.
//
// Read project.go first, then routes.go; artifact.go has the result. Contract 4.1 and 4.2 and section 7 of the design
// have the rules.
package project

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"sync"

	"github.com/gatewright/gatewright/shared/base/lazy"
)

const (
	policiesFile = "config/policies.json"
	settingsFile = "gatewright.jsonc"
)

// Input is everything that Compile needs in addition to the files.
type Input struct {
	// Identity is copied into the artifact.
	Identity Identity
	// Variables are all variables of the environment, by name.
	Variables map[string]string
	// Catalog checks the handlers and policies.
	Catalog Catalog
	// Verify, if not nil, returns the problems that would prevent a gateway from serving the artifact. Each problem has
	// its place in the project's files. Compile calls Verify only for a project without other errors. If the context ends,
	// Verify returns early, and Compile returns the error of the context.
	Verify func(context.Context, *Artifact) []Problem
}

// Result is what a build reports to its author.
type Result struct {
	// Errors are the reasons why there is no artifact, in the order of files and
	// pointers. It is empty if there is an artifact. Their number and size are bounded.
	Errors []Problem `json:"errors"`
	// Warnings are probable mistakes, ordered and bounded like Errors.
	Warnings []Problem `json:"warnings"`
	// References are the paths of the files to which references of the project lead, sorted. They include missing files, so
	// that a client can watch for them.
	References []string `json:"-"`
}

// Compiler compiles projects. It is safe for concurrent use.
type Compiler struct{ schemas func() *schemas }

// NewCompiler returns a Compiler. All compilers of a process share the schemas of OpenAPI. The first compilation
// loads them in some milliseconds, so that a function that never compiles a project does not load them at its start.
func NewCompiler() *Compiler {
	return &Compiler{sharedSchemas}
}

// sharedSchemas returns the compiled schemas. They do not change after they are compiled.
var sharedSchemas = sync.OnceValue(mustLoadSchemas)

// Compile checks a project and resolves its variables. It returns the artifact, or nil
// and all mistakes in Result.Errors. The same files and input produce the same artifact,
// byte for byte. It returns an error only if the context ends, and then within a moment.
func (co *Compiler) Compile(ctx context.Context, files Files, in Input) (*Artifact, Result, error) {
	c := &compiler{
		report:  report{files: files},
		done:    ctx.Done(),
		catalog: in.Catalog,
		schemas: co.schemas(),
		artifact: &Artifact{
			Format:    ArtifactFormat,
			Identity:  in.Identity,
			Routes:    []Route{},
			Policies:  map[string]Policy{},
			Variables: map[string]string{},
			Env:       map[string]string{},
		},
		policies:      map[string]*policyUse{},
		addedPolicies: map[routeKey]int{},
		unreadable:    map[string]bool{},
		docs:          map[string]*document{},
		loaded:        map[string]*document{},
		referredFiles: map[string]bool{},
		checked:       map[visit]bool{},
		partsByVisit:  map[visit]*part{},
		offers:        map[routeKey]*offerBuilder{},
		referred:      map[routeKey]referredOperation{},
	}
	c.knownPolicies = sync.OnceValue(c.listPolicies)
	c.env = &environment{variables: in.Variables, report: &c.report, used: c.artifact.Env}
	c.settings = c.readSettings()
	c.warnMisnamed()
	c.readPolicies()
	c.readMembers()
	c.readRoutes()
	c.warnShadowedPatterns()
	c.warnUnused()
	c.warnInbound()
	for i := range c.artifact.Routes {
		c.artifact.Routes[i].file = "" // not before warnInbound, which uses it
	}
	if c.settings.preservePaths {
		c.artifact.PathNormalization = PreservePaths
		c.warnReachable()
	}
	if in.Verify != nil && c.problems.len() == 0 && ctx.Err() == nil {
		for _, p := range in.Verify(ctx, c.artifact) {
			c.problems.add(entry{Problem: p})
		}
	}
	if ctx.Err() != nil {
		return nil, Result{}, fmt.Errorf("compile a project: %w", context.Cause(ctx))
	}
	result := Result{
		Errors: c.report.errors(), Warnings: c.report.sorted(c.report.warnings),
		References: slices.Sorted(maps.Keys(c.referredFiles)),
	}
	if len(result.Errors) > 0 {
		return nil, result, nil
	}
	return c.artifact, result, nil
}

// compiler is one run of Compiler.Compile.
type compiler struct {
	report                   // also has the project's files
	done     <-chan struct{} // of the context
	catalog  Catalog
	schemas  *schemas
	env      *environment
	settings settings
	artifact *Artifact
	// policies are the policies of policies.json by name. Invalid policies are
	// included, so that the routes that name them are not reported as well.
	policies map[string]*policyUse
	// addedPolicies has, by route, the number of policies that security schemes have added to the beginning of its inbound
	// policies.
	addedPolicies map[routeKey]int
	// knownPolicies lists the names of policies, for messages about an unknown name.
	knownPolicies func() string
	// unreadable are the files that could not be read. The compiler
	// does not report names as missing that such a file could define.
	unreadable map[string]bool
	// docs has the OpenAPI documents by file. loaded has these documents and the files to which references lead, with nil for
	// a file that cannot be read. referredFiles has the paths of all files to which references lead, even of missing ones.
	docs, loaded  map[string]*document
	referredFiles map[string]bool
	// checked has the objects of other files that were checked. parts are the places in other files to which references
	// lead. partsByVisit has those of them that are objects.
	checked      map[visit]bool
	parts        []*part
	partsByVisit map[visit]*part
	// ineffective has the keywords without effect that are not reported yet.
	ineffective map[ineffective]*ineffectivePlaces
	// extensions has the schemas of components that refer to a schema by allOf. The key identifies the schema. It is nil
	// until isOpen or checkDiscriminator is called. open has the results of isOpen.
	extensions map[uintptr][]map[string]any
	open       map[uintptr]bool
	// servers are the routes that are MCP servers. offers has the builders of the MCP operations, by route.
	servers []mcpServer
	offers  map[routeKey]*offerBuilder
	// names are the names of offered operations that have none in their mcp objects.
	names map[nameKey]string
	// referred has the operations of paths that refer to another path item.
	referred map[routeKey]referredOperation
	// securityChecks is the number of schemes in the security requirements of all operations so far.
	securityChecks int
	// values is the number of values that were read. operations is the number of operations.
	// size is the estimated size of the artifact's encoding, in bytes. All three have budgets.
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

// policyUse is the place and type of a policy, and whether a route names it.
type policyUse struct {
	at, policyType string
	used           bool
	// members are the policies that this one contains. If expands is set, they run in its place.
	members []string
	expands bool
}

// readRoutes compiles all routes files, in the order of their names.
func (c *compiler) readRoutes() {
	names := slices.Sorted(func(yield func(string) bool) {
		for name := range maps.Keys(c.files) {
			if IsRoutesFile(name) && !yield(name) {
				return
			}
		}
	})
	if len(names) == 0 {
		c.warnUnreadDescriptions()
		c.fail("", "", "The project has no config/*.oas.json and no config/*.oas.yaml. Describe its routes in "+
			"config/routes.oas.json, and deploy the folder that config/ is in; an archive has its content: "+
			"tar -czf project.tar.gz -C FOLDER .")
		return
	}
	known := newDeclarations()
	for _, name := range names {
		doc := c.load(name)
		if doc == nil {
			continue
		}
		c.forbidEnv(name, nil, doc.root, inHandlerOptions)
		if c.checkOpenAPI(doc) {
			c.docs[name], doc.security = doc, c.readSecurity(doc)
			c.readPaths(doc, known)
		}
	}
	c.checkParts()
	for _, doc := range c.loaded {
		c.warnUnserved(doc)
	}
	c.readServers(known)
	c.addDescriptions()
	c.warnUncheckedPatterns()
	c.checkUses()
	c.reportIneffective()
	c.warnUnreadDescriptions()
	c.forget()
}

// forget releases the documents, which take most of the memory of a build.
func (c *compiler) forget() {
	c.docs, c.loaded, c.referred, c.extensions, c.open = nil, nil, nil, nil, nil
	c.checked, c.parts, c.partsByVisit = nil, nil, nil
}

// warnMisnamed warns about existing files that the compiler does not read although their names suggest it.
func (c *compiler) warnMisnamed() {
	for name := range c.files {
		if isMisnamed(name) {
			c.warn(printable(name), "", "This file is not read. Routes are described in config/*.oas.json or "+
				"config/*.oas.yaml, policies in %s, settings in %s: write it in JSON under that name, or remove it.", policiesFile,
				settingsFile)
		}
	}
}

// descriptionStart matches the member of an OpenAPI document that has its version, in JSON and YAML.
var descriptionStart = lazy.Regexp(`(^|[{,\n])[ \t\r\n]*["']?(openapi|swagger)["']?[ \t\r\n]*:[ \t\r\n]*["']?[23]\.`)

// descriptionStartBytes is the number of bytes at the start of a file that warnUnreadDescriptions compares with
// descriptionStart.
const descriptionStartBytes = 4 << 10

// warnUnreadDescriptions warns about files in config that begin like an OpenAPI document, but have another name than
// routes files, and to which no reference leads.
func (c *compiler) warnUnreadDescriptions() {
	for name, content := range c.files {
		_, isLoaded := c.loaded[name]
		if isLoaded || !strings.HasPrefix(name, "config/") || !IsReferable(name) || isConfiguration(name) ||
			isMisnamed(name) || !descriptionStart().Match(content[:min(len(content), descriptionStartBytes)]) {
			continue
		}
		extension := path.Ext(name)
		stem := strings.TrimSuffix(strings.TrimSuffix(path.Base(name), extension), ".oas")
		c.warn(printable(name), "", "This OpenAPI description is not read, because of its name, and no reference leads to "+
			"it. Rename it to %s, or remove it.", printable("config/"+stem+".oas"+extension))
	}
}

// inHandlerOptions reports whether a place in an OpenAPI document allows $env: x-gateway-route/handler/options in an
// operation.
func inHandlerOptions(at []string) bool {
	n := len(at) - 3
	return n > 0 && at[n] == routeExtension && at[n+1] == "handler" && at[n+2] == "options" && isOperation(at[:n])
}

// readComponent reads a handler object, which matches its schema, and resolves its variables. It reports mistakes. It
// returns false for an unknown module, and for options that exceed a budget.
func (c *compiler) readComponent(file, at string, object map[string]any) (Component, resolution, bool) {
	export, _ := object["export"].(string)
	module, _ := object["module"].(string)
	ok := c.checkModule(file, at+"/module", module)
	out := Component{Export: export, Module: module}
	options, has := object["options"]
	if !has {
		return out, resolution{}, ok
	}
	if !c.checkOptionBudgets(file, at+"/options", options) {
		return out, resolution{}, false
	}
	res := c.env.resolve(file, at+"/options", options)
	c.env.checkPatternFields(file, at+"/options", res.value, c.artifact.Variables)
	if res.bytes > maxOptionBytes {
		c.failBudget(file, at+"/options", "options", res.bytes, "With the variables put in they are too large. Shorten them.")
		return out, resolution{}, false
	}
	var fits bool
	out.Options, fits = c.encodeOptions(file, at+"/options", res.value)
	return out, res, ok && fits
}

// checkOptionBudgets reports options that exceed their budgets before variables are resolved. It returns false for
// them.
func (c *compiler) checkOptionBudgets(file, at string, options any) bool {
	switch values, bytes := measure(options); {
	case values > maxOptionValues:
		c.failBudget(file, at, "option values", int64(values), "Shorten them.")
	case bytes > maxOptionBytes:
		c.failBudget(file, at, "options", int64(bytes), "Shorten them.")
	default:
		return true
	}
	return false
}

// measure counts the values of a tree, and the bytes of its texts and names.
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

// encodeOptions encodes options for the artifact. It returns false for options that exceed the budget, and reports
// them.
func (c *compiler) encodeOptions(file, at string, value any) (json.RawMessage, bool) {
	data := encodeTree(value)
	if len(data) > maxOptionBytes {
		c.failBudget(file, at, "options", int64(len(data)), "As JSON they are too large. Shorten them.")
		return nil, false
	}
	return data, true
}

// addSize adds to the estimated size of the artifact. It reports once that the artifact is too large, and returns false
// from then on.
func (c *compiler) addSize(file, at string, bytes int) bool {
	before := c.size
	if c.size += bytes; c.size <= maxArtifactBytes {
		return true
	}
	if before <= maxArtifactBytes {
		c.failBudget(file, at, "artifact", int64(c.size),
			"The project's options and paths are too large together. Divide it into several projects.")
	}
	return false
}

// checkModule reports a module that is not built in. It returns false for such a module.
func (c *compiler) checkModule(file, at, module string) bool {
	name, isImport := strings.CutPrefix(module, "$import(")
	name, isClosed := strings.CutSuffix(name, ")")
	switch {
	case isImport && isClosed && (name == "@gatewright/runtime" || name == "@gatewright/graphql"):
		return true
	case isImport && isClosed && strings.HasPrefix(name, "."):
		c.fail(file, at, "Modules of the project's own are not supported: this gateway runs no custom code. Use a built-in "+
			"of $import(@gatewright/runtime) or $import(@gatewright/graphql).")
	default:
		c.fail(file, at, "This is no module. Write $import(@gatewright/runtime) or $import(@gatewright/graphql).")
	}
	return false
}

// reportProblems reports the mistakes that the catalog found in a component, at their
// places in the file. Pointers that begin with /options refer to the resolved options.
func (c *compiler) reportProblems(file, at string, res resolution, problems []Problem) {
	for _, f := range problems {
		if relative, ok := strings.CutPrefix(f.Path, "/options"); ok {
			message, unset := res.explain(relative, f.Message)
			c.failUnset(file, at+"/options"+res.filePointer(relative), unset, message)
			continue
		}
		message, unset := res.explain(f.Path, f.Message)
		c.failUnset(file, at+f.Path, unset, message)
	}
}

// quote returns a name of the project in quotation marks, for a message. It shortens long names.
func quote(name string) string { return fmt.Sprintf("%q", printable(name)) }
