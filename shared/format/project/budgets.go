package project

import (
	"fmt"
	"strconv"
	"time"

	"github.com/gatewright/gatewright/shared/format/yamljson"
)

// Every project is untrusted until it is built. This file bounds the cost of all checks in one
// place, before the work begins. A quantity without a separate bound is bounded through one of
// its parts. The build of any archive therefore ends within 30 s and uses at most 512 MiB.
//
// The OpenAPI document of the GitHub REST API is one of the largest public ones. It uses at most a tenth of each budget
// that a test measures, except for four budgets that bound the memory of one tree: a sixth of the nesting, a quarter of
// the values, half of a file's bytes and a quarter of all files' bytes. Another test compares the table in
// docs/projects.md with Budgets.
//
// There are two reasons to check bounds before the work instead of time and memory during
// the work. Callers cannot interrupt the JSON Schema library and the compiler of regular
// expressions. And an author can correct a name of 160,000 bytes, but not a timeout.

// Bounds of archives, which DefaultLimits returns.
const (
	mib = 1 << 20

	archiveBytes   = 100 * mib
	unpackedBytes  = 512 * mib
	archiveRatio   = 100
	archiveFiles   = 9_999
	archiveEntries = 20_000
	pathBytes      = 512
	pathSegments   = 32
	fileBytes      = 24 * mib
	configBytes    = 48 * mib
)

// Bounds of the content of files.
const (
	maxDepth        = 128
	maxNameBytes    = 2 << 10
	maxPointerBytes = 4 << 10
	maxMembers      = 20_000
	maxValues       = 1_000_000
	maxNumberChars  = 64
	maxExponent     = 308
)

// Bounds of the parts of a compiled project.
const (
	maxOperations    = 15_000
	maxOptionBytes   = 64 << 10
	maxOptionValues  = 2_500 // an MCP server lists up to 500 operations, with four values each
	maxAddressBytes  = 16 << 10
	maxArtifactBytes = 24 * mib

	maxSecurityChecks = 100_000
	// maxInbound is the maximum number of inbound policies of a route, as in schemas/route.json.
	maxInbound = 100

	maxToolBytes         = 64 << 10
	maxOfferedOperations = 500

	// MaxPatternBytes is the maximum length of a URL pattern in the project's files.
	MaxPatternBytes = 1 << 10
	// MaxPatternSteps is the maximum number of RE2 instructions of a URL pattern. A byte of a path can run each
	// instruction once.
	MaxPatternSteps = 1_000
	// MaxTotalPatternSteps is the maximum number of RE2 instructions of all URL patterns of a project together.
	MaxTotalPatternSteps = 5_000
	// MaxPatterns is the maximum number of routes with a URL pattern.
	MaxPatterns = 250
	// MaxMatchSteps is the maximum product of two numbers: the bytes of a request's path, and the RE2 instructions of
	// all URL patterns. Each step takes some 15 ns if nothing ends the match early. No URL pattern matches a path that is
	// too long for it: longer than 2,000 bytes if a project uses all of MaxTotalPatternSteps.
	MaxMatchSteps = 10_000_000
)

// Bounds of the errors of a build. The same bounds apply to its warnings separately. One record stores both, as JSON.
// maxProblemBytes counts the bytes of the JSON; shownPointerBytes is the maximum length of a reported pointer.
const (
	maxProblems       = 200
	maxProblemBytes   = 48 << 10
	shownPointerBytes = 1 << 10
)

// Bounds that are enforced by measuring time and memory. They stop archives
// that are slow to unpack, and builds whose costs the budgets do not bound.
const (
	// BuildTime is the maximum time for unpacking and checking a project.
	BuildTime = 25 * time.Second
	// BuildMemory is the maximum memory of a process that builds a project, in bytes.
	BuildMemory = 512 * mib
)

// Budget is a bound of a project's size or cost.
type Budget struct {
	// Name is the name that errors show.
	Name string
	// Limit is the maximum that is accepted, in Unit. Unit is plural.
	Limit int64
	Unit  string
	// Measures is what the bound measures, and Protects is what it protects, for the table in docs/projects.md.
	Measures, Protects string
}

// LimitText returns the limit with its unit, for people.
func (b Budget) LimitText() string {
	if b.Unit != "bytes" {
		return formatThousands(b.Limit) + " " + b.Unit
	}
	switch {
	case b.Limit%mib == 0:
		return formatThousands(b.Limit/mib) + " MiB"
	case b.Limit%(1<<10) == 0:
		return formatThousands(b.Limit>>10) + " KiB"
	}
	return formatThousands(b.Limit) + " bytes"
}

// budgetOf returns the budget with a name. It panics if there is none.
func budgetOf(name string) Budget {
	for _, b := range Budgets() {
		if b.Name == name {
			return b
		}
	}
	panic("project: there is no budget " + name)
}

