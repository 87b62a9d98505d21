package files

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
	"golang.org/x/text/language"
	"golang.org/x/text/message"

	"github.com/gatewright/gatewright/shared/base/disk"
	"github.com/gatewright/gatewright/shared/format/credential"
	"github.com/gatewright/gatewright/shared/format/project"
	"github.com/gatewright/gatewright/shared/thirdparty/jsonschema"
)

// maxTotalSize is the maximum total size of all files in bytes.
const maxTotalSize = 64 << 20

// completeMember is the member that declares which lists of an object are complete.
const completeMember = "complete"

// Files are the objects in a set of files.
type Files struct {
	kinds      []*Kind
	fields     map[*Kind]*fields
	rootObject *object
	// dir is the absolute path of the folder with the files.
	dir string
	// sources are the contents of the files, by the file names in problems. hidden are the lines that may contain a
	// secret.
	sources project.Files
	hidden  map[string]map[int]bool
	// Objects is the number of objects that the files name.
	Objects int
}

// reader reads files.
type reader struct {
	*Files
	root *os.Root
	// file is the name of the file that is being read. nodeCount is the number of nodes in all files so far (maxNodes).
	file      string
	nodeCount int
	// hasAnchors says that the file may have anchors. The same node may then be read several times.
	hasAnchors bool
	problems   []project.Problem
	printer    *message.Printer
}

// Read reads a file, or all files with the extension .yaml or .yml in a folder and its subfolders. It skips files and
// subfolders whose name begins with a dot. If the files have problems, its error is an InvalidError. If the file or the
// folder cannot be read, or the folder has no such file, Read returns a usage error. If ctx is canceled, Read returns
// the cause.
func Read(ctx context.Context, name string) (*Files, error) {
	kinds := Kinds()
	r := &reader{Files: &Files{
		kinds: kinds, rootObject: &object{}, sources: project.Files{},
		hidden: map[string]map[int]bool{},
	}, printer: message.NewPrinter(language.English)}
	var err error
	if r.fields, err = fieldsByKind(kinds); err != nil {
		return nil, err
	}
	info, err := os.Stat(name)
	if err != nil {
		return nil, usageError("%s cannot be read: %w", name, disk.Cause(err))
	}
	names := []string{"."}
	if r.dir = name; !info.IsDir() {
		r.dir, names = filepath.Dir(name), []string{filepath.Base(name)}
	}
	if r.dir, err = filepath.Abs(r.dir); err != nil {
		return nil, usageError("%s cannot be found: %w", name, err)
	}
	if r.root, err = os.OpenRoot(r.dir); err != nil {
		return nil, usageError("%s cannot be read: %w", name, disk.Cause(err))
	}
	defer func() { _ = r.root.Close() }()
	if info.IsDir() {
		if names, err = r.fileNames(); err != nil {
			return nil, usageError("%s cannot be read: %w", name, disk.Cause(err))
		}
		if len(names) == 0 {
			return nil, usageError("%s has no file that is called .yaml or .yml: `gatewright export --out %s` writes some", name,
				name)
		}
	}
	remaining := int64(maxTotalSize)
	for _, name := range names {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		r.readFile(name, &remaining)
	}
	r.checkObjects()
	slices.SortStableFunc(r.problems, func(a, b project.Problem) int {
		if c := strings.Compare(a.File, b.File); c != 0 {
			return c
		}
		return a.Line - b.Line
	})
	return r.Files, r.invalidError(r.problems)
}

// fileNames returns the names of the files that Read reads in a folder, with slashes as separators.
func (r *reader) fileNames() (names []string, err error) {
	err = fs.WalkDir(r.root.FS(), ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && name != "." && strings.HasPrefix(d.Name(), "."):
			return fs.SkipDir
		case !d.IsDir() && slices.Contains([]string{".yaml", ".yml"}, path.Ext(name)) && !strings.HasPrefix(d.Name(), "."):
			names = append(names, name)
		}
		return nil
	})
	return names, err
}

// readFile reads the objects of a file. remaining is the maximum size of the file. readFile subtracts the file's size
// from it.
func (r *reader) readFile(name string, remaining *int64) {
	r.file = name
	start := position{file: name}
	text, err := readRegular(r.root, filepath.FromSlash(name), *remaining)
	switch {
	case errors.Is(err, errTooLarge):
		r.addProblem(start.newProblem("The files have more than %d MiB together: split them, and plan one after the other.",
			maxTotalSize>>20))
		return
	case err != nil:
		r.addProblem(start.newProblem("It cannot be read: %v.", disk.Cause(err)))
		return
	}
	*remaining -= int64(len(text))
	r.sources[name] = text
	r.hasAnchors = bytes.ContainsRune(text, '&')
	r.eachDocument(name, text, r.readDocument)
}

