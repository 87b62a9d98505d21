package platform_test

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"maps"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/net/html"

	"github.com/gatewright/gatewright/functions"
	"github.com/gatewright/gatewright/functions/functionstest"
	"github.com/gatewright/gatewright/functions/platform"
)

const (
	repository = "https://github.com/gatewright/gatewright/blob/main/"
	reference  = "/docs/reference"
)

// guideAddresses returns the paths of the guides' pages, by the names of the Markdown files.
func guideAddresses(t *testing.T) map[string]string {
	t.Helper()
	files, err := filepath.Glob("../../docs/*.md")
	if err != nil || len(files) < 30 {
		t.Fatalf("guides = %v, %v, want 30 or more", files, err)
	}
	out := map[string]string{}
	for _, file := range files {
		out[file] = "/docs/" + strings.TrimSuffix(filepath.Base(file), ".md")
	}
	out["../../docs/README.md"] = "/docs"
	return out
}

// docsFixture has the HTML of all pages, by path.
type docsFixture struct {
	*functionstest.Fixture
	bodies map[string]string
}

func newDocsFixture(t *testing.T) docsFixture {
	t.Helper()
	s := docsFixture{functionstest.New(t, platform.Bind), map[string]string{}}
	for _, address := range append(slices.Collect(maps.Values(guideAddresses(t))), reference) {
		s.bodies[address] = s.Call("", "GET", address, "").Want(200).Body
	}
	return s
}

// forEachPage calls f with the parsed HTML of each page.
func (fx docsFixture) forEachPage(t *testing.T, f func(t *testing.T, address string, root *html.Node)) {
	t.Helper()
	for _, address := range slices.Sorted(maps.Keys(fx.bodies)) {
		t.Run(address, func(t *testing.T) { f(t, address, parse(t, fx.bodies[address])) })
	}
}

