package house

import (
	"path"
	"regexp"
	"slices"
	"strings"
)

var (
	makeTarget = regexp.MustCompile(`(?m)^([a-z][a-z-]*):`)
	makeHelp   = regexp.MustCompile(`(?m)^([a-z][a-z-]*):.*## \S`)
	makeCall   = regexp.MustCompile(`\bmake ([a-z][a-z-]*)\b`)
	// makeSays is a call with what it says, such as STAGE=dev, each in one of the groups.
	makeSays = regexp.MustCompile(`\bmake [a-z][a-z-]*((?: +[A-Z][A-Z_]*=(?:'[^']*'|"[^"]*"|[^\s'"` + "`" + `]*))+)`)
	said     = regexp.MustCompile(`(?:^| )([A-Z][A-Z_]*)=`)
	makeUses = regexp.MustCompile(`\$[({](?:value )?([A-Z][A-Z_]*)\b`)
	indented = regexp.MustCompile(`(?m)^ {4,}make .*$`)
)

// MakeTargets asks every `make target` in a document's code for a target of
// the Makefile, every variable that it says for one that the Makefile uses, and every target for the line that
// `make help` shows. What begins with AWS is for programs that targets run.
func MakeTargets(t *Tree) (found []Finding) {
	targets, helped := names(makeTarget, t.Texts["Makefile"]), names(makeHelp, t.Texts["Makefile"])
	used := names(makeUses, t.Texts["Makefile"])
	for target := range targets {
		if !helped[target] {
			found = append(found, Finding{Path: "Makefile", Text: target + " has no help: target: … ## what it does"})
		}
	}
	for name, text := range t.markdown() {
		prose := blank(fence, text)
		code := strings.Join(slices.Concat(fence.FindAllString(text, -1), inlineCode.FindAllString(prose, -1), indented.FindAllString(prose, -1)), "\n")
		for _, call := range makeSays.FindAllStringSubmatch(code, -1) {
			for variable := range names(said, call[1]) {
				if !used[variable] && !strings.HasPrefix(variable, "AWS_") {
					found = append(found, Finding{Path: name, Text: call[0] + ": the Makefile uses no " + variable})
				}
			}
		}
		for call := range names(makeCall, code) {
			if !targets[call] {
				found = append(found, Finding{Path: name, Text: "make " + call + ": the Makefile has no such target"})
			}
		}
	}
	return found
}

var (
	systemFile = regexp.MustCompile(`_(windows|darwin|linux|unix|other)(_test)?\.go$`)
	portable   = regexp.MustCompile(`(?m)^PORTABLE := ((?:.*\\\n)*.*)$`)
)

// Systems asks for every package with files for one system that `make cross`
// compiles it, and its tests, for all of them.
func Systems(t *Tree) (found []Finding) {
	compiled := map[string]bool{}
	if list := portable.FindStringSubmatch(t.Texts["Makefile"]); list != nil {
		for _, dir := range strings.Fields(list[1]) {
			compiled[strings.TrimPrefix(dir, "./")] = true
		}
	}
	for name := range t.Texts {
		if dir := path.Dir(name); systemFile.MatchString(name) && !compiled[dir] {
			found = append(found, Finding{Path: name, Text: "PORTABLE in the Makefile lacks ./" + dir + ", so that nobody compiles this for its system"})
		}
	}
	return found
}

var (
	architectureFile = regexp.MustCompile(`_(386|amd64|arm|arm64)(_test)?\.go$`)
	architectureTag  = regexp.MustCompile(`^//go:build .*\b(386|amd64|arm|arm64)\b`)
)

