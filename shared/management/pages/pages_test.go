package pages_test

import (
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/fstest"

	"github.com/gatewright/gatewright/shared/management/pages"
)

const openAPI = `{
  "info": {"contact": {"url": "https://example.com/repository"}},
  "tags": [{"name": "Trees <b>", "description": "What grows."}],
  "paths": {"/v1/trees/{id}": {"put": {
    "operationId": "plant", "summary": "Plant a <tree>", "description": "It's \"one\" & <only>.", "tags": ["Trees <b>"],
    "x-required-scope": "trees:write",
    "parameters": [{"name": "id", "in": "path", "required": true, "example": "a b$(c)",
      "schema": {"type": "string", "minLength": 2}},
      {"name": "at", "in": "query", "required": true, "schema": {"type": "string"}}],
    "requestBody": {"content": {"application/json": {"schema": {"$ref": "#/components/schemas/Tree"},
      "example": {"name": "it's <oak>"}}}},
    "responses": {"204": {"description": "No Content"}, "404": {"$ref": "#/components/responses/NotFound"}}
  }}},
  "components": {
    "responses": {"NotFound": {"description": "Not Found"}},
    "schemas": {"Tree": {"type": "object", "required": ["name"], "properties": {
      "name": {"type": "string", "enum": ["oak", "elm"], "description": "<i>"},
      "age": {"type": ["integer", "null"], "minimum": 0, "maximum": 9000, "default": 1},
      "leaves": {"type": "object",
        "additionalProperties": {"type": "object", "properties": {"green": {"type": "boolean"}}}},
      "branches": {"type": "array", "maxItems": 3, "items": {"$ref": "#/components/schemas/Tree"}}
    }}}
  }
}`

const overview = "# All of *it*\n\n[b](b.md), [a](a.md#one--two) and [this](#all-of-it).\n"

// guides returns the Markdown guides of all tests. The guides in extra are added to these, or replace a guide of the
// same name.
func guides(extra map[string]string) fstest.MapFS {
	out := fstest.MapFS{}
	for name, text := range map[string]string{
		"README.md": overview, "a.md": "# A `code`\n\n## One & Two\n",
		"b.md": "# B\n", "unlinked.md": "# Unlinked\n",
	} {
		out[name] = &fstest.MapFile{Data: []byte(text)}
	}
	for name, text := range extra {
		out[name] = &fstest.MapFile{Data: []byte(text)}
	}
	return out
}

// renderPage returns a page of the test's site. text is the text of the site's guide a.
func renderPage(t *testing.T, name, text string) string {
	t.Helper()
	out, err := pages.New(guides(map[string]string{"a.md": text}), []byte(openAPI)).Page(name, "../")
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// TestPageOrder checks that the overview and the reference come first. The guides follow in the order of the overview's
// links, and then the guides without a link.
func TestPageOrder(t *testing.T) {
	names, err := pages.New(guides(nil), []byte(openAPI)).Names()
	if want := []string{"", "reference", "b", "a", "unlinked"}; err != nil || !slices.Equal(names, want) {
		t.Errorf("Names() = %q, %v, want %q and no error", names, err, want)
	}
}

func TestMarkdownBecomesHTML(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"a heading": {
			"## One & `Two`, or 3!",
			`<h2 id="one--two-or-3">One &amp; <code>Two</code>, or 3!</h2>`,
		},
		"a repeated heading":        {"## One\n\n## One\n", `<h2 id="one-1">One</h2>`},
		"a heading with a link":     {"## [One](b.md) two", `<h2 id="one-two"><a href="../docs/b">One</a> two</h2>`},
		"a heading in the contents": {"## One & `Two`", `<li><a href="#one--two">One &amp; Two</a></li>`},
		"a link within the page":    {"[x](#one)", `<a href="#one">x</a>`},
		"a link to a guide":         {"[x](b.md)", `<a href="../docs/b">x</a>`},
		"a link to a heading":       {"[x](b.md#one)", `<a href="../docs/b#one">x</a>`},
		"a link to the overview":    {"[x](README.md#one)", `<a href="../docs#one">x</a>`},
		"a link to another README": {
			"[x](../README.md#one)",
			`<a href="https://example.com/repository/blob/main/README.md#one">x</a>`,
		},
		"a link to a source file": {
			"[x](../shared/a/a.go)",
			`<a href="https://example.com/repository/blob/main/shared/a/a.go">x</a>`,
		},
		"a link to a decision": {
			"[x](decisions/b.md)",
			`<a href="https://example.com/repository/blob/main/docs/decisions/b.md">x</a>`,
		},
		"a link to an unknown guide": {"[x](c.md)", `<a href="https://example.com/repository/blob/main/docs/c.md">x</a>`},
		"a link to another host":     {"[x](https://example.org/?a=1&b)", `<a href="https://example.org/?a=1&amp;b">x</a>`},
		"a link by reference":        {"[x][y]\n\n[y]: b.md", `<a href="../docs/b">x</a>`},
		"a table": {
			"| a | b |\n|---|--:|\n| 1 | [x](b.md) |\n",
			`<td align="right"><a href="../docs/b">x</a></td>`,
		},
		"code": {"```sh\na <b> & c\n```", `<pre><code class="language-sh">a &lt;b&gt; &amp; c`},
		"a link to a script": {
			"[x](javascript:alert(1))",
			`<a href="https://example.com/repository/blob/main/docs/javascript:alert(1)">x</a>`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			if got := renderPage(t, "a", c.text); !strings.Contains(got, c.want) {
				t.Errorf("page of the guide %q lacks %s:\n%s", c.text, c.want, got)
			}
		})
	}
}

