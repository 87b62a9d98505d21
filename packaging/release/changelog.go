package main

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"
)

const (
	// unreleased stands in place of the version in the section with the changes since the last release.
	unreleased = "Unreleased"
	// upgrade is the heading of a group that Keep a Changelog does not define. The group says what administrators must
	// know or do for an upgrade.
	upgrade = "Upgrade"
)

// groups are the headings within a section, in their order (https://keepachangelog.com/en/1.1.0/).
var groups = []string{"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security", upgrade}

// sectionHeading matches the heading of a section, and captures its version and its date.
var sectionHeading = regexp.MustCompile(`^## \[(Unreleased|\d+\.\d+\.\d+)\](?: - (\d{4}-\d{2}-\d{2}))?$`)

// section describes the changes of one release.
type section struct {
	version, date string
	groups        []group
}

// group is a kind of change with its text.
type group struct{ name, text string }

// changelog is a list of sections, the newest first.
type changelog []section

// find returns the section of a version, or nil if there is none.
func (c changelog) find(version string) *section {
	if i := slices.IndexFunc(c, func(s section) bool { return s.version == version }); i >= 0 {
		return &c[i]
	}
	return nil
}

// parseChangelog parses a changelog. It returns an error if the text does not have the format of Keep a Changelog, or
// if a release has no upgrade note.
func parseChangelog(text string) (changelog, error) {
	var log changelog
	for i, line := range strings.Split(text, "\n") {
		lineError := func(format string, args ...any) error {
			return fmt.Errorf("line %d: %w", i+1, fmt.Errorf(format, args...))
		}
		switch {
		case i == 0 && line != "# Changelog":
			return nil, lineError("begin with # Changelog, the title")
		case strings.HasPrefix(line, "## "):
			m := sectionHeading.FindStringSubmatch(line)
			if m == nil {
				return nil, lineError("%q is no heading of a section: write it as ## [1.2.3] - 2026-01-31, or ## [%s]", line,
					unreleased)
			}
			s := section{version: m[1], date: m[2]}
			if err := log.checkOrder(s); err != nil {
				return nil, lineError("%w", err)
			}
			log = append(log, s)
		case strings.HasPrefix(line, "### "):
			name := strings.TrimPrefix(line, "### ")
			if len(log) == 0 || !slices.Contains(groups, name) {
				return nil, lineError("%q is none of the headings within a section: use %s, below a ## heading", name,
					strings.Join(groups, ", "))
			}
			s := &log[len(log)-1]
			if len(s.groups) > 0 && slices.Index(groups, s.groups[len(s.groups)-1].name) >= slices.Index(groups, name) {
				return nil, lineError("%s comes before %s: use each heading once, in the order %s", name,
					s.groups[len(s.groups)-1].name, strings.Join(groups, ", "))
			}
			s.groups = append(s.groups, group{name: name})
		case len(log) > 0 && strings.TrimSpace(line) != "" && len(log[len(log)-1].groups) == 0:
			return nil, lineError("put the text below one of %s", strings.Join(groups, ", "))
		case len(log) > 0 && len(log[len(log)-1].groups) > 0:
			g := &log[len(log)-1].groups[len(log[len(log)-1].groups)-1]
			g.text += line + "\n"
		}
	}
	return log, log.checkComplete()
}

// checkOrder returns an error if a section must not follow the sections of c.
func (c changelog) checkOrder(s section) error {
	switch {
	case len(c) == 0 && s.version != unreleased:
		return fmt.Errorf("[%s] is missing: the first section is [%[1]s], which may be empty", unreleased)
	case len(c) > 0 && s.version == unreleased:
		return fmt.Errorf("[%s] is not the first section: write it once, above all releases", unreleased)
	case s.version == unreleased && s.date != "":
		return fmt.Errorf("[%s] has a date: remove it", unreleased)
	case s.version == unreleased:
		return nil
	case c.find(s.version) != nil:
		return fmt.Errorf("[%s] has two sections: merge them", s.version)
	}
	if _, err := time.Parse(time.DateOnly, s.date); err != nil {
		return fmt.Errorf("[%s] needs the date of the release, such as 2026-01-31: %w", s.version, err)
	}
	if previous := c[len(c)-1].date; previous != "" && previous < s.date {
		return fmt.Errorf("[%s] is newer than the section above it: put the newest release first", s.version)
	}
	return nil
}

// checkComplete returns an error if a changelog has no section, an empty group, or a release without an upgrade note.
func (c changelog) checkComplete() error {
	if len(c) == 0 {
		return errors.New("there is no section: add ## [Unreleased]")
	}
	for _, s := range c {
		for _, g := range s.groups {
			if strings.TrimSpace(g.text) == "" {
				return fmt.Errorf("[%s] has nothing below %s: describe the changes or remove the heading", s.version, g.name)
			}
		}
		if s.version != unreleased && (len(s.groups) == 0 || s.groups[len(s.groups)-1].name != upgrade) {
			return fmt.Errorf("[%s] has no upgrade note: write below ### %s what administrators have to do, or that they have "+
				"to do nothing", s.version, upgrade)
		}
	}
	return nil
}

// notes returns the release notes of a section.
func (s section) notes(version string) string {
	var out strings.Builder
	fmt.Fprintf(&out, "# Gatewright %s\n", version)
	if s.version == unreleased {
		out.WriteString("\nThis is a dry run: it has no tag and no signature. Do not publish it.\n")
	} else {
		fmt.Fprintf(&out, "\nReleased %s. Installation and verification: docs/install.md.\n", s.date)
	}
	for _, g := range s.groups {
		fmt.Fprintf(&out, "\n## %s\n\n%s\n", g.name, strings.Trim(g.text, "\n"))
	}
	return out.String()
}
