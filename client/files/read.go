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

	"github.com/gatewright/gatewright/shared/credential"
	"github.com/gatewright/gatewright/shared/disk"
	"github.com/gatewright/gatewright/shared/project"
	"github.com/gatewright/gatewright/thirdparty/jsonschema"
)

// mostBytes is what all files together may have.
const mostBytes = 64 << 20

// completeMember says of which lists in an object all is there.
const completeMember = "complete"

// Files are what is wanted.
type Files struct {
	kinds  []*Kind
	fields map[*Kind]*fields
	top    *object
	dir    string
	// sources are the texts by their names, as problems name them, and hidden the lines on which something stands that may be a secret.
	sources project.Files
	hidden  map[string]map[int]bool
	// Objects counts what they name.
	Objects int
}

// reader reads files.
type reader struct {
	*Files
	root  *os.Root
	file  string
	nodes int
	// anchors says that the file may have some, and that what was read may be read again.
	anchors  bool
	problems []project.Problem
	printer  *message.Printer
}

// Read reads a file, or all files of a folder that are called .yaml or .yml. Its error has all that is wrong with them (InvalidError),
// or that there is nothing to read.
func Read(ctx context.Context, name string) (*Files, error) {
	kinds := Kinds()
	r := &reader{Files: &Files{kinds: kinds, top: &object{}, sources: project.Files{}, hidden: map[string]map[int]bool{}}, printer: message.NewPrinter(language.English)}
	var err error
	if r.fields, err = fieldsOfAll(kinds); err != nil {
		return nil, err
	}
	info, err := os.Stat(name)
	if err != nil {
		return nil, usage("%s cannot be read: %w", name, disk.Cause(err))
	}
	names := []string{"."}
	if r.dir = name; !info.IsDir() {
		r.dir, names = filepath.Dir(name), []string{filepath.Base(name)}
	}
	if r.dir, err = filepath.Abs(r.dir); err != nil {
		return nil, usage("%s cannot be found: %w", name, err)
	}
	if r.root, err = os.OpenRoot(r.dir); err != nil {
		return nil, usage("%s cannot be read: %w", name, disk.Cause(err))
	}
	defer func() { _ = r.root.Close() }()
	if info.IsDir() {
		if names, err = r.walk(); err != nil {
			return nil, usage("%s cannot be read: %w", name, disk.Cause(err))
		}
		if len(names) == 0 {
			return nil, usage("%s has no file that is called .yaml or .yml: `gatewright export --out %s` writes some", name, name)
		}
	}
	left := int64(mostBytes)
	for _, name := range names {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		r.one(name, &left)
	}
	r.check()
	slices.SortStableFunc(r.problems, func(a, b project.Problem) int {
		if c := strings.Compare(a.File, b.File); c != 0 {
			return c
		}
		return a.Line - b.Line
	})
	return r.Files, r.invalid(r.problems)
}

// walk lists the files of the folder, with slashes.
func (r *reader) walk() (names []string, err error) {
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

// one reads a file. It is opened only where it is one: a pipe would wait for ever.
func (r *reader) one(name string, left *int64) {
	r.file = name
	here := place{file: name}
	text, err := regular(r.root, filepath.FromSlash(name), *left)
	switch {
	case errors.Is(err, errTooLarge):
		r.problem(here.problem("The files have more than %d MiB together: split them, and plan one after the other.", mostBytes>>20))
		return
	case err != nil:
		r.problem(here.problem("It cannot be read: %v.", disk.Cause(err)))
		return
	}
	*left -= int64(len(text))
	r.sources[name] = text
	r.anchors = bytes.ContainsRune(text, '&')
	r.documents(name, text, r.document)
}

var (
	errTooLarge   = errors.New("it is too large")
	errNotRegular = errors.New("it is no file, but a folder, a pipe or a device")
)

// regular reads a file within a folder, through no link that leads out of it.
func regular(root *os.Root, name string, most int64) ([]byte, error) {
	info, err := root.Stat(name)
	switch {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, errNotRegular
	case info.Size() > most:
		return nil, errTooLarge
	}
	f, err := root.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	text, err := io.ReadAll(io.LimitReader(f, most+1))
	if err == nil && int64(len(text)) > most {
		err = errTooLarge
	}
	return text, err
}

// document reads what stands at the top.
func (r *reader) document(n *yaml.Node) {
	if n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null" {
		return // a document of comments
	}
	list, ok := r.members(n, "an object")
	if !ok {
		return
	}
	for _, m := range list {
		r.within(r.top, r.kinds, m, "at the top of a file")
	}
}

