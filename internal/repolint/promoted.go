package repolint

import (
	"go/ast"
	"go/types"
	"strings"
)

// copyMethods contains the types of the standard library that have WriteTo or ReadFrom. io.Copy calls WriteTo of a
// source instead of Read (replacesRead), and ReadFrom of a destination instead of Write (replacesWrite).
var copyMethods = map[string]struct{ replacesRead, replacesWrite bool }{
	"os.File":          {true, true},
	"net.TCPConn":      {true, true},
	"bytes.Buffer":     {true, true},
	"bytes.Reader":     {true, false},
	"strings.Reader":   {true, false},
	"bufio.Reader":     {true, false},
	"bufio.Writer":     {false, true},
	"bufio.ReadWriter": {true, true},
}

// PromotedCopies reports types that embed a type of copyMethods and replace its Read or Write, but not its WriteTo or
// ReadFrom. io.Copy, and so os/exec and net/http, would use the promoted WriteTo or ReadFrom instead of the
// replacement, which checks or limits the bytes.
func PromotedCopies(t *Tree) (found []Finding) {
	for _, p := range t.Packages {
		methods := map[string]map[string]bool{} // by type
		for _, file := range p.sources() {
			for _, d := range file.Decls {
				if f, ok := d.(*ast.FuncDecl); ok && f.Recv != nil {
					name := receiverType(f)
					if methods[name] == nil {
						methods[name] = map[string]bool{}
					}
					methods[name][f.Name.Name] = true
				}
			}
		}
		for path, file := range p.sources() {
			for n := range ast.Preorder(file) {
				spec, ok := n.(*ast.TypeSpec)
				if !ok {
					continue
				}
				own := methods[spec.Name.Name]
				for _, embedded := range embeddedTypes(spec) {
					promoted := copyMethods[embedded]
					if promoted.replacesRead && own["Read"] && !own["WriteTo"] ||
						promoted.replacesWrite && own["Write"] && !own["ReadFrom"] {
						found = append(found, Finding{path, t.line(spec.Pos()), spec.Name.Name + " embeds " + embedded +
							", whose WriteTo or ReadFrom io.Copy uses instead of this type's Read or Write: do not embed it"})
					}
				}
			}
		}
	}
	return found
}

// receiverType returns the name of the type of a method's receiver.
func receiverType(f *ast.FuncDecl) string {
	name, _, _ := strings.Cut(strings.TrimPrefix(types.ExprString(f.Recv.List[0].Type), "*"), "[")
	return name
}

// embeddedTypes returns the types that a struct embeds, such as "os.File". If the struct embeds a pointer, the type is
// returned without the "*".
func embeddedTypes(spec *ast.TypeSpec) (names []string) {
	s, ok := spec.Type.(*ast.StructType)
	if !ok {
		return nil
	}
	for _, field := range s.Fields.List {
		if len(field.Names) == 0 {
			names = append(names, strings.TrimPrefix(types.ExprString(field.Type), "*"))
		}
	}
	return names
}
