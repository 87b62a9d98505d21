package repolint

import "strings"

// record returns a decision record with the given parts.
func record(parts ...string) string {
	text := "# A title\n"
	for _, p := range parts {
		text += "\n## " + p + "\n\nWords.\n"
	}
	return text
}

// linkCases returns cases about links between documents.
func linkCases() []ruleCase {
	return []ruleCase{
		{
			"a link to a missing file", Links,
			file("a.md", "text\n\n[x](b.md)"),
			[]string{"a.md:3: b.md: no such file"},
		},
		{
			"a reference to a missing file", Links,
			file("a.md", "[x][1]\n\n[1]: b.md"),
			[]string{"b.md: no such file"},
		},
		{
			"a link to a missing heading", Links,
			file("a.md", "[x](#two)\n\n# One"),
			[]string{"#two: no such heading"},
		},
		{"a link to a heading", Links, map[string]string{
			"docs/a.md": "[x](../b.md#the-one-of-two)",
			"b.md":      "# The `one`, of two\n",
		}, nil},
		{
			"a link to the second of two headings", Links,
			file("a.md", "[x](#a-1) [y](#a-2)\n\n# A\n\n# A\n"),
			[]string{"#a-2"},
		},
		{"a link to a folder", Links, map[string]string{"a.md": "[x](b/)", "b/c.txt": "c"}, nil},
		{"a link to another site", Links, file("a.md", "[x](https://example.com/y.md)"), nil},
		{"code that looks like a link", Links, file("a.md", "`[x](b.md)`\n\n```\n[x](b.md)\n# x\n```\n"), nil},
	}
}

// decisionCases returns cases about decision records.
func decisionCases() []ruleCase {
	return []ruleCase{
		{"a record with all parts", Decisions, file("docs/decisions/0001-a-b.md", record(decisionParts...)), nil},
		{
			"a record without a part", Decisions,
			file("docs/decisions/0001-a.md", record(decisionParts[:4]...)),
			[]string{"has the parts"},
		},
		{
			"a record with an empty part", Decisions,
			file("docs/decisions/0001-a.md", record(decisionParts[:4]...)+"\n## When to look again\n"),
			[]string{"has the parts"},
		},
		{
			"a record without a title", Decisions,
			file("docs/decisions/0001-a.md", strings.TrimPrefix(record(decisionParts...), "# ")),
			[]string{"has no title"},
		},
		{"two records with one number", Decisions, map[string]string{
			"docs/decisions/0001-a.md": record(decisionParts...),
			"docs/decisions/0001-b.md": record(decisionParts...),
		}, []string{"0001-b.md: has the number of 0001-a.md"}},
		{
			"a record without a number", Decisions,
			file("docs/decisions/a.md", record(decisionParts...)),
			[]string{"is no NNNN-title.md"},
		},
	}
}

// commandCases returns cases about the commands that documents and programs name.
func commandCases() []ruleCase {
	return []ruleCase{
		{"commands that run tests", RunPatterns, map[string]string{
			"Makefile":    "x:\n\tgo test -vet=off -run='^(TestA|B)$$' ./k -update",
			"docs/a.md":   "`go test ./k -run TestAB/case -v` and `go test -run='^$'`",
			"k/k_test.go": "package k\n\nfunc TestAB(t *testing.T) {}",
		}, nil},
		{"commands that run no tests", RunPatterns, map[string]string{
			"Makefile":    "x:\n\tgo test ./k -run=TestAB|TestC",
			"docs/a.md":   "a\n`go test ./k -run TestD`",
			"k/k_test.go": "package k\n\nfunc TestAB(t *testing.T) {}",
		}, []string{"Makefile:2: -run TestC: no test", "docs/a.md:2: -run TestD: no test"}},

		{"a missing target", MakeTargets, map[string]string{
			"Makefile": "run: ## run it\n",
			"a.md":     "`make run` and `make test`\n\n```sh\nmake fmt\n```\n",
		}, []string{"make test", "make fmt"}},
		{
			"a variable that the target does not use", MakeTargets,
			map[string]string{
				"Makefile": "run: ## run it\n\tgo run . $(PORT) $${DIR:-.} $(value FILE)\n",
				"a.md": "`make run PORT=1 FILE=b NAME='a b'`\n\n1. Run it:\n\n" +
					"        make run STAGE=\"a\" DIR=b AWS_REGION=c\n",
			},
			[]string{"uses no NAME", "uses no STAGE"},
		},
		{
			"npm packages of a folder without package-lock.json", NpmFolders,
			map[string]string{
				"a.go":                  "package a\n\nconst missing = \"run npm ci --pre" + "fix a: then repeat\"",
				"a/b/package-lock.json": "{}",
			},
			[]string{"a.go:3: npm ci --pre" + "fix a: "},
		},
		{
			"npm packages of a folder with package-lock.json", NpmFolders,
			map[string]string{
				"a.md":                  "`npm ci --pre" + "fix a/b` installs them.",
				"Makefile":              "npm ci --pre" + "fix $(FOLDER)",
				"a/b/package-lock.json": "{}",
			},
			nil,
		},
		{"a target without help", MakeTargets, file("Makefile", "run:\n\tgo run .\n"), []string{"run has no help"}},
		{
			"a sentence with make", MakeTargets,
			map[string]string{"Makefile": "run: ## run it\n", "a.md": "They make sense."},
			nil,
		},
	}
}

