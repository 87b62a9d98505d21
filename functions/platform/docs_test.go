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

// guides are the addresses of the pages, by the Markdown file that each is made of.
func guides(t *testing.T) map[string]string {
	t.Helper()
	files, err := filepath.Glob("../../docs/*.md")
	if err != nil || len(files) < 30 {
		t.Fatalf("the guides are %v: %v", files, err)
	}
	out := map[string]string{}
	for _, file := range files {
		out[file] = "/docs/" + strings.TrimSuffix(filepath.Base(file), ".md")
	}
	out["../../docs/README.md"] = "/docs"
	return out
}

// shown are all pages by their addresses.
type shown struct {
	*functionstest.World
	bodies map[string]string
}

func showAll(t *testing.T) shown {
	t.Helper()
	s := shown{functionstest.New(t, platform.Bind), map[string]string{}}
	for _, address := range append(slices.Collect(maps.Values(guides(t))), reference) {
		s.bodies[address] = s.Call("", "GET", address, "").Want(200).Body
	}
	return s
}

// each calls f with each page, parsed.
func (s shown) each(t *testing.T, f func(t *testing.T, address string, root *html.Node)) {
	t.Helper()
	for _, address := range slices.Sorted(maps.Keys(s.bodies)) {
		t.Run(address, func(t *testing.T) { f(t, address, parse(t, s.bodies[address])) })
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

// textOf is all that is written below a node.
func textOf(n *html.Node) string {
	var out strings.Builder
	for c := range n.Descendants() {
		if c.Type == html.TextNode {
			out.WriteString(c.Data)
		}
	}
	return out.String()
}

func ids(root *html.Node) (all []string) {
	for n := range root.Descendants() {
		if id := attribute(n, "id"); id != "" {
			all = append(all, id)
		}
	}
	return all
}

// TestPagesAreForBrowsersAlone: they need no key, run nothing, load nothing, and are told apart by
// their ETags.
func TestPagesAreForBrowsersAlone(t *testing.T) {
	s := showAll(t)
	for address, body := range s.bodies {
		a := s.Call("garbage", "GET", address, "").Want(200).
			WantHeader("Content-Type", "text/html; charset=utf-8").
			WantHeader("X-Content-Type-Options", "nosniff").
			WantHeader("Referrer-Policy", "no-referrer")
		if a.Body != body {
			t.Errorf("%s is another page for who has a key", address)
		}
		tag := a.Header.Get("ETag")
		s.Call("", "GET", address, "", "If-None-Match", tag).Want(304).WantHeader("ETag", tag)
		if head := s.Call("", "HEAD", address, "").Want(200).WantHeader("ETag", tag); head.Header.Get("Content-Security-Policy") != a.Header.Get("Content-Security-Policy") {
			t.Errorf("HEAD %s has another policy", address)
		}
	}
	for _, unknown := range []string{"/docs/nothing", "/docs/README", "/docs/api.md", "/docs/docs.go", "/docs/decisions", "/docs/..%2FREADME", "/docs/Limits"} {
		s.Call("", "GET", unknown, "").Want(404, "no such page")
	}
	for _, unknown := range []string{"/docs/decisions/index", "/docs//api"} {
		s.Call("", "GET", unknown, "").Want(404, "no such operation")
	}
	s.Call("", "POST", "/docs", "{}").Want(405).WantHeader("Allow", "GET, HEAD")
}

// TestPagesRunAndLoadNothing: the policy allows the style that a page has, and a page has nothing
// that the policy forbids, of which a browser would complain.
func TestPagesRunAndLoadNothing(t *testing.T) {
	s := showAll(t)
	allowed := []string{
		"html", "head", "meta", "title", "link", "style", "body", "header", "main", "nav", "section", "div", "span", "h1", "h2", "h3", "h4", "p", "a", "ul", "ol", "li",
		"code", "pre", "b", "em", "strong", "br", "wbr", "hr", "table", "thead", "tbody", "tr", "th", "td", "details", "summary", "blockquote",
	}
	attributes := []string{"lang", "charset", "name", "content", "rel", "href", "id", "class", "aria-current", "aria-label", "align", "start"}
	s.each(t, func(t *testing.T, address string, root *html.Node) {
		styles := 0
		for n := range root.Descendants() {
			switch {
			case n.Type == html.CommentNode:
				t.Errorf("it has the comment %q", n.Data)
				continue
			case n.Type != html.ElementNode:
				continue
			case !slices.Contains(allowed, n.Data):
				t.Errorf("it has a <%s>", n.Data)
			}
			for _, a := range n.Attr {
				if !slices.Contains(attributes, a.Key) {
					t.Errorf(`it has a <%s %s="%s">`, n.Data, a.Key, a.Val)
				}
			}
			switch n.Data {
			case "link":
				if attribute(n, "rel") != "icon" || !strings.HasPrefix(attribute(n, "href"), "data:image/svg+xml,") {
					t.Errorf("it loads %s", attribute(n, "href"))
				}
			case "style":
				styles++
				if strings.Contains(textOf(n), "url(") || strings.Contains(textOf(n), "@import") {
					t.Error("its style loads something")
				}
				sum := sha256.Sum256([]byte(textOf(n)))
				s.Call("", "GET", address, "").WantHeader("Content-Security-Policy", "default-src 'none'; style-src 'sha256-"+base64.StdEncoding.EncodeToString(sum[:])+
					"'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'")
			case "a":
				if href := attribute(n, "href"); !strings.HasPrefix(href, "https://") && strings.Contains(href, ":") {
					t.Errorf("it links to %s", href)
				}
			}
		}
		if styles != 1 {
			t.Errorf("it has %d styles", styles)
		}
	})
}

// TestPagesAreWellFormed: each element ends where it has to, and no name stands twice.
func TestPagesAreWellFormed(t *testing.T) {
	s := showAll(t)
	void := []string{"meta", "link", "br", "wbr", "hr"}
	s.each(t, func(t *testing.T, address string, root *html.Node) {
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
					t.Fatalf("</%s> ends within %v", token.Data, open)
				}
				open = open[:len(open)-1]
			default:
			}
		}
		if err := tokens.Err(); !errors.Is(err, io.EOF) || len(open) > 0 {
			t.Errorf("it ends with %v within %v", err, open)
		}
		all := ids(root)
		slices.Sort(all)
		if n := len(all); n != len(slices.Compact(all)) {
			t.Errorf("a name stands twice among %v", all)
		}
	})
}

