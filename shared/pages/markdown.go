package pages

import (
	"bytes"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/text"

	"github.com/gatewright/gatewright/shared/heading"
)

// folder is where the guides are in the repository, branch the one whose files links lead to.
const (
	folder = "docs"
	branch = "main"
)

// markdown renders a guide: without HTML of its own, with tables, its headings under the anchors
// that they have where the repository is browsed, and its links leading to pages of the site or,
// where they leave the guides, into the repository. It gives the headings of the second level.
func (o *opened) markdown(source []byte, up string) (body markup, sections []section, err error) {
	// By attributes: a style beside an element is what no policy of ours allows.
	table := extension.NewTable(extension.WithTableCellAlignMethod(extension.TableCellAlignAttribute))
	m := goldmark.New(goldmark.WithExtensions(table))
	tree := m.Parser().Parse(text.NewReader(source))
	names := heading.Anchors{}
	var dropped []ast.Node
	err = ast.Walk(tree, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if !entering {
			return ast.WalkContinue, nil
		}
		switch n := n.(type) {
		case *ast.Heading:
			title := plain(n, source)
			id := names.Next(title)
			n.SetAttributeString("id", []byte(id))
			if n.Level == 2 {
				sections = append(sections, section{id, title})
			}
		case *ast.Link:
			n.Destination = []byte(o.leads(string(n.Destination), up))
		case *ast.HTMLBlock, *ast.RawHTML: // comments, which are for who writes the page
			dropped = append(dropped, n)
		}
		return ast.WalkContinue, nil
	})
	if err != nil {
		return "", nil, fmt.Errorf("walk through its parts: %w", err)
	}
	for _, n := range dropped {
		n.Parent().RemoveChild(n.Parent(), n)
	}
	var out bytes.Buffer
	if err := m.Renderer().Render(&out, source, tree); err != nil {
		return "", nil, fmt.Errorf("write it as HTML: %w", err)
	}
	return markup(out.String()), sections, nil
}

// leads is where a link of a guide leads from a page.
func (o *opened) leads(target, up string) string {
	if target == "" || strings.HasPrefix(target, "#") || strings.Contains(target, "://") || strings.HasPrefix(target, "mailto:") {
		return target
	}
	file, anchor, _ := strings.Cut(target, "#")
	file = path.Join(folder, file)
	name := strings.TrimSuffix(path.Base(file), ".md")
	if name == overview {
		name = ""
	}
	if path.Dir(file) == folder && slices.ContainsFunc(o.guides, func(g guide) bool { return g.Name == name }) {
		return linkTo(up, name, anchor)
	}
	if anchor != "" {
		file += "#" + anchor
	}
	return strings.TrimSuffix(o.repository, "/") + "/blob/" + branch + "/" + file
}

// plain is the text of what is below a node, without its marks.
func plain(n ast.Node, source []byte) string {
	var out strings.Builder
	for c := n.FirstChild(); c != nil; c = c.NextSibling() {
		switch c := c.(type) {
		case *ast.Text:
			out.Write(c.Segment.Value(source))
			if c.SoftLineBreak() {
				out.WriteByte(' ')
			}
		case *ast.String:
			out.Write(c.Value)
		default:
			out.WriteString(plain(c, source))
		}
	}
	return out.String()
}
