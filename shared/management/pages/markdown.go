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

	"github.com/gatewright/gatewright/shared/format/heading"
)

// folder is the folder of the guides in the repository. branch is
// the branch to which links to other files of the repository point.
const (
	folder = "docs"
	branch = "main"
)

// markdown renders a guide. It drops HTML in the source, and supports tables. Headings have the same
// anchors as on the site of the repository. Links to guides become links to pages, and links to
// other files become links into the repository. It also returns the headings of the second level.
func (d *siteData) markdown(source []byte, base string) (body markup, sections []section, err error) {
	// Align cells with the attribute align, because our Content-Security-Policy does not allow the attribute style.
	table := extension.NewTable(extension.WithTableCellAlignMethod(extension.TableCellAlignAttribute))
	m := goldmark.New(goldmark.WithExtensions(table))
	tree := m.Parser().Parse(text.NewReader(source))
	anchors := heading.Anchors{}
	var dropped []ast.Node
	err = ast.Walk(tree, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if !entering {
			return ast.WalkContinue, nil
		}
		switch n := n.(type) {
		case *ast.Heading:
			title := plainText(n, source)
			id := anchors.Next(title)
			n.SetAttributeString("id", []byte(id))
			if n.Level == 2 {
				sections = append(sections, section{id, title})
			}
		case *ast.Link:
			n.Destination = []byte(d.linkTarget(string(n.Destination), base))
		case *ast.HTMLBlock, *ast.RawHTML: // comments for the authors of the page
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

// linkTarget converts the target of a link in a guide to the target of the link on the page.
func (d *siteData) linkTarget(target, base string) string {
	if target == "" || strings.HasPrefix(target, "#") || strings.Contains(target, "://") ||
		strings.HasPrefix(target, "mailto:") {
		return target
	}
	file, anchor, _ := strings.Cut(target, "#")
	file = path.Join(folder, file)
	name := strings.TrimSuffix(path.Base(file), ".md")
	if name == overview {
		name = ""
	}
	if path.Dir(file) == folder && slices.ContainsFunc(d.guides, func(g guide) bool { return g.Name == name }) {
		return linkTo(base, name, anchor)
	}
	if anchor != "" {
		file += "#" + anchor
	}
	return strings.TrimSuffix(d.repository, "/") + "/blob/" + branch + "/" + file
}

// plainText returns the text inside a node, without markup.
func plainText(n ast.Node, source []byte) string {
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
			out.WriteString(plainText(c, source))
		}
	}
	return out.String()
}
