package pages

import (
	"fmt"
	"html"
	"strings"
)

// writer writes HTML. The package does not use html/template, because that package looks up methods by name, which
// forces the linker to keep every method of every type. With html/template, the binary of the Lambda function had 26 MB
// instead of 15 MB, and took 1.5 ms longer to start.
type writer struct{ strings.Builder }

// markup is HTML. put writes it without escaping.
type markup string

// put formats its arguments like fmt.Fprintf and writes the
// result. It escapes strings in args, except those of type markup.
func (w *writer) put(format string, args ...any) {
	for i, arg := range args {
		if text, ok := arg.(string); ok {
			args[i] = html.EscapeString(text)
		}
	}
	fmt.Fprintf(&w.Builder, format, args...)
}

// page has the body of a page, and the data for the layout around the body.
type page struct {
	Title string
	// Base is the relative path from the page to the folder that contains docs. Repository is the URL of the source.
	Base, Repository string
	Body             markup
	Navigation       []entry
}

// entry is a page in the navigation. Sections are its headings if it is the current page.
type entry struct {
	Title, Href string
	Current     bool
	Sections    []section
}

// section is a heading of a page.
type section struct{ ID, Title string }

// icon is the icon of the pages, a gate. The pages have no other pictures.
const icon = "data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 16 16'%3E%3Cpath " +
	"fill='%230b6e6e' d='M1 15V7a7 7 0 0 1 14 0v8h-4V7a3 3 0 0 0-6 0v8z'/%3E%3C/svg%3E"

// html returns the page as an HTML document.
func (p page) html() []byte {
	var w writer
	w.put(`<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>%s · Gatewright</title>
<link rel="icon" href="%s">
<style>%s</style>
</head>
<body>
<header>
<a class="name" href="%s">Gatewright</a>
<a class="jump" href="#pages">All pages</a>
<span class="places"><a href="%sopenapi">OpenAPI</a> <a href="%s">Source</a></span>
</header>
<div class="columns">
<main>
%s
</main>
<nav id="pages" aria-label="Pages">
`, p.Title, markup(icon), markup(style), linkTo(p.Base, "", ""), p.Base, p.Repository, p.Body)
	w.put("<ul>\n")
	for _, e := range p.Navigation {
		current := markup("")
		if e.Current {
			current = ` aria-current="page"`
		}
		w.put(`<li><a href="%s"%s>%s</a>`, e.Href, current, e.Title)
		if len(e.Sections) > 0 {
			w.put("\n<ul>\n")
			for _, s := range e.Sections {
				w.put("<li><a href=\"#%s\">%s</a></li>\n", s.ID, s.Title)
			}
			w.put("</ul>\n")
		}
		w.put("</li>\n")
	}
	w.put("</ul>\n</nav>\n</div>\n</body>\n</html>\n")
	return []byte(w.String())
}

// wrapPath returns a path that can wrap after its slashes on a narrow page.
func wrapPath(path string) markup {
	return markup(strings.ReplaceAll(html.EscapeString(path), "/", "/<wbr>"))
}

// body returns the body of the page with the operations.
func (r reference) body() markup {
	var w writer
	w.put(`<h1>%s</h1>
<p>All that the management API does, made of <a href="%sopenapi">its OpenAPI document</a>, which this installation answers, too. An account key goes into the header
<code>Authorization: Bearer gwa_…</code>. Below, <code>$api</code> is the address of the API and <code>$account_key</code> the key; values are those of the examples.
<a href="%s">The management API</a> says what all operations have in common, <a href="%s">problems by title</a> what to do about an error.</p>
<div class="index">
`, r.Title, r.Base, linkTo(r.Base, "api", ""), linkTo(r.Base, "problems", ""))
	for _, g := range r.Groups {
		w.put("<p><a href=\"#%s\"><strong>%s</strong></a></p>\n<ul>\n", g.ID, g.Title)
		for _, o := range g.Operations {
			w.put("<li><a href=\"#%s\">%s</a> <code>%s&nbsp;%s</code></li>\n", o.ID, o.Summary, o.Method, wrapPath(o.Path))
		}
		w.put("</ul>\n")
	}
	w.put("</div>\n")
	for _, g := range r.Groups {
		w.put("<h2 id=\"%s\">%s</h2>\n<p>%s</p>\n", g.ID, g.Title, g.Description)
		for _, o := range g.Operations {
			w.operation(o)
		}
	}
	return markup(w.String())
}