// linted returns a tree with a comment and with gosec as the only linter.
func linted(comment string) map[string]string {
	return map[string]string{
		".golangci.yml": "linters:\n  enable:\n    - gosec # why\n\n  settings:\n",
		"a/a.go":        "package a\n\n" + comment + "\nvar x = 2",
	}
}

// buildCases returns cases about builds, foreign paths and linters.
func buildCases() []ruleCase {
	return []ruleCase{
		{"a file for one system that no build compiles", UncompiledSystems, map[string]string{
			"Makefile":       "PORTABLE := ./b \\\n  ./c\nx: ./a\n",
			"a/a_windows.go": "package a", "b/b_unix.go": "package b",
			"c/c_darwin_test.go": "package c", "a/window.go": "package a",
		}, []string{"lacks ./a,"}},

		{"one set of build flags", BuildFlags, map[string]string{
			"Makefile": "BUILD_FLAGS := -trimpath -tags=lambda.norpc\nexport CGO_ENABLED := 0\n" +
				"export GOFLAGS := $(strip $(BUILD_FLAGS))\nrace: export CGO_ENABLED := 1\n" +
				"race:\n\tgo test -race ./...\n# Without -trimpath.\n",
			"a/a.go":              "package a\nconst build = \"go build -buildvcs=false -ldflags=-s\"",
			"infra/image/sbom.go": "package image\nconst tags = \"-tags\"",
		}, nil},
		{"a command with other build flags", BuildFlags, map[string]string{
			"Makefile": "cli:\n\tCGO_ENABLED=1 go build -o $@ .\n\tgo build -modfile=x.mod .\n",
			".ci/run":  "export GOFLAGS=\"-race\"\n", "x.sh": "go test -gcflags=-N .\n",
		}, []string{
			"Makefile:2: CGO_ENABLED=", "Makefile:3: -modfile",
			".ci/run:1: GOFLAGS=", ".ci/run:1: -race", "x.sh:1: -gcflags",
		}},
		{"a program that builds with other flags", BuildFlags, map[string]string{
			"a/a.go": "package a\nvar args = []string{\"build\", \"-trimpath\", \"-tags=x\"}\nconst env = \"CGO_ENABLED=0\"",
		}, []string{"a/a.go:2: -trimpath", "a/a.go:2: -tags", "a/a.go:3: CGO_ENABLED="}},

		{"a machine's path", MachinePaths, file("a.txt", "one\n/ro"+"ot/x"), []string{"a.txt:2"}},
		{"a user's home folder", MachinePaths, file("a.go", "package a // /ho"+"me/anna/x"), []string{"a.go:1"}},
		{
			"a registry's host", MachinePaths,
			file("package-lock.json", "https://registry.npm"+"js.org/x"),
			[]string{"package-lock.json:1"},
		},
		{
			"each forbidden path and host", MachinePaths,
			map[string]string{
				"work":   "/wo" + "rk/x",
				"go":     "proxy.go" + "lang.org",
				"sums":   "sum.go" + "lang.org",
				"python": "pyp" + "i.org",
				"rust":   "crate" + "s.io",
				"debian": "deb.deb" + "ian.org",
				"java":   "repo1.mav" + "en.org",
				"apache": "repo.mav" + "en.apache.org",
			},
			[]string{"work:1", "go:1", "sums:1", "python:1", "rust:1", "debian:1", "java:1", "apache:1"},
		},
		{"other paths and hosts", MachinePaths, file("a.txt", "/v1/work, https://example.com/root"), nil},

		{
			"a linter without a reason", LinterReasons,
			file(".golangci.yml", "linters:\n  enable:\n    - gosec # why\n    - noctx\n\n  settings:\n"),
			[]string{"noctx has no reason"},
		},
		{"no linters", LinterReasons, map[string]string{}, []string{"no list"}},
		{"a nolint directive for an enabled linter", UnusedNolint, linted("//nolint:gosec // why"), nil},
		{
			"a nolint directive for an enabled and a disabled linter",
			UnusedNolint, linted("//nolint:gosec,mnd // why"),
			[]string{"nolint:mnd"},
		},
		{"a comment that mentions a nolint directive", UnusedNolint, linted("// Write //nolint:mnd."), nil},
	}
}
