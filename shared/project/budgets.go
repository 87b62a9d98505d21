package project

import (
	"fmt"
	"strconv"
	"time"
)

// A project is hostile until it is built: what its checks cost is bounded here,
// in one place, before the work is done. What has no bound of its own is bounded
// by one that it is made of, so that any archive ends within 30 s and 512 MiB.
//
// The description of the GitHub REST API, the largest public one, uses a tenth
// of each at most, but for four that bound the memory of one tree: a sixth of
// the nesting, a quarter of the values, half of a file's bytes, a quarter of all
// files'. A test measures that; another derives the table of docs/projects.md.
//
// Why before the work and not by looking at the clock and the memory: the JSON
// Schema library and the compiler of regular expressions cannot be interrupted,
// and an author can do something about a name of 160,000 bytes.

// Bounds of archives, which DefaultLimits has too.
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
	keptBytes      = 48 * mib
)

// Bounds of what is in the files.
const (
	maxDepth        = 128
	maxNameBytes    = 2 << 10
	maxPointerBytes = 4 << 10
	maxMembers      = 20_000
	maxValues       = 1_000_000
	maxNumberChars  = 64
	maxExponent     = 308
)

// Bounds of what is made of them.
const (
	maxOperations    = 15_000
	maxOptionBytes   = 64 << 10
	maxOptionValues  = 2_000
	maxAddressBytes  = 16 << 10
	maxArtifactBytes = 8 * mib

	maxToolBytes = 64 << 10
	maxOffered   = 500

	// MaxPatternBytes bounds a URL pattern as it is written.
	MaxPatternBytes = 1 << 10
	// MaxPatternSteps bounds what RE2 makes of a URL pattern: the instructions of
	// its program, each of which a byte of a path may meet once.
	MaxPatternSteps = 1_000
	// MaxPatternsSteps bounds the instructions of all URL patterns together.
	MaxPatternsSteps = 5_000
	// MaxPatterns bounds the number of routes by URL pattern.
	MaxPatterns = 250
	// MaxMatchSteps bounds the bytes of a request's path times the instructions
	// of all URL patterns: some 15 ns each where nothing ends the match early. It
	// leaves 2,000 bytes to the path where MaxPatternsSteps is used up.
	MaxMatchSteps = 10_000_000
)

// Bounds of what a build reports, errors and warnings each: both are stored in
// one record, as JSON. maxProblemBytes counts that; shownPointerBytes is what is
// told of a pointer.
const (
	maxProblems       = 200
	maxProblemBytes   = 48 << 10
	shownPointerBytes = 1 << 10
)

// What a build may take, where nothing but looking at it can bound it: archives
// that are slow to unpack, and whatever the budgets have missed.
const (
	// BuildTime bounds the unpacking and checking of a project.
	BuildTime = 25 * time.Second
	// BuildMemory is what a process may hold that builds a project, in bytes.
	BuildMemory = 512 * mib
)

// Budget is a bound of what a project may have or cost.
type Budget struct {
	// Name is what errors call it.
	Name string
	// Limit is the most that is accepted, in Unit, which is plural.
	Limit int64
	Unit  string
	// Of says what is measured, Why what the bound protects, for the table of
	// docs/projects.md.
	Of, Why string
}

// Most is the limit with its unit, for people.
func (b Budget) Most() string {
	if b.Unit != "bytes" {
		return grouped(b.Limit) + " " + b.Unit
	}
	switch {
	case b.Limit%mib == 0:
		return grouped(b.Limit/mib) + " MiB"
	case b.Limit%(1<<10) == 0:
		return grouped(b.Limit>>10) + " KiB"
	}
	return grouped(b.Limit) + " bytes"
}

// budgetOf finds a budget.
func budgetOf(name string) Budget {
	for _, b := range Budgets() {
		if b.Name == name {
			return b
		}
	}
	panic("project: there is no budget " + name)
}

