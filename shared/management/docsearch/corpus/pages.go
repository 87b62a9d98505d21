package corpus

import (
	"strings"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	tables "github.com/yuin/goldmark/extension/ast"
	"github.com/yuin/goldmark/text"

	"github.com/gatewright/gatewright/shared/format/heading"
	"github.com/gatewright/gatewright/shared/management/docsearch"
)

// Page returns the passages of a page of Markdown, section by section.
func Page(path string, source []byte) []docsearch.Passage {
	document := goldmark.New(goldmark.WithExtensions(extension.Table)).Parser().Parse(text.NewReader(source))
	var (
		all     []docsearch.Passage
		blocks  []string
		titles  []string // the titles of the section and of those above it, beginning with the page's title
		section = docsearch.Passage{Path: path}
		anchors = heading.Anchors{}
	)
	for node := document.FirstChild(); node != nil; node = node.NextSibling() {
		heading, isHeading := node.(*ast.Heading)
		if !isHeading {
			blocks = append(blocks, texts(node, source)...)
			continue
		}
		all, blocks = append(all, pack(section, blocks)...), nil
		title := plainText(heading, source)
		titles = append(titles[:min(len(titles), heading.Level-1)], title)
		section.Title, section.Anchor = strings.Join(titles, " › "), anchors.Next(title)
		if heading.Level == 1 {
			section.Anchor = ""
		}
	}
	return append(all, pack(section, blocks)...)
}

// texts returns the blocks of text in a node.
func texts(node ast.Node, source []byte) []string {
	switch node := node.(type) {
	case *ast.FencedCodeBlock, *ast.CodeBlock, *ast.HTMLBlock, *ast.ThematicBreak:
		return nil
	case *ast.Paragraph, *ast.TextBlock:
		return []string{plainText(node, source)}
	case *tables.Table:
		var rows []string
		for row := node.FirstChild(); row != nil; row = row.NextSibling() {
			var cells []string
			for cell := row.FirstChild(); cell != nil; cell = cell.NextSibling() {
				if content := plainText(cell, source); content != "" {
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

// plainText returns the text of a node in one line: without
// emphasis and the targets of links, and with code in backquotes.
func plainText(node ast.Node, source []byte) string {
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
