package main

import (
	"os"
	"strings"
	"testing"
)

// TestChangelogParses reads the changelog of the product.
func TestChangelogParses(t *testing.T) {
	raw, err := os.ReadFile("../../CHANGELOG.md")
	if err != nil {
		t.Fatal(err)
	}
	all, err := parse(string(raw))
	if err != nil {
		t.Fatalf("CHANGELOG.md: %v", err)
	}
	if all[0].version != unreleased {
		t.Errorf("the first section is [%s], want [%s]", all[0].version, unreleased)
	}
}

func TestMalformedChangelogIsAnError(t *testing.T) {
	const start = "# Changelog\n\n## [Unreleased]\n"
	const release = "\n## [1.0.0] - 2026-01-02\n\n### Upgrade\n\nNothing.\n"
	for _, tt := range []struct{ name, in, want string }{
		{"a text without a group", start + "\nA word.\n", "line 5: put the text below"},
		{"no title", "## [Unreleased]\n", "line 1: begin with # Changelog"},
		{"no section", "# Changelog\n", "no section"},
		{"a release first", "# Changelog\n" + release, "the first section is [Unreleased]"},
		{"unreleased twice", start + "## [Unreleased]\n", "once"},
		{"unreleased with a date", "# Changelog\n## [Unreleased] - 2026-01-02\n", "has a date"},
		{"a heading without brackets", start + "## 1.0.0 - 2026-01-02\n", "is no heading of a section"},
		{"a release without a date", start + "## [1.0.0]\n\n### Upgrade\n\nNothing.\n", "needs the date"},
		{"a day that does not exist", start + "## [1.0.0] - 2026-02-30\n", "needs the date"},
		{"a release twice", start + release + release, "two sections"},
		{"an older release first", start + release + "\n## [1.1.0] - 2026-02-01\n\n### Upgrade\n\nNothing.\n", "newer than the section above"},
		{"no upgrade note", start + "## [1.0.0] - 2026-01-02\n\n### Added\n\n- All.\n", "no upgrade note"},
		{"an unknown group", start + "### News\n\n- All.\n", `"News" is none of`},
		{"groups in another order", start + "### Fixed\n\n- One.\n\n### Added\n\n- All.\n", "Added comes before Fixed"},
		{"an empty group", start + "### Added\n\n### Fixed\n\n- One.\n", "nothing below Added"},
	} {
		if _, err := parse(tt.in); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: parse() = %v, want an error with %q", tt.name, err, tt.want)
		}
	}
	if all, err := parse(start + release); err != nil || len(all) != 2 {
		t.Errorf("parse(a complete one) = %d sections, %v, want 2", len(all), err)
	}
}