// Budgets lists all budgets, in the order in which a build meets them.
func Budgets() []Budget {
	return []Budget{
		{"archive", archiveBytes, "bytes", "the archive as it is uploaded", "the time to read it"},
		{"unpacked", unpackedBytes, "bytes", "all of the archive unpacked", "the time to read it"},
		{"ratio", archiveRatio, "times", "unpacked bytes to those of the archive, past 32 MiB", "small archives that unpack to much"},
		{"files", archiveFiles, "files", "files in the archive", "memory for their paths"},
		{"entries", archiveEntries, "entries", "files and folders in the archive", "memory for their paths"},
		{"path", pathBytes, "bytes", "the path of a file in the archive", "memory for paths"},
		{"folders", pathSegments, "segments", "the path of a file in the archive", "programs that unpack it"},
		{"file", fileBytes, "bytes", "one file of the configuration", "memory for its tree"},
		{"configuration", keptBytes, "bytes", "all files of the configuration", "memory while they are checked"},
		{"nesting", maxDepth, "levels", "values within values", "the stack, and the size of pointers"},
		{"name", maxNameBytes, "bytes", "the name of a member of an object", "each error below it repeats it"},
		{"pointer", maxPointerBytes, "bytes", "the JSON pointer of a value", "each error at it repeats it"},
		{"members", maxMembers, "members", "one object", "the schemas copy lists of names at each step"},
		{"values", maxValues, "values", "values in all files together: texts, numbers, lists, objects", "memory for the tree, time for its checks"},
		{"number", maxNumberChars, "characters", "a number as it is written, between -1e308 and 1e308", "arithmetic of any size"},
		{"operations", maxOperations, "operations", "the project", "the gateway's memory"},
		{"options", maxOptionBytes, "bytes", "the options of a handler or policy, with variables put in, and of an `mcp` object", "variables that multiply"},
		{"option values", maxOptionValues, "values", "the options of a handler or policy", "the checks of each"},
		{"address", maxAddressBytes, "bytes", "`rewritePattern` or `baseUrl`, with variables put in", "variables that multiply, in the gateway's memory"},
		{"MCP operations", maxOffered, "operations", "those that one MCP server offers", "clients, which are sent all of them"},
		{"tool", maxToolBytes, "bytes", "what an MCP server tells of an operation: its description, and the schema of its arguments or answers with all that they refer to", "clients, and schemas that multiply"},
		{"artifact", maxArtifactBytes, "bytes", "the compiled project", "the gateway's memory"},
		{"pattern", MaxPatternBytes, "bytes", "a URL pattern as it is written", "the time to compile it"},
		{"pattern steps", MaxPatternSteps, "instructions", "RE2's program of a URL pattern", "the time of every request that it is tried for"},
		{"patterns", MaxPatterns, "patterns", "the routes of a project that are URL patterns", "the time of every request"},
		{"match steps", MaxMatchSteps, "instructions", "RE2's programs of all URL patterns, times the bytes of a request's path; no pattern matches a longer path", "the time of every request"},
		{"all pattern steps", MaxPatternsSteps, "instructions", "RE2's programs of all URL patterns", "the time of every request, the gateway's memory"},
		{"errors", maxProblems, "errors", "errors that are told, and warnings as many; the last one says how many more there are", "the record that holds them"},
		{"time", int64(BuildTime / time.Second), "seconds", "unpacking and checking; what takes longer is tried once more", "the builds that wait"},
		{"memory", BuildMemory, "bytes", "unpacking and checking, in the local run", "the gateway, which is in the same machine"},
		{"error text", maxProblemBytes, "bytes", "errors that are told, and warnings as much", "the record that holds them"},
	}
}

// Over is the message about a budget that is exceeded: its name, what was found
// and what to do.
func Over(name string, found int64, advice string) string {
	b := budgetOf(name)
	return fmt.Sprintf("This is over the budget %q: %s %s, and at most %s. %s", name, grouped(found), b.Unit, grouped(b.Limit), advice)
}

// exceeds is Over where reading ends at the limit, so that nobody knows how much
// there is.
func exceeds(name string, limit int64, advice string) string {
	b := budgetOf(name)
	b.Limit = limit
	return fmt.Sprintf("This is over the budget %q: more than %s. %s", name, b.Most(), advice)
}

// over reports a budget that is exceeded.
func (r *report) over(file, pointer, name string, found int64, advice string) {
	r.fail(file, pointer, "%s", Over(name, found, advice))
}

// grouped writes a number with commas.
func grouped(n int64) string {
	text := strconv.FormatInt(n, 10)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}
