package house

import (
	"fmt"
	"go/ast"
	"path"
	"slices"
	"strings"
)

// madeAnew are the types of what is stored that need no store.Rest, with the reason.
var madeAnew = map[string]string{
	"shared/store/rootkey.rootKeyRecord": "is written once, and replaced as a whole by one that is moved here",
	"local/enginebench.item":             "is for measurements",
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
				if !ok || madeAnew[p.Dir+"."+spec.Name.Name] != "" {
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