var (
	errTooLarge   = errors.New("it is too large")
	errNotRegular = errors.New("it is no file, but a folder, a pipe or a device")
)

// readRegular reads a file within a folder. It refuses links to files outside the folder, and files of more than limit
// bytes. It opens only regular files, because opening a pipe could block forever.
func readRegular(root *os.Root, name string, limit int64) ([]byte, error) {
	info, err := root.Stat(name)
	switch {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, errNotRegular
	case info.Size() > limit:
		return nil, errTooLarge
	}
	f, err := root.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	text, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(text)) > limit {
		err = errTooLarge
	}
	return text, err
}

// readDocument reads the top level of a document.
func (r *reader) readDocument(n *yaml.Node) {
	if n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null" {
		return // the document has only comments
	}
	list, ok := r.members(n, "an object")
	if !ok {
		return
	}
	for _, m := range list {
		r.readMember(r.rootObject, r.kinds, m, "at the top of a file")
	}
}

// readMember reads a member that is a list of objects, or that declares lists complete.
func (r *reader) readMember(o *object, kinds []*Kind, m member, location string) {
	if m.key.Value == completeMember {
		r.readComplete(o, kinds, m.value)
		return
	}
	k := findKind(kinds, m.key.Value)
	if k == nil {
		r.addProblemAt(m.key, "%s is not known %s. There are: %s.", m.key.Value, location,
			joinNames(append(memberNames(kinds), completeMember)))
		return
	}
	n, ok := r.resolveAlias(m.value)
	if !ok {
		return
	}
	if o.children == nil {
		o.children = map[string]map[string]*object{}
	}
	if o.children[k.Member] == nil {
		o.children[k.Member] = map[string]*object{}
	}
	if n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null" {
		return
	}
	if n.Kind != yaml.SequenceNode {
		r.addProblemAt(n, "%s has to be a list: each %s begins with a dash.", k.Member, k.Singular)
		return
	}
	for i, entry := range n.Content {
		if !r.hasAnchors {
			n.Content[i] = nil // release the memory: the node is not read again, and there may be 20,000
		}
		if child := r.readObject(k, entry); child != nil {
			if conflict := o.add(child); conflict != nil {
				r.addProblem(*conflict)
			}
		}
	}
}

func memberNames(kinds []*Kind) (names []string) {
	for _, k := range kinds {
		names = append(names, k.Member)
	}
	return names
}

func (r *reader) readComplete(o *object, kinds []*Kind, n *yaml.Node) {
	n, ok := r.resolveAlias(n)
	if !ok {
		return
	}
	if n.Kind != yaml.SequenceNode {
		r.addProblemAt(n, "%s has to be a list of lists of which all is here, such as [%s].", completeMember,
			joinNames(memberNames(kinds)))
		return
	}
	for _, entry := range n.Content {
		k := findKind(kinds, entry.Value)
		switch {
		case k == nil:
			r.addProblemAt(entry, "There is no list %s here. There are: %s.", entry.Value, joinNames(memberNames(kinds)))
		case k.Delete == "":
			r.addProblemAt(entry, "%s cannot be complete: the API deletes no %s by itself.", k.Member, k.Singular)
		default:
			if o.complete == nil {
				o.complete = map[string]position{}
			}
			o.complete[k.Member] = r.positionOf(entry)
		}
	}
}

// readObject reads an object. It returns nil for an object that cannot be read, after reporting the problem.
func (r *reader) readObject(k *Kind, n *yaml.Node) *object {
	n, ok := r.resolveAlias(n)
	if !ok {
		return nil
	}
	if k.NameOnly && n.Kind == yaml.ScalarNode && n.ShortTag() == "!!str" {
		o := &object{kind: k, name: n.Value, at: r.positionOf(n)}
		r.checkSchema(r.fields[k].keySchema, n, mustMarshal(n.Value), false)
		return o
	}
	list, ok := r.members(n, "a "+k.Singular)
	if !ok {
		return nil
	}
	o := &object{kind: k, at: r.positionOf(n), fields: map[string]fieldValue{}}
	hasName := false
	for _, m := range list {
		switch field := r.fields[k].byName[m.key.Value]; {
		case m.key.Value == k.Key:
			hasName = true
			o.name, o.at = m.value.Value, r.positionOf(m.value)
			if value, ok := r.toJSON(m.value); ok {
				if m.value.Kind != yaml.ScalarNode || m.value.ShortTag() != "!!str" || m.value.Value == "" {
					r.addProblemAt(m.value, "%s has to be a text: put it in quotes.", k.Key)
					return nil
				}
				r.checkSchema(r.fields[k].keySchema, m.value, value, false)
			}
		case field != nil:
			r.readField(o, field, m)
		case k.child(m.key.Value) != nil || m.key.Value == completeMember:
			r.readMember(o, k.Children, m, "in a "+k.Singular)
		default:
			reason := k.Excluded[m.key.Value]
			if reason != "" {
				r.addProblemAt(m.key, "%s is not taken: %s.", m.key.Value, reason)
				continue
			}
			r.addProblemAt(m.key, "%s is no field of a %s. It has: %s.", m.key.Value, k.Singular, joinNames(r.knownMembers(k)))
		}
	}
	if !hasName {
		r.addProblemAt(n, "This %s has no %s, by which it is known.", k.Singular, k.Key)
		return nil
	}
	return o
}

