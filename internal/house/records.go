package house

import (
	"fmt"
	"go/ast"
	"go/types"
	"path"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// Stored lists what records are made of, for a golden that only grows: the spaces of their keys, and each attribute of
// each type with its name in the sources' form of it. A release that serves beside the next one, or comes back after
// it, reads and writes all that it knows.
func Stored(t *Tree) (lines []string) {
	for _, p := range t.Packages {
		for _, file := range p.sources() {
			isSpace := storeType(p, file, "Space")
			for n := range ast.Preorder(file) {
				switch n := n.(type) {
				case *ast.GenDecl:
					for _, s := range spacesOf(n, isSpace) {
						lines = append(lines, "space "+s.text)
					}
				case *ast.TypeSpec:
					its, ok := n.Type.(*ast.StructType)
					if !ok {
						continue
					}
					for _, f := range its.Fields.List {
						if f.Tag == nil {
							continue
						}
						tag, err := strconv.Unquote(f.Tag.Value)
						name, options, _ := strings.Cut(reflect.StructTag(tag).Get("dynamodbav"), ",")
						if err != nil || name == "" || name == "-" {
							continue
						}
						if options != "" {
							name += "," + options
						}
						lines = append(lines, fmt.Sprintf("%s.%s %s %s", p.Dir, n.Name.Name, name, types.ExprString(f.Type)))
					}
				}
			}
		}
	}
	slices.Sort(lines)
	return slices.Compact(lines)
}

// Removed answers those lines of what was stored that are there no more, or otherwise: no release may take them away
// from the one before.
func Removed(was, is []string) (found []string) {
	for _, line := range was {
		if line != "" && !slices.Contains(is, line) {
			found = append(found, fmt.Sprintf("%q is gone or changed, and the last release writes it: leave it, and add another attribute beside it", line))
		}
	}
	return found
}

// Records asks every type of struct with attributes of the table for a store.Rest, by which a release
// keeps what a newer one has put into a record. Those within records count too: whoever changes one
// puts it back whole.
//
// A struct without a name is for reading: nothing that is read into it is written.
func Records(t *Tree) (found []Finding) {
	for _, p := range t.Packages {
		for name, file := range p.sources() {
			isRest := storeType(p, file, "Rest")
			for n := range ast.Preorder(file) {
				spec, ok := n.(*ast.TypeSpec)
				if !ok {
					continue
				}
				its, ok := spec.Type.(*ast.StructType)
				if !ok {
					continue
				}
				stored := slices.ContainsFunc(its.Fields.List, func(f *ast.Field) bool {
					return f.Tag != nil && strings.Contains(f.Tag.Value, `dynamodbav:"`) && !strings.Contains(f.Tag.Value, `dynamodbav:"-"`)
				})
				keeps := slices.ContainsFunc(its.Fields.List, func(f *ast.Field) bool { return len(f.Names) == 0 && isRest(f.Type) })
				if stored && !keeps {
					found = append(found, Finding{name, t.line(spec.Pos()), fmt.Sprintf(
						"%s is stored and loses what a newer release has put beside it: embed %s.Rest, and give it on where a record is made anew", spec.Name.Name, path.Base(storeDir))})
				}
			}
		}
	}
	return found
}
