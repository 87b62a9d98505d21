package main

import (
	"os"
	"strings"
	"testing"
)

// TestChangelogParses checks that the changelog of the product is valid, and that its first section has the unreleased
// changes.
func TestChangelogParses(t *testing.T) {
	raw, err := os.ReadFile("../../CHANGELOG.md")
	if err != nil {
		t.Fatal(err)
	}
	log, err := parseChangelog(string(raw))
	if err != nil {
		t.Fatalf("parseChangelog(CHANGELOG.md) error = %v, want none", err)
	}
	if log[0].version != unreleased {
		t.Errorf("the first section is [%s], want [%s]", log[0].version, unreleased)
	}
}

// TestMalformedChangelogIsAnError checks the error of each malformed changelog, and that a complete one is accepted.
func TestMalformedChangelogIsAnError(t *testing.T) {
	const header = "# Changelog\n\n## [Unreleased]\n"
	const release = "\n## [1.0.0] - 2026-01-02\n\n### Upgrade\n\nNothing.\n"
	for _, tt := range []struct{ name, in, want string }{
		{"a text without a group", header + "\nA word.\n", "line 5: put the text below"},
		{"no title", "## [Unreleased]\n", "line 1: begin with # Changelog"},
		{"no section", "# Changelog\n", "no section"},
		{"a release first", "# Changelog\n" + release, "the first section is [Unreleased]"},
		{"unreleased twice", header + "## [Unreleased]\n", "once"},
		{"unreleased with a date", "# Changelog\n## [Unreleased] - 2026-01-02\n", "has a date"},
		{"a heading without brackets", header + "## 1.0.0 - 2026-01-02\n", "is no heading of a section"},
		{"a release without a date", header + "## [1.0.0]\n\n### Upgrade\n\nNothing.\n", "needs the date"},
		{"a day that does not exist", header + "## [1.0.0] - 2026-02-30\n", "needs the date"},
		{"a release twice", header + release + release, "two sections"},
		{
			"an older release first", header + release + "\n## [1.1.0] - 2026-02-01\n\n### Upgrade\n\nNothing.\n",
			"newer than the section above",
		},
		{"no upgrade note", header + "## [1.0.0] - 2026-01-02\n\n### Added\n\n- All.\n", "no upgrade note"},
		{"an unknown group", header + "### News\n\n- All.\n", `"News" is none of`},
		{"groups in another order", header + "### Fixed\n\n- One.\n\n### Added\n\n- All.\n", "Added comes before Fixed"},
		{"an empty group", header + "### Added\n\n### Fixed\n\n- One.\n", "nothing below Added"},
	} {
		if _, err := parseChangelog(tt.in); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: parseChangelog() error = %v, want one with %q", tt.name, err, tt.want)
		}
	}
	if log, err := parseChangelog(header + release); err != nil || len(log) != 2 {
		t.Errorf("parseChangelog(complete changelog) = %d sections, %v, want 2 and no error", len(log), err)
	}
}
