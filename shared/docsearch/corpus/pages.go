package corpus

import (
	"strings"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	tables "github.com/yuin/goldmark/extension/ast"
	"github.com/yuin/goldmark/text"

	"github.com/gatewright/gatewright/shared/docsearch"
	"github.com/gatewright/gatewright/shared/heading"
)

// Page gives the passages of a page of Markdown, section by section.
func Page(path string, source []byte) []docsearch.Passage {
	document := goldmark.New(goldmark.WithExtensions(extension.Table)).Parser().Parse(text.NewReader(source))
	var (
		all     []docsearch.Passage
		blocks  []string
		above   []string // the headings that the section stands below, the page's title first
		section = docsearch.Passage{Path: path}
		names   = heading.Anchors{}
	)
	for node := document.FirstChild(); node != nil; node = node.NextSibling() {
		heading, begins := node.(*ast.Heading)
		if !begins {
			blocks = append(blocks, texts(node, source)...)
			continue
		}
		all, blocks = append(all, pack(section, blocks)...), nil
		title := plain(heading, source)
		above = append(above[:min(len(above), heading.Level-1)], title)
		section.Title, section.Anchor = strings.Join(above, " › "), names.Next(title)
		if heading.Level == 1 {
			section.Anchor = ""
		}
	}
	return append(all, pack(section, blocks)...)
}

// texts gives the blocks of text that a node holds.
func texts(node ast.Node, source []byte) []string {
	switch node := node.(type) {
	case *ast.FencedCodeBlock, *ast.CodeBlock, *ast.HTMLBlock, *ast.ThematicBreak:
		return nil
	case *ast.Paragraph, *ast.TextBlock:
		return []string{plain(node, source)}
	case *tables.Table:
		var rows []string
		for row := node.FirstChild(); row != nil; row = row.NextSibling() {
			var cells []string
			for cell := row.FirstChild(); cell != nil; cell = cell.NextSibling() {
				if content := plain(cell, source); content != "" {
					cells = append(cells, content)
				}
			}
			rows = append(rows, strings.Join(cells, " | "))
		}
		return rows
	}
	var all []string
	for child := node.FirstChild(); child != nil; child = child.NextSibling() {
		all = append(all, texts(child, source)...)
	}
	return all
}

// plain is the text of a node as it is read: without marks of emphasis, links as what they are written on, code between
// back quotes, one line.
func plain(node ast.Node, source []byte) string {
	var b strings.Builder
	_ = ast.Walk(node, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		switch n := n.(type) {
		case *ast.CodeSpan:
			b.WriteByte('`')
		case *ast.Text:
			if entering {
				b.Write(n.Value(source))
				if n.SoftLineBreak() || n.HardLineBreak() {
					b.WriteByte(' ')
				}
			}
		case *ast.String:
			if entering {
				b.Write(n.Value)
			}
		case *ast.AutoLink:
			if entering {
				b.Write(n.URL(source))
			}
		}
		return ast.WalkContinue, nil
	})
	return strings.Join(strings.Fields(b.String()), " ")
}
