package repolint

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

// StoredFormat lists the format of stored records: the prefixes of their keys, and each attribute of each type with its
// name and its type in the source. The golden file with this list only grows, because a release can run at the same
// time as the next release, or be restored after it. Then both read and write the same records.
func StoredFormat(t *Tree) (lines []string) {
	for _, p := range t.Packages {
		for _, file := range p.sources() {
			isPrefix := storeType(p, file, "KeyPrefix")
			for n := range ast.Preorder(file) {
				switch n := n.(type) {
				case *ast.GenDecl:
					for _, s := range prefixesOf(n, isPrefix) {
						lines = append(lines, "space "+s.text)
					}
				case *ast.TypeSpec:
					structType, ok := n.Type.(*ast.StructType)
					if !ok {
						continue
					}
					for _, f := range structType.Fields.List {
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

// Removed returns the lines of previous that current no longer contains unchanged. A release must not remove anything
// that the previous release stores.
func Removed(previous, current []string) (found []string) {
	for _, line := range previous {
		if line != "" && !slices.Contains(current, line) {
			found = append(found, fmt.Sprintf("%q is removed or changed, and the previous release writes it: keep it, and add "+
				"another attribute", line))
		}
	}
	return found
}

// Records reports each struct type that has attributes of the table but does not embed store.UnknownAttributes. That
// field keeps the attributes that a newer release has added to a record. This applies to structs within records too,
// because a change writes them back completely.
//
// A struct type without a name is exempt: such structs are only read, and never written.
func Records(t *Tree) (found []Finding) {
	for _, p := range t.Packages {
		for name, file := range p.sources() {
			isUnknownAttributes := storeType(p, file, "UnknownAttributes")
			for n := range ast.Preorder(file) {
				spec, ok := n.(*ast.TypeSpec)
				if !ok {
					continue
				}
				structType, ok := spec.Type.(*ast.StructType)
				if !ok {
					continue
				}
				stored := slices.ContainsFunc(structType.Fields.List, func(f *ast.Field) bool {
					return f.Tag != nil && strings.Contains(f.Tag.Value, `dynamodbav:"`) &&
						!strings.Contains(f.Tag.Value, `dynamodbav:"-"`)
				})
				embedsUnknown := slices.ContainsFunc(structType.Fields.List, func(f *ast.Field) bool {
					return len(f.Names) == 0 && isUnknownAttributes(f.Type)
				})
				if stored && !embedsUnknown {
					found = append(found, Finding{name, t.line(spec.Pos()), fmt.Sprintf(
						"%s is stored and loses the attributes that a newer release has added: embed %s.UnknownAttributes, and copy it "+
							"where a record is written again", spec.Name.Name, path.Base(storeDir))})
				}
			}
		}
	}
	return found
}