// Architectures refuses what is compiled for one architecture alone: `make check` looks at each
// system for one of them.
func Architectures(t *Tree) (found []Finding) {
	for _, p := range t.Packages {
		for name, file := range p.Files {
			if architectureFile.MatchString(name) {
				found = append(found, Finding{Path: name, Text: "is for one architecture, and make check looks at each system for one of them: CHECKED in the Makefile"})
			}
			for _, group := range file.Comments {
				for _, c := range group.List {
					if architectureTag.MatchString(c.Text) {
						found = append(found, Finding{name, t.line(c.Pos()), "is for one architecture, and make check looks at each system for one of them: CHECKED in the Makefile"})
					}
				}
			}
		}
	}
	return found
}

func names(pattern *regexp.Regexp, text string) map[string]bool {
	found := map[string]bool{}
	for _, m := range pattern.FindAllStringSubmatch(text, -1) {
		found[m[1]] = true
	}
	return found
}

// foreign are paths of somebody's machine and hosts of package registries,
// which every machine has its own way to. The patterns don't match themselves.
var foreign = regexp.MustCompile(`/(work|root)/|/home/[a-z]+/|` +
	`\b(proxy|sum)\.golang\.org|registry\.npmjs\.org|\bpypi\.org|\bcrates\.io|\bdeb\.debian\.org|repo1?\.maven\.(apache\.)?org`)

// inForeign are texts of which each match of foreign has one. Few files have any, and to look for these is much faster.
var inForeign = []string{"work/", "root/", "/home/", "proxy.golang", "sum.golang", "npmjs", "pypi.", "crates.", "debian.", "maven."}

// Foreign refuses names of one machine or of a registry anywhere in the
// repository.
func Foreign(t *Tree) (found []Finding) {
	for name, text := range t.Texts {
		if !slices.ContainsFunc(inForeign, func(part string) bool { return strings.Contains(text, part) }) {
			continue
		}
		for _, at := range foreign.FindAllStringIndex(text, -1) {
			found = append(found, Finding{name, 1 + strings.Count(text[:at[0]], "\n"), text[at[0]:at[1]] + ": no machine's path and no registry's host"})
		}
	}
	return found
}

// Programs refuses what was built into the tree, from where a commit takes it along for good.
func Programs(t *Tree) (found []Finding) {
	for _, name := range t.Programs {
		found = append(found, Finding{Path: name, Text: "is a program: remove it, and build into dist/"})
	}
	return found
}

var (
	linterLine = regexp.MustCompile(`(?m)^    - ([a-z]+)( # \S.*)?$`)
	enabled    = regexp.MustCompile(`(?s)\n  enable:\n(.*?)\n\n`)
)

// LinterReasons asks every linter that is switched on for the reason beside it.
func LinterReasons(t *Tree) (found []Finding) {
	const name = ".golangci.yml"
	list := enabled.FindString(t.Texts[name])
	if list == "" {
		return []Finding{{Path: name, Text: "has no list of linters"}}
	}
	for _, m := range linterLine.FindAllStringSubmatch(list, -1) {
		if m[2] == "" {
			found = append(found, Finding{Path: name, Text: m[1] + " has no reason beside it"})
		}
	}
	return found
}

var (
	directive  = regexp.MustCompile(`(?m)//nolint:([a-z0-9,]+)`)
	switchedOn = regexp.MustCompile(`(?m)^    - ([a-z0-9]+)`)
)

// Directives asks every exception from a linter for one that runs: of another it
// hides nothing, and a reader takes it for a rule of the house.
func Directives(t *Tree) (found []Finding) {
	running := names(switchedOn, enabled.FindString(t.Texts[".golangci.yml"]))
	for _, p := range t.Packages {
		for name, file := range p.Files {
			for _, group := range file.Comments {
				for _, c := range group.List {
					m := directive.FindStringSubmatch(c.Text)
					if m == nil || !strings.HasPrefix(c.Text, m[0]) {
						continue
					}
					for linter := range strings.SplitSeq(m[1], ",") {
						if !running[linter] {
							found = append(found, Finding{name, t.line(c.Pos()), "nolint:" + linter + ": that linter does not run"})
						}
					}
				}
			}
		}
	}
	return found
}