// within reads a member that is a list of objects, or says which lists are complete.
func (r *reader) within(o *object, kinds []*Kind, m member, where string) {
	if m.key.Value == completeMember {
		r.complete(o, kinds, m.value)
		return
	}
	k := find(kinds, m.key.Value)
	if k == nil {
		r.wrong(m.key, "%s is not known %s. There are: %s.", m.key.Value, where, listOf(append(membersOf(kinds), completeMember)))
		return
	}
	n, ok := r.meant(m.value)
	if !ok {
		return
	}
	if o.below == nil {
		o.below = map[string]map[string]*object{}
	}
	if o.below[k.Member] == nil {
		o.below[k.Member] = map[string]*object{}
	}
	if n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null" {
		return
	}
	if n.Kind != yaml.SequenceNode {
		r.wrong(n, "%s has to be a list: each %s begins with a dash.", k.Member, k.One)
		return
	}
	for i, entry := range n.Content {
		if !r.anchors {
			n.Content[i] = nil // what is read of it is enough, and a file may have 20,000
		}
		if one := r.object(k, entry); one != nil {
			if wrong := o.add(one); wrong != nil {
				r.problem(*wrong)
			}
		}
	}
}

func membersOf(kinds []*Kind) (names []string) {
	for _, k := range kinds {
		names = append(names, k.Member)
	}
	return names
}

func (r *reader) complete(o *object, kinds []*Kind, n *yaml.Node) {
	n, ok := r.meant(n)
	if !ok {
		return
	}
	if n.Kind != yaml.SequenceNode {
		r.wrong(n, "%s has to be a list of lists of which all is here, such as [%s].", completeMember, listOf(membersOf(kinds)))
		return
	}
	for _, entry := range n.Content {
		k := find(kinds, entry.Value)
		switch {
		case k == nil:
			r.wrong(entry, "There is no list %s here. There are: %s.", entry.Value, listOf(membersOf(kinds)))
		case k.Delete == "":
			r.wrong(entry, "%s cannot be complete: the API deletes no %s by itself.", k.Member, k.One)
		default:
			if o.complete == nil {
				o.complete = map[string]place{}
			}
			o.complete[k.Member] = r.at(entry)
		}
	}
}

// object reads one, nil for what cannot be read, which is told.
func (r *reader) object(k *Kind, n *yaml.Node) *object {
	n, ok := r.meant(n)
	if !ok {
		return nil
	}
	if k.Short && n.Kind == yaml.ScalarNode && n.ShortTag() == "!!str" {
		o := &object{kind: k, name: n.Value, at: r.at(n)}
		r.fits(r.fields[k].key, n, marshal(n.Value), false)
		return o
	}
	list, ok := r.members(n, "a "+k.One)
	if !ok {
		return nil
	}
	o := &object{kind: k, at: r.at(n), fields: map[string]given{}}
	named := false
	for _, m := range list {
		switch field := r.fields[k].all[m.key.Value]; {
		case m.key.Value == k.Key:
			named = true
			o.name, o.at = m.value.Value, r.at(m.value)
			if value, ok := r.value(m.value); ok {
				if m.value.Kind != yaml.ScalarNode || m.value.ShortTag() != "!!str" || m.value.Value == "" {
					r.wrong(m.value, "%s has to be a text: put it in quotes.", k.Key)
					return nil
				}
				r.fits(r.fields[k].key, m.value, value, false)
			}
		case field != nil:
			r.field(o, field, m)
		case k.below(m.key.Value) != nil || m.key.Value == completeMember:
			r.within(o, k.Below, m, "in a "+k.One)
		default:
			reason := k.Hides[m.key.Value]
			if reason != "" {
				r.wrong(m.key, "%s is not taken: %s.", m.key.Value, reason)
				continue
			}
			r.wrong(m.key, "%s is no field of a %s. It has: %s.", m.key.Value, k.One, listOf(r.known(k)))
		}
	}
	if !named {
		r.wrong(n, "This %s has no %s, by which it is known.", k.One, k.Key)
		return nil
	}
	return o
}