// TestHTMLInMarkdownIsDropped checks that pages do not contain HTML of
// a guide's source. Guides use HTML only for comments to their authors.
func TestHTMLInMarkdownIsDropped(t *testing.T) {
	got := renderPage(t, "a",
		"# A\n\n<!-- a\nnote -->\n\n<script>alert(1)</script>\n\nb <img src=x onerror=alert(1)> c\n")
	for _, bad := range []string{"note", "<script", "<img", "onerror", "<!-- "} {
		if strings.Contains(got, bad) {
			t.Errorf("page contains %s, want no HTML of the source:\n%s", bad, got)
		}
	}
}

func TestReferenceIsEscapedAndComplete(t *testing.T) {
	got := renderPage(t, pages.Reference, "# A\n")
	for _, want := range []string{
		`<h2 id="trees-b">Trees &lt;b&gt;</h2>`,
		`<section class="operation" id="plant">`,
		`Plant a &lt;tree&gt;`,
		`It&#39;s &#34;one&#34; &amp; &lt;only&gt;.`,
		`scope <code>trees:write</code>`,
		`<b>PUT</b>&nbsp;/<wbr>v1/<wbr>trees/<wbr>{id}`,
		`at least 2 characters`,
		`<code>name</code> <em>required</em></td><td>string<br><span class="bounds">one of oak, elm</span></td><td>&lt;i&gt;</td>`,
		`<code>age</code></td><td>integer or null<br><span class="bounds">0 to 9000; default 1</span>`,
		`<code>leaves</code></td><td>object of object</td>`,
		`<code>leaves.*.green</code></td><td>boolean</td>`,
		`<code>branches</code></td><td>array of object<br><span class="bounds">at most 3 entries</span></td>`,
		`<span><code>204</code> No Content</span>`,
		`<a href="../docs/problems#not-found"><code>404</code> Not Found</a>`,
		`curl -sS -X PUT &#34;$api/v1/trees/a%20b\$%28c%29?at=$at&#34; \`,
		`&#34;name&#34;: &#34;it&#39;\&#39;&#39;s &lt;oak&gt;&#34;`,
	} {
		if !strings.Contains(got, want) {
			t.Errorf("page %q lacks %s:\n%s", pages.Reference, want, got)
		}
	}
	if strings.Contains(got, "branches[]") {
		t.Error("reference contains branches[], want a recursive schema only once")
	}
}

// TestPageConcurrentUse checks that Page is safe for concurrent use, and that unknown names have no page.
func TestPageConcurrentUse(t *testing.T) {
	site := pages.New(guides(nil), []byte(openAPI))
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for _, name := range []string{"", "a", pages.Reference, "b"} {
				for _, base := range []string{"", "../"} {
					link := `href="` + base + `docs/b"`
					if out, err := site.Page(name, base); err != nil || !strings.Contains(string(out), link) {
						t.Errorf("Page(%q, %q) = %d bytes, error %v, want %s in it and no error", name, base, len(out), err, link)
					}
				}
			}
		})
	}
	wg.Wait()
	for _, unknown := range []string{"c", "README", "a.md", "../a", "A"} {
		if _, err := site.Page(unknown, ""); !errors.Is(err, pages.ErrNoPage) {
			t.Errorf("Page(%q) error = %v, want %v", unknown, err, pages.ErrNoPage)
		}
	}
}

func TestReadErrorsAreReported(t *testing.T) {
	for name, site := range map[string]*pages.Site{
		"no overview":         pages.New(fstest.MapFS{"a.md": {Data: []byte("# A")}}, []byte(openAPI)),
		"an invalid document": pages.New(guides(nil), []byte("{")),
	} {
		if _, err := site.Page("", ""); err == nil || errors.Is(err, pages.ErrNoPage) {
			t.Errorf("%s: Page() error = %v, want one other than %v", name, err, pages.ErrNoPage)
		}
	}
}
