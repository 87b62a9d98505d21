// Package pages renders the documentation as HTML: the guides, which are Markdown,
// and a reference of the operations, which it creates from the OpenAPI document.
//
// The package does not use HTTP, and does not decide what is documented. Each page
// is self-contained: it includes its style, has no script, and loads nothing.
//
// Read pages.go first, then markdown.go for the guides, and reference.go and schema.go for the operations.
// layout.go and style.css are the layout.
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

// Reference is the name of the page with the operations. No guide may have this name.
const Reference = "reference"

// overview is the guide that links to the others.
const overview = "README"

// ErrNoPage is the error for a page that does not exist.
var ErrNoPage = errors.New("pages: there is no page of this name")

//go:embed style.css
var style string

// StyleHash returns the hash of the pages' style, in the format of a Content-Security-Policy.
func StyleHash() string {
	sum := sha256.Sum256([]byte(style))
	return "sha256-" + base64.StdEncoding.EncodeToString(sum[:])
}

// Site is the documentation of one version of the product. It renders a page at the first call of Page with its name
// and base, and caches it. It is safe for concurrent use.
type Site struct {
	guides  fs.FS
	openAPI []byte // the OpenAPI document
	load    func() (*siteData, error)

	mu       sync.Mutex
	rendered map[pageKey][]byte
}

// pageKey identifies a rendered page: the page's name, and the base of its links (see Page).
type pageKey struct{ name, base string }

// siteData has the data that all pages need.
type siteData struct {
	api        document
	repository string
	guides     []guide
}

// guide is a Markdown file.
type guide struct {
	// Name is the name of the page, such as limits. It is "" for the overview.
	Name, Title string
	source      []byte
}

// New returns the site of guides and an OpenAPI document. The guides are Markdown files, and README.md is the overview.
// The contact in the document has the URL of the source. New does not read the files: the first call of Page or Names
// does, and its error, if any, is also that of all later calls.
func New(guides fs.FS, openAPI []byte) *Site {
	s := &Site{guides: guides, openAPI: openAPI, rendered: map[pageKey][]byte{}}
	s.load = sync.OnceValues(s.read)
	return s
}

// Names returns the names of the pages in the order of the navigation: "" for the overview, then the reference,
// then the guides in the order of their links in the overview. Guides without a link there are last.
func (s *Site) Names() ([]string, error) {
	d, err := s.load()
	if err != nil {
		return nil, err
	}
	names := []string{"", Reference}
	for _, g := range d.guides[1:] {
		names = append(names, g.Name)
	}
	return names, nil
}

// Page renders the page with a name, or the overview if name is "". base is the relative path
// from the page to the folder that contains docs: "", "../" or "../../". Links are relative, so
// that they work wherever a platform puts this folder. Page returns ErrNoPage for an unknown name, and other errors if
// the guides or the OpenAPI document cannot be read.
func (s *Site) Page(name, base string) ([]byte, error) {
	d, err := s.load()
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	key := pageKey{name, base}
	if out := s.rendered[key]; out != nil {
		return out, nil
	}
	out, err := d.render(key)
	if err != nil {
		return nil, err
	}
	s.rendered[key] = out
	return out, nil
}

func (s *Site) read() (*siteData, error) {
	d := &siteData{}
	if err := json.Unmarshal(s.openAPI, &d.api); err != nil {
		return nil, fmt.Errorf("read the OpenAPI document: %w", err)
	}
	d.repository = d.api.Info.Contact.URL
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
		d.guides = append(d.guides, guide{Name: name, Title: titleOf(source), source: source})
	}
	if err := d.order(); err != nil {
		return nil, err
	}
	return d, nil
}

var (
	firstHeading = regexp.MustCompile(`(?m)^# (.+)$`)
	linkedGuide  = regexp.MustCompile(`\]\(([a-z0-9-]+)\.md[#)]`)
)

// titleOf returns the text of a guide's first heading of level 1, without backticks, or "" if there is none.
func titleOf(source []byte) string {
	if m := firstHeading.FindSubmatch(source); m != nil {
		return strings.ReplaceAll(string(m[1]), "`", "")
	}
	return ""
}

// order sorts the guides: the overview first, the others in the order of their links in the overview, and guides
// without a link there last. It fails if there is no overview.
func (d *siteData) order() error {
	positions := map[string]int{"": -1}
	first := slices.IndexFunc(d.guides, func(g guide) bool { return g.Name == "" })
	if first < 0 {
		return errors.New("the guides have no README.md, which is their map")
	}
	for i, m := range linkedGuide.FindAllSubmatch(d.guides[first].source, -1) {
		if _, ok := positions[string(m[1])]; !ok {
			positions[string(m[1])] = i
		}
	}
	slices.SortStableFunc(d.guides, func(a, b guide) int {
		return positionIn(positions, a.Name) - positionIn(positions, b.Name)
	})
	return nil
}

// positionIn returns the position of a name. A name without a position comes after all others.
func positionIn(positions map[string]int, name string) int {
	if at, ok := positions[name]; ok {
		return at
	}
	return 1 << 20
}

func (d *siteData) render(key pageKey) ([]byte, error) {
	p := page{Base: key.base, Repository: d.repository}
	var sections []section
	switch i := slices.IndexFunc(d.guides, func(g guide) bool { return g.Name == key.name }); {
	case key.name == Reference:
		r := d.api.reference(key.base)
		p.Title, p.Body, sections = r.Title, r.body(), r.sections()
	case i >= 0:
		var err error
		if p.Body, sections, err = d.markdown(d.guides[i].source, key.base); err != nil {
			return nil, fmt.Errorf("render the guide %s: %w", key.name, err)
		}
		p.Title = d.guides[i].Title
	default:
		return nil, ErrNoPage
	}
	p.Navigation = d.navigation(key, sections)
	return p.html(), nil
}

// navigation returns the entries for all pages. sections are the headings of the current page, which key identifies.
func (d *siteData) navigation(key pageKey, sections []section) []entry {
	all := []guide{{Name: "", Title: "Overview"}, {Name: Reference, Title: referenceTitle}}
	var out []entry
	for _, g := range append(all, d.guides[1:]...) {
		e := entry{Title: g.Title, Href: linkTo(key.base, g.Name, ""), Current: g.Name == key.name}
		if e.Current {
			e.Sections = sections
		}
		out = append(out, e)
	}
	return out
}

// linkTo returns the link to a page. If anchor is not "", the link is to this heading of the page.
func linkTo(base, name, anchor string) string {
	out := base + "docs"
	if name != "" {
		out += "/" + name
	}
	if anchor != "" {
		out += "#" + anchor
	}
	return out
}