func (r *reader) known(k *Kind) []string {
	names := []string{k.Key}
	for name := range r.fields[k].all {
		names = append(names, name)
	}
	slices.Sort(names[1:])
	if len(k.Below) > 0 {
		names = append(append(names, membersOf(k.Below)...), completeMember)
	}
	return names
}

// field reads what a file has for one.
func (r *reader) field(o *object, f *Field, m member) {
	at := r.at(m.value)
	var from *Reference
	is, ok := false, true
	if !f.Object { // tags and metadata may have a member fromEnv of their own, and an export writes them as they are
		from, is, ok = r.reference(m.value)
	}
	if !is && (f.Secret || f.Name == o.kind.Secret) {
		r.hide(m.key.Line)
		r.hide(m.value.Line)
	}
	switch {
	case !ok:
		return
	case is && !f.Text:
		r.wrong(m.value, "%s has to stand here as it is: only a text comes from elsewhere.", f.Name)
		return
	case is:
		o.fields[f.Name] = given{from: from, at: at}
		return
	case f.Secret:
		r.wrong(m.value, "%s is a secret, which stands in no file: give it as {fromEnv: NAME} or {fromFile: PATH}.", f.Name)
		return
	}
	value, ok := r.value(m.value)
	if !ok {
		return
	}
	if string(value) != "null" {
		r.fits(f.schema, m.value, value, f.Name == o.kind.Secret)
	}
	o.fields[f.Name] = given{value: value, at: at}
}

// fits tells what of a value does not fit its schema, and repeats none that may be a secret.
func (r *reader) fits(s *jsonschema.Schema, n *yaml.Node, value Value, secret bool) {
	if s == nil {
		return
	}
	err := s.Validate(decoded(value))
	if err == nil {
		return
	}
	e, ok := errors.AsType[*jsonschema.ValidationError](err)
	if !ok || secret {
		r.wrong(n, "This value does not fit.")
		return
	}
	var tell func(e *jsonschema.ValidationError)
	tell = func(e *jsonschema.ValidationError) {
		for _, cause := range e.Causes {
			tell(cause)
		}
		if len(e.Causes) == 0 {
			text := credential.Redact(strings.ToValidUTF8(e.ErrorKind.LocalizedString(r.printer), ""))
			r.wrong(down(n, e.InstanceLocation), "This does not fit: %s.", cutText(text))
		}
	}
	tell(e)
}

// cutText bounds what is told of a value.
func cutText(text string) string {
	const most = 200
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + "…"
}

// check tells what is wrong among the objects: secrets that stand in a file, and names of what is not there.
func (r *reader) check() {
	r.top.walk(r.kinds, func(o *object) {
		r.Objects++
		k := o.kind
		if k.Secret != "" && string(o.fields[k.SecretIf].value) == "true" && o.fields[k.Secret].value != nil {
			r.problem(o.fields[k.Secret].at.problem("%s of a %s with %s: true is a secret, which stands in no file: give it as {fromEnv: NAME} or {fromFile: PATH}.", k.Secret, k.One, k.SecretIf))
		}
		if k.Member == metering && len(o.below["plans"]) == 0 {
			r.problem(o.at.problem("A metering bucket is known by its plans alone: name at least one of them."))
		}
	})
}

// secret reports whether a field of an object is one.
func (f *Files) secret(o *object, name string) bool {
	if field := f.fields[o.kind].all[name]; field != nil && field.Secret {
		return true
	}
	return name == o.kind.Secret && string(o.fields[o.kind.SecretIf].value) == "true"
}

// Members are the lists at the top that files have, by which an export is named.
func Members() []string { return membersOf(Kinds()) }