func parse(t *testing.T, body string) *html.Node {
	t.Helper()
	root, err := html.Parse(strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	return root
}

func attribute(n *html.Node, name string) string {
	for _, a := range n.Attr {
		if a.Key == name {
			return a.Val
		}
	}
	return ""
}

// textOf returns the text of a node with all its descendants.
func textOf(n *html.Node) string {
	var out strings.Builder
	for c := range n.Descendants() {
		if c.Type == html.TextNode {
			out.WriteString(c.Data)
		}
	}
	return out.String()
}

func ids(root *html.Node) (found []string) {
	for n := range root.Descendants() {
		if id := attribute(n, "id"); id != "" {
			found = append(found, id)
		}
	}
	return found
}

// TestPagesArePublicAndCacheable checks that pages need no key, have security headers, and support conditional and HEAD
// requests. It also checks that unknown pages are not found.
func TestPagesArePublicAndCacheable(t *testing.T) {
	s := newDocsFixture(t)
	for address, body := range s.bodies {
		resp := s.Call("garbage", "GET", address, "").Want(200).
			WantHeader("Content-Type", "text/html; charset=utf-8").
			WantHeader("X-Content-Type-Options", "nosniff").
			WantHeader("Referrer-Policy", "no-referrer")
		if resp.Body != body {
			t.Errorf("GET %s: body with a key differs from the one without, want the same", address)
		}
		tag := resp.Header.Get("ETag")
		s.Call("", "GET", address, "", "If-None-Match", tag).Want(304).WantHeader("ETag", tag)
		head := s.Call("", "HEAD", address, "").Want(200).WantHeader("ETag", tag)
		if head.Header.Get("Content-Security-Policy") != resp.Header.Get("Content-Security-Policy") {
			t.Errorf("HEAD %s: Content-Security-Policy = %q, want %q",
				address, head.Header.Get("Content-Security-Policy"), resp.Header.Get("Content-Security-Policy"))
		}
	}
	for _, unknown := range []string{
		"/docs/nothing", "/docs/README", "/docs/api.md", "/docs/docs.go", "/docs/decisions",
		"/docs/..%2FREADME", "/docs/Limits",
	} {
		s.Call("", "GET", unknown, "").Want(404, "no such page")
	}
	for _, unknown := range []string{"/docs/decisions/index", "/docs//api"} {
		s.Call("", "GET", unknown, "").Want(404, "no such operation")
	}
	s.Call("", "POST", "/docs", "{}").Want(405).WantHeader("Allow", "GET, HEAD")
}

// TestPagesMatchSecurityPolicy checks that the policy allows the style of each page, and that pages contain nothing
// that the policy forbids.
func TestPagesMatchSecurityPolicy(t *testing.T) {
	s := newDocsFixture(t)
	allowed := []string{
		"html", "head", "meta", "title", "link", "style", "body", "header", "main", "nav", "section", "div", "span", "h1",
		"h2", "h3", "h4", "p", "a", "ul", "ol", "li",
		"code", "pre", "b", "em", "strong", "br", "wbr", "hr", "table", "thead", "tbody", "tr", "th", "td", "details",
		"summary", "blockquote",
	}
	attributes := []string{
		"lang", "charset", "name", "content", "rel", "href", "id", "class", "aria-current",
		"aria-label", "align", "start",
	}
	s.forEachPage(t, func(t *testing.T, address string, root *html.Node) {
		styles := 0
		for n := range root.Descendants() {
			switch {
			case n.Type == html.CommentNode:
				t.Errorf("%s has the comment %q, want none", address, n.Data)
				continue
			case n.Type != html.ElementNode:
				continue
			case !slices.Contains(allowed, n.Data):
				t.Errorf("%s has a <%s>, want only %v", address, n.Data, allowed)
			}
			for _, a := range n.Attr {
				if !slices.Contains(attributes, a.Key) {
					t.Errorf("%s has <%s %s=%q>, want only the attributes %v", address, n.Data, a.Key, a.Val, attributes)
				}
			}
			switch n.Data {
			case "link":
				if attribute(n, "rel") != "icon" || !strings.HasPrefix(attribute(n, "href"), "data:image/svg+xml,") {
					t.Errorf("link of %s = %s, want only an icon in a data: URL", address, attribute(n, "href"))
				}
			case "style":
				styles++
				if strings.Contains(textOf(n), "url(") || strings.Contains(textOf(n), "@import") {
					t.Errorf("style of %s loads a URL, want none: %s", address, textOf(n))
				}
				sum := sha256.Sum256([]byte(textOf(n)))
				s.Call("", "GET", address, "").WantHeader("Content-Security-Policy", "default-src 'none'; style-src 'sha256-"+
					base64.StdEncoding.EncodeToString(sum[:])+
					"'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'")
			case "a":
				if href := attribute(n, "href"); !strings.HasPrefix(href, "https://") && strings.Contains(href, ":") {
					t.Errorf("link of %s = %s, want a relative or an https: URL", address, href)
				}
			}
		}
		if styles != 1 {
			t.Errorf("%s has %d styles, want 1", address, styles)
		}
	})
}

// TestPagesAreWellFormed checks that the elements of each page are closed in the right order, and that no id occurs
// twice.
func TestPagesAreWellFormed(t *testing.T) {
	s := newDocsFixture(t)
	void := []string{"meta", "link", "br", "wbr", "hr"}
	s.forEachPage(t, func(t *testing.T, address string, root *html.Node) {
		tokens := html.NewTokenizer(strings.NewReader(s.bodies[address]))
		var open []string
		for tokens.Next() != html.ErrorToken {
			switch token := tokens.Token(); token.Type {
			case html.StartTagToken:
				if !slices.Contains(void, token.Data) {
					open = append(open, token.Data)
				}
			case html.EndTagToken:
				if len(open) == 0 || open[len(open)-1] != token.Data {
					t.Fatalf("</%s> ends within %v, want it to end the last of them", token.Data, open)
				}
				open = open[:len(open)-1]
			default:
			}
		}
		if err := tokens.Err(); !errors.Is(err, io.EOF) || len(open) > 0 {
			t.Errorf("page ends with %v within %v, want EOF and no open element", err, open)
		}
		elementIDs := ids(root)
		slices.Sort(elementIDs)
		if n := len(elementIDs); n != len(slices.Compact(elementIDs)) {
			t.Errorf("ids of the page = %v, want each once", elementIDs)
		}
	})
}

// TestLinksOfPagesResolve resolves each link as a browser does, for each form of a page's address. An address can end
// in a slash, and a stage of API Gateway can precede the path.
func TestLinksOfPagesResolve(t *testing.T) {
	s := newDocsFixture(t)
	idsByPage := map[string][]string{} // the ids of the elements of each page
	s.forEachPage(t, func(_ *testing.T, address string, root *html.Node) { idsByPage[address] = ids(root) })
	sources := map[string]string{}
	for file, address := range guideAddresses(t) {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		sources[address] = string(text)
	}
	internalLinks, repositoryLinks := 0, 0
	for _, address := range slices.Sorted(maps.Keys(s.bodies)) {
		for _, slash := range []string{"", "/"} {
			base, err := url.Parse("https://api.example.com/production" + address + slash)
			if err != nil {
				t.Fatal(err)
			}
			for n := range parse(t, s.Call("", "GET", address+slash, "").Want(200).Body).Descendants() {
				href := attribute(n, "href")
				if n.Data != "a" || n.Type != html.ElementNode {
					continue
				}
				target, err := base.Parse(href)
				if err != nil {
					t.Fatal(err)
				}
				switch file, isRepository := strings.CutPrefix(href, repository); {
				case isRepository:
					repositoryLinks++
					file, _, _ = strings.Cut(file, "#")
					if _, err := os.Stat(filepath.Join("../..", file)); errors.Is(err, fs.ErrNotExist) {
						t.Errorf("%s links to %s, want a file of the repository", address, href)
					}
				case target.Host != base.Host:
					if !strings.Contains(sources[address], href) && href+"/blob/main/" != repository {
						t.Errorf("%s links to %s, want a link that its guide has", address, href)
					}
				default:
					internalLinks++
					page, ok := strings.CutPrefix(target.Path, "/production")
					page = strings.TrimSuffix(page, "/") // a link to the page itself can end in a slash
					if !ok || page != openAPI && idsByPage[page] == nil {
						t.Errorf("%s%s links to %s, want a page", address, slash, target)
					} else if target.Fragment != "" && !slices.Contains(idsByPage[page], target.Fragment) {
						t.Errorf("%s links to %s, want an id that the page has", address, href)
					}
				}
			}
		}
	}
	if internalLinks < 4000 || repositoryLinks < 100 {
		t.Errorf("links between pages = %d, links to the repository = %d, want 4000 and 100 or more",
			internalLinks, repositoryLinks)
	}
}

// TestEveryGuideIsServed checks that each guide is served with all its headings, without omitted HTML or tables as
// text, and that the navigation of every guide links to it.
func TestEveryGuideIsServed(t *testing.T) {
	s := newDocsFixture(t)
	for file, address := range guideAddresses(t) {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		body := parse(t, s.bodies[address])
		want := 0
		inCodeBlock := false
		for line := range strings.Lines(string(text)) {
			inCodeBlock = inCodeBlock != strings.HasPrefix(line, "```")
			if !inCodeBlock && strings.HasPrefix(line, "#") {
				want++
			}
		}
		headings, links := 0, map[string]bool{}
		for n := range body.Descendants() {
			switch n.Data {
			case "h1", "h2", "h3", "h4":
				headings++
				if attribute(n, "id") == "" {
					t.Errorf("%s: heading %q has no id, want one", address, textOf(n))
				}
			case "a":
				links[attribute(n, "href")] = true
			}
		}
		if headings != want {
			t.Errorf("%s has %d headings, want %d", address, headings, want)
		}
		if strings.Contains(s.bodies[address], "raw HTML omitted") || strings.Contains(s.bodies[address], "| --") {
			t.Errorf("%s has omitted HTML or a table as text, want neither", address)
		}
		for _, otherGuide := range guideAddresses(t) {
			prefix := map[bool]string{true: "", false: "../"}[address == "/docs"]
			if !links[prefix+strings.TrimPrefix(otherGuide, "/")] {
				t.Errorf("%s has no link to %s, want one", address, otherGuide)
			}
		}
	}
}

// TestReferenceListsEveryOperation checks that the reference contains the texts of each operation's declaration.
func TestReferenceListsEveryOperation(t *testing.T) {
	sections := map[string]string{}
	for n := range parse(t, functionstest.New(t, platform.Bind).Call("", "GET", reference, "").Want(200).Body).Descendants() {
		if n.Data == "section" {
			sections[attribute(n, "id")] = textOf(n)
		}
	}
	for _, g := range functions.Groups() {
		for _, d := range g.Declarations() {
			text, ok := sections[d.ID]
			delete(sections, d.ID)
			if d.Hidden {
				if ok {
					t.Errorf("the reference has the hidden operation %s, want it left out", d.ID)
				}
				continue
			}
			key := "scope " + string(d.Scope)
			if d.Public {
				key = "public: it needs no key"
			} else if d.Scope == "" {
				key = "any account key"
			}
			for _, part := range []string{d.Method + "\u00a0" + d.Path, d.Summary, d.Description, key, "curl -sS"} {
				if !strings.Contains(text, part) {
					t.Errorf("section of %s has no %q, want it:\n%s", d.ID, part, text)
				}
			}
		}
	}
	if len(sections) > 0 {
		t.Errorf("the reference has the sections %v, want only operations", slices.Collect(maps.Keys(sections)))
	}
}

// TestReferenceShowsParametersBoundsAndErrors checks the visible text of one operation in the reference.
func TestReferenceShowsParametersBoundsAndErrors(t *testing.T) {
	for n := range parse(t, functionstest.New(t, platform.Bind).Call("", "GET", reference, "").Want(200).Body).Descendants() {
		if attribute(n, "id") != "ApiKeyConsumersService_create" {
			continue
		}
		rows := map[string]string{}
		for row := range n.Descendants() {
			if row.Data != "tr" || row.Parent.Data != "tbody" {
				continue
			}
			if name := textOf(row.FirstChild); rows[name] == "" { // the fields of the request come first
				rows[name] = textOf(row)
			}
		}
		for name, want := range map[string]string{
			"bucketName required":        "pathstringat most 256 characters",
			"Idempotency-Key":            "headerstring1 to 255 characters",
			"with-api-key":               "queryboolean",
			"managers":                   "array of (string or object) or nullat most 50 entries",
			"managers[].email required":  "stringat most 254 characters",
			"name required":              "string^[a-z0-9_-]{1,128}$",
			"apiKeys[].expiresOn always": "string (date-time) or null",
		} {
			if !strings.HasPrefix(strings.TrimPrefix(rows[name], name), want) {
				t.Errorf("the row of %s is %q, want %q", name, rows[name], want)
			}
		}
		for link := range n.Descendants() {
			if textOf(link) == "409 Conflict" && attribute(link, "href") == "../docs/problems#conflict" {
				return
			}
		}
		t.Error("the reference has no link to the problem of a 409, want one")
	}
}

// TestReferenceExamplesRun runs all examples of the reference in a shell, with a fake curl that prints its arguments.
func TestReferenceExamplesRun(t *testing.T) {
	fx := functionstest.New(t, platform.Bind)
	var script strings.Builder
	script.WriteString("set -eu\napi=http://api account_key=gwa_1 hostname=h filter=f consumers=c projectName=p " +
		"file=c\ncurl() { printf '%s\\0' \"$@\"; printf '\\n\\0'; }\n")
	var operationIDs []string
	for n := range parse(t, fx.Call("", "GET", reference, "").Want(200).Body).Descendants() {
		if attribute(n, "class") == "example" {
			operationIDs = append(operationIDs, attribute(n.Parent, "id"))
			script.WriteString(textOf(n) + "\n")
		}
	}
	cmd := exec.CommandContext(t.Context(), "bash", "-c", script.String())
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("run of the examples: error = %v, want none: %s", err, out)
	}
	commands := strings.Split(strings.TrimSuffix(string(out), "\x00\n\x00"), "\x00\n\x00")
	if len(commands) != len(operationIDs) || len(operationIDs) < 90 {
		t.Fatalf("%d examples have run, want %d, and at least 90", len(commands), len(operationIDs))
	}
	document := fx.Call("", "GET", openAPI, "").Want(200).Body
	var paths struct {
		Paths map[string]map[string]struct {
			OperationID string
			RequestBody struct {
				Content map[string]struct{ Example json.RawMessage }
			}
		}
	}
	if err := json.Unmarshal([]byte(document), &paths); err != nil {
		t.Fatal(err)
	}
	bodies := map[string]json.RawMessage{}
	for _, methods := range paths.Paths {
		for _, o := range methods {
			bodies[o.OperationID] = o.RequestBody.Content["application/json"].Example
		}
	}
	for i, id := range operationIDs {
		args := strings.Split(commands[i], "\x00")
		if !slices.ContainsFunc(args, func(arg string) bool {
			return strings.HasPrefix(arg, "http://api/") && !strings.ContainsAny(arg, "{}") && !strings.HasSuffix(arg, "=")
		}) {
			t.Errorf("arguments of %s = %q, want a URL of http://api/ with all its values", id, args)
		}
		body, sent := bodies[id], args[max(0, slices.Index(args, "-d")+1)]
		var want, got any
		if len(body) == 0 {
			continue
		}
		if json.Unmarshal(body, &want) != nil || json.Unmarshal([]byte(sent), &got) != nil {
			t.Errorf("body of %s = %s, want JSON", id, sent)
		} else if a, b := mustJSON(t, want), mustJSON(t, got); a != b {
			t.Errorf("%s sends %s, want %s", id, b, a)
		}
	}
}

func mustJSON(t *testing.T, v any) string {
	t.Helper()
	out, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}
