package repolint

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/gatewright/gatewright/shared/format/heading"
)

var (
	fence      = regexp.MustCompile("(?ms)^ *(```+|~~~+).*?^ *(```+|~~~+) *$")
	inlineCode = regexp.MustCompile("`[^`\n]+`")
	headings   = regexp.MustCompile(`(?m)^#{1,6} +(.+?) *#*$`)
	inlineLink = regexp.MustCompile(`\]\(<?([^)\s>]+)>?[^)]*\)`)
	// linkDefinition matches the definition of a link's target: [name]: target.
	linkDefinition = regexp.MustCompile(`(?m)^ {0,3}\[[^\]]+\]: *<?([^\s>]+)>?`)
)

// Links reports each link from a Markdown file to a file of the repository that does not exist, or to a heading that
// the file does not have. It does not check links to other hosts, because tests must not need a network.
func Links(t *Tree) (found []Finding) {
	for name, text := range t.markdown() {
		prose := inlineCode.ReplaceAllString(blank(fence, text), "")
		for _, pattern := range []*regexp.Regexp{inlineLink, linkDefinition} {
			for _, at := range pattern.FindAllStringSubmatchIndex(prose, -1) {
				target := prose[at[2]:at[3]]
				if problem := t.linkProblem(name, target); problem != "" {
					found = append(found, Finding{name, 1 + strings.Count(prose[:at[2]], "\n"), target + ": " + problem})
				}
			}
		}
	}
	return found
}

// linkProblem returns a description of what is wrong with a link from a file to a target. It returns "" for a correct
// link, and for a link to another host.
func (t *Tree) linkProblem(from, target string) string {
	if strings.Contains(target, "://") || strings.HasPrefix(target, "mailto:") {
		return ""
	}
	file, anchor, _ := strings.Cut(target, "#")
	p := from
	if file != "" {
		p = path.Join(path.Dir(from), file)
	}
	if !t.Paths[p] {
		return "no such file in the repository"
	}
	if anchor != "" && path.Ext(p) == ".md" && !slices.Contains(anchors(t.Texts[p]), anchor) {
		return "no such heading"
	}
	return ""
}

// anchors returns the anchors of a Markdown file's headings, as the site where people browse the repository generates
// them.
func anchors(text string) (all []string) {
	names := heading.Anchors{}
	for _, m := range headings.FindAllStringSubmatch(blank(fence, text), -1) {
		all = append(all, names.Next(m[1]))
	}
	return all
}

// blank replaces each match by its line breaks, so that line numbers do not change.
func blank(pattern *regexp.Regexp, text string) string {
	return pattern.ReplaceAllStringFunc(text, func(s string) string {
		return strings.Repeat("\n", strings.Count(s, "\n"))
	})
}

func (t *Tree) markdown() map[string]string {
	texts := map[string]string{}
	for name, text := range t.Texts {
		if path.Ext(name) == ".md" && !strings.Contains("/"+name, "/testdata/") {
			texts[name] = text
		}
	}
	return texts
}

// DecisionsDir is the folder of the decision records.
const DecisionsDir = "docs/decisions"

var decisionFile = regexp.MustCompile(`^(\d{4})-[a-z0-9]+(-[a-z0-9]+)*\.md$`)

// decisionParts are the sections of a record, in this order.
var decisionParts = []string{"Context", "Options", "Decision", "Consequences", "When to look again"}

// Decisions reports each record that has the same number as another, each record without a title, and each record whose
// parts with text are not exactly decisionParts. It also reports other files in the folder, except the README and the
// index.
func Decisions(t *Tree) (found []Finding) {
	numbers := map[string]string{}
	for _, name := range t.decisions() {
		number := path.Base(name)[:4]
		if other := numbers[number]; other != "" {
			found = append(found, Finding{Path: name, Text: "has the number of " + path.Base(other)})
		}
		numbers[number] = name
		if title(t.Texts[name]) == "" {
			found = append(found, Finding{Path: name, Text: "has no title: the first line must be # Title"})
		}
		if got := sections(t.Texts[name]); !slices.Equal(got, decisionParts) {
			found = append(found, Finding{Path: name, Text: fmt.Sprintf("has the parts %q, want %q, none of them empty", got,
				decisionParts)})
		}
	}
	for p := range t.Paths {
		base := path.Base(p)
		if path.Dir(p) == DecisionsDir && !decisionFile.MatchString(base) && base != "README.md" && base != "index.md" {
			found = append(found, Finding{Path: p, Text: "is no NNNN-title.md"})
		}
	}
	return found
}

// sections returns the second-level headings that have text below them.
func sections(text string) (names []string) {
	prose := blank(fence, text)
	for part := range strings.SplitSeq(prose, "\n## ") {
		name, body, _ := strings.Cut(part, "\n")
		if !strings.HasPrefix(name, "# ") && strings.TrimSpace(body) != "" {
			names = append(names, strings.TrimSpace(name))
		}
	}
	return names
}

// title returns the text of the first-level heading in a document's first line, or "" if there is none.
func title(text string) string {
	first, _, _ := strings.Cut(text, "\n")
	t, ok := strings.CutPrefix(first, "# ")
	if !ok {
		return ""
	}
	return strings.TrimSpace(t)
}

// decisions returns the paths of the decision records, sorted by number.
func (t *Tree) decisions() (names []string) {
	for name := range t.Texts {
		if path.Dir(name) == DecisionsDir && decisionFile.MatchString(path.Base(name)) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// titleNumber matches a number at the beginning of a title. DecisionIndex removes it.
var titleNumber = regexp.MustCompile(`^\d{4}\W+`)

// DecisionIndex returns the list of the records, for docs/decisions/index.md.
func DecisionIndex(t *Tree) string {
	var b strings.Builder
	b.WriteString("# Index of decisions\n\nWritten by `make goldens`.\n\n")
	for _, name := range t.decisions() {
		base := path.Base(name)
		fmt.Fprintf(&b, "- [%s](%s): %s\n", base[:4], base, titleNumber.ReplaceAllString(title(t.Texts[name]), ""))
	}
	return b.String()
}
