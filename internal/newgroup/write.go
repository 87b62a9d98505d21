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

	"github.com/gatewright/gatewright/internal/house"
)

// templates are the files of a group: of each path, GROUP is its name. Actions
// stand in << >>, because paths of operations are full of braces.
//
//go:embed templates
var templates embed.FS

// list is the file that lists the groups.
const list = "functions/functions.go"

// files gives the files of the group by their paths.
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
			// Names decide how imports sort and fields align.
			if out[name], err = format.Source(b.Bytes()); err != nil {
				return fmt.Errorf("format %s: %w", name, err)
			}
		}
		return nil
	})
	return out, err
}

// listed gives the source of the list with the group at its end.
func (g group) listed(source []byte) ([]byte, error) {
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, list, source, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	var groups *ast.CompositeLit // what resources returns
	for _, d := range file.Decls {
		f, ok := d.(*ast.FuncDecl)
		if !ok || f.Name.Name != "resources" {
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
		return nil, fmt.Errorf("%s has no list that func resources returns: add the group by hand", list)
	}
	at := func(p token.Pos) int { return fset.Position(p).Offset }
	out := slices.Insert(slices.Clone(source), at(groups.Rbrace), fmt.Appendf(nil, "\t{%[1]s.Group, %[1]s.Bind},\n\t", g.Package)...)
	out = slices.Insert(out, at(file.Imports[0].Pos()), fmt.Appendf(nil, "%q\n\t", house.Module+"/functions/"+g.Package)...)
	return format.Source(out)
}

// write writes the group's files and its line in the list. It leaves nothing
// behind when it fails: names that meet others only Go and the rules of the house
// find out.
func (g group) write(ctx context.Context, root string) (err error) {
	var made []string // files and folders, in the order in which they were made
	var before []byte // the list, once it is changed
	defer func() {
		if err == nil {
			return
		}
		if before != nil {
			err = errors.Join(err, os.WriteFile(filepath.Join(root, list), before, 0o644)) //nolint:gosec // G306: it is source
		}
		for _, p := range slices.Backward(made) {
			err = errors.Join(err, os.Remove(p))
		}
	}()
	files, err := g.files()
	if err != nil {
		return err
	}
	for name, text := range files {
		if made, err = create(made, root, name, text); err != nil {
			return err
		}
	}
	source, err := os.ReadFile(filepath.Join(root, list)) //nolint:gosec // G304: a file of the repository
	if err != nil {
		return err
	}
	changed, err := g.listed(source)
	if err != nil {
		return err
	}
	before = source
	if err := os.WriteFile(filepath.Join(root, list), changed, 0o644); err != nil { //nolint:gosec // G306: it is source
		return err
	}
	if err := g.keepsTheRules(root); err != nil {
		return err
	}
	return g.compiles(ctx, root)
}

// create writes a file that is not there yet and the folders above it, and adds
// what it made to made.
func create(made []string, root, name string, text []byte) ([]string, error) {
	for i, c := range name {
		if c != '/' {
			continue
		}
		folder := filepath.Join(root, name[:i])
		switch err := os.Mkdir(folder, 0o755); { //nolint:gosec // G301: it is source
		case err == nil:
			made = append(made, folder)
		case !errors.Is(err, fs.ErrExist):
			return made, err
		}
	}
	file := filepath.Join(root, name)
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644) //nolint:gosec // G302, G304: it is source
	if err != nil {
		return made, err
	}
	made = append(made, file)
	_, err = f.Write(text)
	return made, errors.Join(err, f.Close())
}

// keepsTheRules asks the rules of the house that a name can break.
func (g group) keepsTheRules(root string) error {
	tree, err := house.Read(os.DirFS(root))
	if err != nil {
		return err
	}
	for _, rule := range []house.Rule{house.PackageNames, house.KeySpaces} {
		for _, f := range rule(tree) {
			if strings.HasSuffix(f.Path, "/"+g.Package) || strings.Contains(f.Path, "/"+g.Package+"/") || strings.Contains(f.Text, "/"+g.Package+"/") {
				return fmt.Errorf("another NAME is needed: %s", f)
			}
		}
	}
	return nil
}

// compiles asks Go about the new packages, with their tests.
func (g group) compiles(ctx context.Context, root string) error {
	cmd := exec.CommandContext(ctx, "go", "vet", "./functions/"+g.Package+"/...", "./shared/"+g.Package, "./functions") //nolint:gosec // G204: the name has letters only
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("what was written does not compile, and is taken back: choose another NOUN, since this one means something in it already: %w\n%s", err, out)
	}
	return nil
}