// operation writes the section of an operation.
func (w *writer) operation(o operation) {
	w.put(`<section class="operation" id="%s">
<h3><a class="here" href="#%s">%s</a></h3>
<p class="route"><code><b>%s</b>&nbsp;%s</code></p>
`, o.ID, o.ID, o.Summary, o.Method, wrapPath(o.Path))
	w.put(`<p class="facts"><span>`)
	switch {
	case o.Public:
		w.put("public: it needs no key")
	case o.Scope != "":
		w.put("scope <code>%s</code>", o.Scope)
	default:
		w.put("any account key")
	}
	w.put("</span> <span>id <code>%s</code></span></p>\n", o.ID)
	if o.Description != "" {
		w.put("<p>%s</p>\n", o.Description)
	}
	if len(o.Parameters) > 0 {
		w.put("<h4>Parameters</h4>\n")
		w.table([]string{"name", "in", "type", "what it is"}, o.Parameters, "required")
	}
	if o.Body != nil {
		w.put("<h4>Body</h4>\n")
		w.shape(*o.Body, "required")
	}
	w.put("<h4>Answers</h4>\n<p class=\"answers\">")
	for _, a := range o.Successes {
		w.put("<span><code>%s</code> %s</span> ", a.Status, a.Title)
	}
	for _, f := range o.Errors {
		w.put(`<a href="%s"><code>%s</code> %s</a> `, f.Href, f.Status, f.Title)
	}
	w.put("</p>\n")
	for _, a := range o.Successes {
		if a.Shape != nil {
			w.put("<details><summary>What a %s holds</summary>\n", a.Status)
			w.shape(*a.Shape, "always")
			w.put("</details>\n")
		}
		if a.Example != "" {
			w.put("<details><summary>An example of it</summary>\n<pre><code>%s</code></pre>\n</details>\n", a.Example)
		}
	}
	w.put("<h4>Example</h4>\n<pre class=\"example\"><code>%s</code></pre>\n</section>\n", o.Example)
}

// shape writes the contents of a body. requiredLabel is the word for required fields.
func (w *writer) shape(s shape, requiredLabel string) {
	if s.Top.Bounds != "" || len(s.Fields) == 0 {
		w.put("<p>%s", s.Top.Type)
		if s.Top.Bounds != "" {
			w.put(", %s", s.Top.Bounds)
		}
		w.put("</p>\n")
	}
	if len(s.Fields) > 0 {
		w.table([]string{"field", "type", "what it is"}, s.Fields, requiredLabel)
	}
}

// table writes a table of fields. If the fields have In, headers must have a header for it.
func (w *writer) table(headers []string, fields []field, requiredLabel string) {
	w.put("<table>\n<thead><tr>")
	for _, header := range headers {
		w.put("<th>%s</th>", header)
	}
	w.put("</tr></thead>\n<tbody>\n")
	for _, f := range fields {
		w.put("<tr><td><code>%s</code>", f.Name)
		if f.Required {
			w.put(" <em>%s</em>", requiredLabel)
		}
		w.put("</td>")
		if f.In != "" {
			w.put("<td>%s</td>", f.In)
		}
		w.put("<td>%s", f.Type)
		if f.Bounds != "" {
			w.put(`<br><span class="bounds">%s</span>`, f.Bounds)
		}
		if f.Pattern != "" {
			w.put(`<br><code class="bounds">%s</code>`, f.Pattern)
		}
		w.put("</td><td>%s</td></tr>\n", f.Description)
	}
	w.put("</tbody>\n</table>\n")
}