// Budgets returns all budgets, in the order of the table in docs/projects.md.
func Budgets() []Budget {
	return []Budget{
		{"archive", archiveBytes, "bytes", "the archive as it is uploaded", "the time to read it"},
		{"unpacked", unpackedBytes, "bytes", "all of the archive unpacked", "the time to read it"},
		{
			"ratio", archiveRatio, "times", "unpacked bytes to those of the archive, past 32 MiB",
			"small archives that unpack to much",
		},
		{"files", archiveFiles, "files", "files in the archive", "memory for their paths"},
		{"entries", archiveEntries, "entries", "files and folders in the archive", "memory for their paths"},
		{"path", pathBytes, "bytes", "the path of a file in the archive", "memory for paths"},
		{"folders", pathSegments, "segments", "the path of a file in the archive", "programs that unpack it"},
		{"file", fileBytes, "bytes", "one file of the configuration, or one that is referred to", "memory for its tree"},
		{
			"configuration", configBytes, "bytes", "all files of the configuration; other JSON and YAML files are left out if " +
				"they exceed it together", "memory while they are checked",
		},
		{"nesting", maxDepth, "levels", "values within values", "the stack, and the size of pointers"},
		{"name", maxNameBytes, "bytes", "the name of a member of an object", "each error below it repeats it"},
		{"pointer", maxPointerBytes, "bytes", "the JSON pointer of a value", "each error at it repeats it"},
		{"members", maxMembers, "members", "one object", "the schemas copy lists of names at each step"},
		{
			"values", maxValues, "values", "values in all files together: texts, numbers, lists, objects",
			"memory for the tree, time for its checks",
		},
		{"nodes", yamljson.MaxNodes, "nodes", "names, values and comments of a file in YAML", "memory for its tree"},
		{
			"number", maxNumberChars, "characters", "a number as it is written, between -1e308 and 1e308",
			"arithmetic of any size",
		},
		{"operations", maxOperations, "operations", "the project", "the gateway's memory"},
		{
			"security", maxSecurityChecks, "schemes", "the security requirements of all operations together",
			"the time for their checks",
		},
		{
			"options", maxOptionBytes, "bytes",
			"the options of a handler or policy, with variables put in, and of an `mcp` object", "variables that multiply",
		},
		{"option values", maxOptionValues, "values", "the options of a handler or policy", "the checks of each"},
		{
			"address", maxAddressBytes, "bytes", "`rewritePattern` or `baseUrl`, with variables put in",
			"variables that multiply, in the gateway's memory",
		},
		{
			"MCP operations", maxOfferedOperations, "operations", "those that one MCP server offers",
			"clients, which are sent all of them",
		},
		{"tool", maxToolBytes, "bytes", "what an MCP server tells of an operation: its description, and the schema of its " +
			"arguments or answers with all that they refer to", "clients, and schemas that multiply"},
		{"artifact", maxArtifactBytes, "bytes", "the compiled project", "the gateway's memory"},
		{"pattern", MaxPatternBytes, "bytes", "a URL pattern as it is written", "the time to compile it"},
		{
			"pattern steps", MaxPatternSteps, "instructions", "RE2's program of a URL pattern",
			"the time of every request that it is tried for",
		},
		{"patterns", MaxPatterns, "patterns", "the routes of a project that are URL patterns", "the time of every request"},
		{"match steps", MaxMatchSteps, "instructions", "RE2's programs of all URL patterns, times the bytes of a request's " +
			"path; no pattern matches a longer path", "the time of every request"},
		{
			"all pattern steps", MaxTotalPatternSteps, "instructions", "RE2's programs of all URL patterns",
			"the time of every request, the gateway's memory",
		},
		{
			"errors", maxProblems, "errors",
			"errors that are told, and warnings as many; the last one says how many more there are",
			"the record that holds them",
		},
		{
			"time", int64(BuildTime / time.Second), "seconds", "unpacking and checking; what takes longer is tried once more",
			"the builds that wait",
		},
		{
			"memory", BuildMemory, "bytes", "unpacking and checking, in the local run",
			"the gateway, which is in the same machine",
		},
		{"error text", maxProblemBytes, "bytes", "errors that are told, and warnings as much", "the record that holds them"},
	}
}

// BudgetExceeded returns the message about an exceeded budget: its name, the measured number and what to do.
func BudgetExceeded(name string, actual int64, advice string) string {
	b := budgetOf(name)
	return fmt.Sprintf("This is over the budget %q: %s %s, and at most %s. %s", name, formatThousands(actual), b.Unit,
		formatThousands(b.Limit), advice)
}

// limitExceeded returns the message about an exceeded budget if reading ended at the limit, so that the total is
// unknown. limit replaces the Limit of the budget, since callers of Unpack can choose other Limits.
func limitExceeded(name string, limit int64, advice string) string {
	b := budgetOf(name)
	b.Limit = limit
	return fmt.Sprintf("This is over the budget %q: more than %s. %s", name, b.LimitText(), advice)
}

// failBudget reports an exceeded budget.
func (r *report) failBudget(file, pointer, name string, actual int64, advice string) {
	r.fail(file, pointer, "%s", BudgetExceeded(name, actual, advice))
}

// formatThousands formats a number with commas.
func formatThousands(n int64) string {
	text := strconv.FormatInt(n, 10)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}