// TestLinksOfPagesResolve follows each link as a browser does, from wherever the page may be: with
// a slash at its end, and below the stage of API Gateway.
func TestLinksOfPagesResolve(t *testing.T) {
	s := showAll(t)
	names := map[string][]string{} // of the elements of a page
	s.each(t, func(_ *testing.T, address string, root *html.Node) { names[address] = ids(root) })
	guide := map[string]string{}
	for file, address := range guides(t) {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		guide[address] = string(text)
	}
	inside, outside := 0, 0
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
				switch file, source := strings.CutPrefix(href, repository); {
				case source:
					outside++
					file, _, _ = strings.Cut(file, "#")
					if _, err := os.Stat(filepath.Join("../..", file)); errors.Is(err, fs.ErrNotExist) {
						t.Errorf("%s leads to %s, which is not in the repository", address, href)
					}
				case target.Host != base.Host:
					if !strings.Contains(guide[address], href) && href+"/blob/main/" != repository {
						t.Errorf("%s leads to %s, and its guide does not", address, href)
					}
				default:
					inside++
					to, below := strings.CutPrefix(target.Path, "/production")
					to = strings.TrimSuffix(to, "/") // a link within the page
					if !below || to != openAPI && names[to] == nil {
						t.Errorf("%s%s leads to %s, which is no page", address, slash, target)
					} else if target.Fragment != "" && !slices.Contains(names[to], target.Fragment) {
						t.Errorf("%s leads to %s, which does not have that name", address, href)
					}
				}
			}
		}
	}
	if inside < 4000 || outside < 100 {
		t.Errorf("%d links were followed within, and %d into the repository", inside, outside)
	}
}

