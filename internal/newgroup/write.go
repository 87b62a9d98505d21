package main

import (
	"bytes"
	"context"
	"embed"
	"errors"
	"fmt"
	"go/ast"
	"go/format"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"text/template"

	"github.com/gatewright/gatewright/internal/repolint"
)

// templates contains the templates of a group's files. GROUP in a path is replaced by the name of the group's package.
// Template actions are in << >>, because paths of operations contain many braces.
//
//go:embed templates
var templates embed.FS

// groupList is the path of the file that lists the groups.
const groupList = "functions/functions.go"

// files returns the files of the group, by path.
func (g group) files() (map[string][]byte, error) {
	out := map[string][]byte{}
	err := fs.WalkDir(templates, "templates", func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := templates.ReadFile(p)
		if err != nil {
			return err
		}
		t, err := template.New(p).Delims("<<", ">>").Option("missingkey=error").Parse(string(text))
		if err != nil {
			return err
		}
		var b bytes.Buffer
		if err := t.Execute(&b, g); err != nil {
			return err
		}
		name := strings.ReplaceAll(strings.TrimSuffix(strings.TrimPrefix(p, "templates/"), ".tmpl"), "GROUP", g.Package)
		if out[name] = b.Bytes(); path.Ext(name) == ".go" {
			// Format the source, because the order of imports and the alignment of fields depend on the names.
			if out[name], err = format.Source(b.Bytes()); err != nil {
				return fmt.Errorf("format %s: %w", name, err)
			}
		}
		return nil
	})
	return out, err
}

// addToList returns the source of groupList with the group at the end of the list.
func (g group) addToList(source []byte) ([]byte, error) {
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, groupList, source, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	var groups *ast.CompositeLit // the value that resourceGroups returns
	for _, d := range file.Decls {
		f, ok := d.(*ast.FuncDecl)
		if !ok || f.Name.Name != "resourceGroups" {
			continue
		}
		for n := range ast.Preorder(f) {
			if lit, ok := n.(*ast.CompositeLit); ok {
				groups = lit
				break
			}
		}
	}
	if groups == nil || len(file.Imports) == 0 {
		return nil, fmt.Errorf("%s has no list that func resourceGroups returns: add the group by hand", groupList)
	}
	at := func(p token.Pos) int { return fset.Position(p).Offset }
	out := slices.Insert(slices.Clone(source), at(groups.Rbrace),
		fmt.Appendf(nil, "\t{%[1]s.Group, %[1]s.Bind},\n\t", g.Package)...)
	out = slices.Insert(out, at(file.Imports[0].Pos()),
		fmt.Appendf(nil, "%q\n\t", repolint.Module+"/functions/"+g.Package)...)
	return format.Source(out)
}

// write writes the group's files and its line in groupList. Some conflicts of names are found only after that, by the
// Go compiler or by the rules of package repolint. If write fails, it removes the files and restores groupList.
func (g group) write(ctx context.Context, root string) (err error) {
	var created []string // files and folders, in order of creation
	var before []byte    // the source of groupList before the change, or nil if groupList is not changed yet
	defer func() {
		if err == nil {
			return
		}
		if before != nil {
			err = errors.Join(err, os.WriteFile(filepath.Join(root, groupList), before, 0o644)) //nolint:gosec // G306: source
		}
		for _, p := range slices.Backward(created) {
			err = errors.Join(err, os.Remove(p))
		}
	}()
	files, err := g.files()
	if err != nil {
		return err
	}
	for name, text := range files {
		if created, err = create(created, root, name, text); err != nil {
			return err
		}
	}
	source, err := os.ReadFile(filepath.Join(root, groupList)) //nolint:gosec // G304: a file of the repository
	if err != nil {
		return err
	}
	changed, err := g.addToList(source)
	if err != nil {
		return err
	}
	before = source
	if err := os.WriteFile(filepath.Join(root, groupList), changed, 0o644); err != nil { //nolint:gosec // G306: source
		return err
	}
	if err := g.checkRules(root); err != nil {
		return err
	}
	return g.compile(ctx, root)
}

// create writes a new file and the folders above it, and appends the paths that it has created to created.
func create(created []string, root, name string, text []byte) ([]string, error) {
	for i, c := range name {
		if c != '/' {
			continue
		}
		folder := filepath.Join(root, name[:i])
		switch err := os.Mkdir(folder, 0o755); { //nolint:gosec // G301: it is source
		case err == nil:
			created = append(created, folder)
		case !errors.Is(err, fs.ErrExist):
			return created, err
		}
	}
	file := filepath.Join(root, name)
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644) //nolint:gosec // G302, G304: it is source
	if err != nil {
		return created, err
	}
	created = append(created, file)
	_, err = f.Write(text)
	return created, errors.Join(err, f.Close())
}

// checkRules checks the rules of package repolint that a name can violate.
func (g group) checkRules(root string) error {
	tree, err := repolint.Read(os.DirFS(root))
	if err != nil {
		return err
	}
	for _, rule := range []repolint.Rule{repolint.PackageNames, repolint.KeyPrefixes} {
		for _, f := range rule(tree) {
			if strings.HasSuffix(f.Path, "/"+g.Package) || strings.Contains(f.Path, "/"+g.Package+"/") ||
				strings.Contains(f.Text, "/"+g.Package+"/") {
				return fmt.Errorf("another NAME is needed: %s", f)
			}
		}
	}
	return nil
}

// compile checks with Go whether the new packages and their tests compile.
func (g group) compile(ctx context.Context, root string) error {
	packages := []string{"./functions/" + g.Package + "/...", "./shared/resource/" + g.Package, "./functions"}
	//nolint:gosec // G204: the name has letters only
	cmd := exec.CommandContext(ctx, "go", append([]string{"vet"}, packages...)...)
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("the new files do not compile and are removed: choose another NOUN, because this one conflicts "+
			"with another name in the files: %w\n%s", err, out)
	}
	return nil
}
