// Package pages renders the documentation as HTML: the guides, which are Markdown, and a reference
// of the operations, which is made of the OpenAPI document.
//
// What it is not: it knows no HTTP, and decides nothing about what is documented. A page is whole
// by itself: its style is within it, there is no script, and it loads nothing.
//
// Read pages.go first, then markdown.go for the guides, reference.go and schema.go for the
// operations; layout.go and style.css are how it looks.
package pages

import (
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// Reference is the name of the page that has the operations. A guide cannot have it.
const Reference = "reference"

// overview is the guide that is the map of the others.
const overview = "README"

// ErrNoPage is for a name that no page has.
var ErrNoPage = errors.New("pages: there is no page of this name")

//go:embed style.css
var style string

// StyleHash is what a Content-Security-Policy allows the style of the pages by.
func StyleHash() string {
	sum := sha256.Sum256([]byte(style))
	return "sha256-" + base64.StdEncoding.EncodeToString(sum[:])
}

// Site is the documentation of a version. A page is rendered when it is asked for first, and kept;
// it may be asked for by several at once.
type Site struct {
	guides      fs.FS
	description []byte
	open        func() (*opened, error)

	mu       sync.Mutex
	rendered map[address][]byte
}

// address is a page as it is linked from one place.
type address struct{ name, up string }

// opened is what all pages need.
type opened struct {
	api        document
	repository string
	guides     []guide
}

// guide is a Markdown file.
type guide struct {
	// Name is the page's: limits, or "" for the overview.
	Name, Title string
	source      []byte
}

// New makes the site of guides, Markdown files of which README.md is the map, and of an OpenAPI
// document, whose contact is where the source is. Nothing is read yet.
func New(guides fs.FS, description []byte) *Site {
	s := &Site{guides: guides, description: description, rendered: map[address][]byte{}}
	s.open = sync.OnceValues(s.read)
	return s
}

// Names lists the pages in the order of the navigation: "" for the overview, then the reference,
// then the guides in the order in which the overview names them.
func (s *Site) Names() ([]string, error) {
	o, err := s.open()
	if err != nil {
		return nil, err
	}
	names := []string{"", Reference}
	for _, g := range o.guides[1:] {
		names = append(names, g.Name)
	}
	return names, nil
}

// Page renders the page of a name, "" for the overview, as it is linked from one that is up below
// the folder in which the site is docs: "", "../" or "../../". So it works wherever a platform puts
// that folder. It answers ErrNoPage for a name that there is none of.
func (s *Site) Page(name, up string) ([]byte, error) {
	o, err := s.open()
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	at := address{name, up}
	if out := s.rendered[at]; out != nil {
		return out, nil
	}
	out, err := o.render(at)
	if err != nil {
		return nil, err
	}
	s.rendered[at] = out
	return out, nil
}

func (s *Site) read() (*opened, error) {
	o := &opened{}
	if err := json.Unmarshal(s.description, &o.api); err != nil {
		return nil, fmt.Errorf("read the OpenAPI document: %w", err)
	}
	o.repository = o.api.Info.Contact.URL
	names, err := fs.Glob(s.guides, "*.md")
	if err != nil {
		return nil, fmt.Errorf("list the guides: %w", err)
	}
	for _, file := range names {
		source, err := fs.ReadFile(s.guides, file)
		if err != nil {
			return nil, fmt.Errorf("read the guide %s: %w", file, err)
		}
		name := strings.TrimSuffix(file, ".md")
		if name == overview {
			name = ""
		}
		o.guides = append(o.guides, guide{Name: name, Title: titleOf(source), source: source})
	}
	if err := o.order(); err != nil {
		return nil, err
	}
	return o, nil
}

var (
	firstHeading = regexp.MustCompile(`(?m)^# (.+)$`)
	linkedGuide  = regexp.MustCompile(`\]\(([a-z0-9-]+)\.md[#)]`)
)

// titleOf is a guide's heading, as plain text.
func titleOf(source []byte) string {
	if m := firstHeading.FindSubmatch(source); m != nil {
		return strings.ReplaceAll(string(m[1]), "`", "")
	}
	return ""
}

// order puts the overview first and the others in the order in which it names them.
func (o *opened) order() error {
	place := map[string]int{"": -1}
	first := slices.IndexFunc(o.guides, func(g guide) bool { return g.Name == "" })
	if first < 0 {
		return errors.New("the guides have no README.md, which is their map")
	}
	for i, m := range linkedGuide.FindAllSubmatch(o.guides[first].source, -1) {
		if _, ok := place[string(m[1])]; !ok {
			place[string(m[1])] = i
		}
	}
	slices.SortStableFunc(o.guides, func(a, b guide) int { return placeIn(place, a.Name) - placeIn(place, b.Name) })
	return nil
}

// placeIn is where a name stands, after all others if it has no place.
func placeIn(places map[string]int, name string) int {
	if at, ok := places[name]; ok {
		return at
	}
	return 1 << 20
}

func (o *opened) render(at address) ([]byte, error) {
	p := page{Up: at.up, Repository: o.repository}
	var sections []section
	switch i := slices.IndexFunc(o.guides, func(g guide) bool { return g.Name == at.name }); {
	case at.name == Reference:
		r := o.api.reference(at.up)
		p.Title, p.Body, sections = r.Title, r.write(), r.sections()
	case i >= 0:
		var err error
		if p.Body, sections, err = o.markdown(o.guides[i].source, at.up); err != nil {
			return nil, fmt.Errorf("render the guide %s: %w", at.name, err)
		}
		p.Title = o.guides[i].Title
	default:
		return nil, ErrNoPage
	}
	p.Navigation = o.navigation(at, sections)
	return p.write(), nil
}

func (o *opened) navigation(at address, sections []section) []entry {
	all := []guide{{Name: "", Title: "Overview"}, {Name: Reference, Title: referenceTitle}}
	var out []entry
	for _, g := range append(all, o.guides[1:]...) {
		e := entry{Title: g.Title, Href: linkTo(at.up, g.Name, ""), Current: g.Name == at.name}
		if e.Current {
			e.Sections = sections
		}
		out = append(out, e)
	}
	return out
}

// linkTo leads to a page and, after #, a heading of it.
func linkTo(up, name, anchor string) string {
	out := up + "docs"
	if name != "" {
		out += "/" + name
	}
	if anchor != "" {
		out += "#" + anchor
	}
	return out
}