// TestGuidesAreThoseOfTheRepository: each is served and in the navigation of every page, with its
// heading and all of its others, and nothing of its text is lost.
func TestGuidesAreThoseOfTheRepository(t *testing.T) {
	s := showAll(t)
	for file, address := range guides(t) {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		body := parse(t, s.bodies[address])
		want := 0
		fenced := false
		for line := range strings.Lines(string(text)) {
			fenced = fenced != strings.HasPrefix(line, "```")
			if !fenced && strings.HasPrefix(line, "#") {
				want++
			}
		}
		headings, links := 0, map[string]bool{}
		for n := range body.Descendants() {
			switch n.Data {
			case "h1", "h2", "h3", "h4":
				headings++
				if attribute(n, "id") == "" {
					t.Errorf("%s: the heading %q has no anchor", address, textOf(n))
				}
			case "a":
				links[attribute(n, "href")] = true
			}
		}
		if headings != want {
			t.Errorf("%s has %d headings, want %d", address, headings, want)
		}
		if strings.Contains(s.bodies[address], "raw HTML omitted") || strings.Contains(s.bodies[address], "| --") {
			t.Errorf("%s lacks HTML, or shows a table as text", address)
		}
		for _, other := range guides(t) {
			up := map[bool]string{true: "", false: "../"}[address == "/docs"]
			if !links[up+strings.TrimPrefix(other, "/")] {
				t.Errorf("%s does not lead to %s", address, other)
			}
		}
	}
}

// TestReferenceHasEveryOperation, with what its declaration says.
func TestReferenceHasEveryOperation(t *testing.T) {
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
					t.Errorf("it has %s, which is a page", d.ID)
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
					t.Errorf("%s lacks %q:\n%s", d.ID, part, text)
				}
			}
		}
	}
	if len(sections) > 0 {
		t.Errorf("it has %v, which are no operations", slices.Collect(maps.Keys(sections)))
	}
}

// TestReferenceShowsParametersBoundsAndErrors of one operation, as a reader sees them.
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
			if name := textOf(row.FirstChild); rows[name] == "" { // what is sent comes first
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
		t.Error("it does not lead to what a 409 is about")
	}
}

// TestExamplesOfTheReferenceAreCommands has a shell read them all, with a curl that tells what it
// was asked.
func TestExamplesOfTheReferenceAreCommands(t *testing.T) {
	w := functionstest.New(t, platform.Bind)
	var script strings.Builder
	script.WriteString("set -eu\napi=http://api account_key=gwa_1 hostname=h filter=f consumers=c projectName=p file=c\ncurl() { printf '%s\\0' \"$@\"; printf '\\n\\0'; }\n")
	var order []string
	for n := range parse(t, w.Call("", "GET", reference, "").Want(200).Body).Descendants() {
		if attribute(n, "class") == "example" {
			order = append(order, attribute(n.Parent, "id"))
			script.WriteString(textOf(n) + "\n")
		}
	}
	cmd := exec.CommandContext(t.Context(), "bash", "-c", script.String())
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	asked := strings.Split(strings.TrimSuffix(string(out), "\x00\n\x00"), "\x00\n\x00")
	if len(asked) != len(order) || len(order) < 90 {
		t.Fatalf("%d of %d were asked", len(asked), len(order))
	}
	document := w.Call("", "GET", openAPI, "").Want(200).Body
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
	for i, id := range order {
		words := strings.Split(asked[i], "\x00")
		if !slices.ContainsFunc(words, func(word string) bool {
			return strings.HasPrefix(word, "http://api/") && !strings.ContainsAny(word, "{}") && !strings.HasSuffix(word, "=")
		}) {
			t.Errorf("%s asks %q", id, words)
		}
		body, given := bodies[id], words[max(0, slices.Index(words, "-d")+1)]
		var want, got any
		if len(body) == 0 {
			continue
		}
		if json.Unmarshal(body, &want) != nil || json.Unmarshal([]byte(given), &got) != nil {
			t.Errorf("%s sends %s", id, given)
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