func (r *reader) knownMembers(k *Kind) []string {
	names := []string{k.Key}
	for name := range r.fields[k].byName {
		names = append(names, name)
	}
	slices.Sort(names[1:])
	if len(k.Children) > 0 {
		names = append(append(names, memberNames(k.Children)...), completeMember)
	}
	return names
}

// readField reads the value of a field.
func (r *reader) readField(o *object, f *Field, m member) {
	at := r.positionOf(m.value)
	var ref *Reference
	isRef, ok := false, true
	if !f.Object { // a member fromEnv of tags or metadata is a value, and no reference
		ref, isRef, ok = r.readReference(m.value)
	}
	if !isRef && (f.Secret || f.Name == o.kind.Secret) {
		r.hideLine(m.key.Line)
		r.hideLine(m.value.Line)
	}
	switch {
	case !ok:
		return
	case isRef && !f.Text:
		r.addProblemAt(m.value, "%s has to stand here as it is: only a text comes from elsewhere.", f.Name)
		return
	case isRef:
		o.fields[f.Name] = fieldValue{ref: ref, at: at}
		return
	case f.Secret:
		r.addProblemAt(m.value, "%s is a secret, which stands in no file: give it as {fromEnv: NAME} or {fromFile: PATH}.",
			f.Name)
		return
	}
	value, ok := r.toJSON(m.value)
	if !ok {
		return
	}
	if string(value) != "null" {
		r.checkSchema(f.schema, m.value, value, f.Name == o.kind.Secret)
	}
	o.fields[f.Name] = fieldValue{value: value, at: at}
}

// checkSchema reports where a value violates its schema. If secret is true, the problem does not contain the value.
func (r *reader) checkSchema(s *jsonschema.Schema, n *yaml.Node, value Value, secret bool) {
	if s == nil {
		return
	}
	err := s.Validate(decode(value))
	if err == nil {
		return
	}
	e, ok := errors.AsType[*jsonschema.ValidationError](err)
	if !ok || secret {
		r.addProblemAt(n, "This value does not fit.")
		return
	}
	var visit func(e *jsonschema.ValidationError)
	visit = func(e *jsonschema.ValidationError) {
		for _, cause := range e.Causes {
			visit(cause)
		}
		if len(e.Causes) == 0 {
			text := credential.Redact(strings.ToValidUTF8(e.ErrorKind.LocalizedString(r.printer), ""))
			r.addProblemAt(nodeAt(n, e.InstanceLocation), "This does not fit: %s.", cutText(text))
		}
	}
	visit(e)
}

// cutText limits the length of a value in a message.
func cutText(text string) string {
	const maxLength = 200
	if len(text) <= maxLength {
		return text
	}
	return strings.ToValidUTF8(text[:maxLength], "") + "…"
}

// checkObjects counts the objects, and reports those with a Kind.Secret in plain text and metering buckets without
// plans.
func (r *reader) checkObjects() {
	r.rootObject.walk(r.kinds, func(o *object) {
		r.Objects++
		k := o.kind
		if k.Secret != "" && string(o.fields[k.SecretIf].value) == "true" && o.fields[k.Secret].value != nil {
			r.addProblem(o.fields[k.Secret].at.newProblem("%s of a %s with %s: true is a secret, which stands in no file: "+
				"give it as {fromEnv: NAME} or {fromFile: PATH}.", k.Secret, k.Singular, k.SecretIf))
		}
		if k.Member == meteringBucketsMember && len(o.children["plans"]) == 0 {
			r.addProblem(o.at.newProblem("A metering bucket is known by its plans alone: name at least one of them."))
		}
	})
}

// isSecret reports whether a field of an object is a secret, according to the files.
func (f *Files) isSecret(o *object, name string) bool {
	if field := f.fields[o.kind].byName[name]; field != nil && field.Secret {
		return true
	}
	return name == o.kind.Secret && string(o.fields[o.kind.SecretIf].value) == "true"
}

// TopLevelLists returns the names of the top-level lists in files. Callers use them to select the content of an export.
func TopLevelLists() []string { return memberNames(Kinds()) }
