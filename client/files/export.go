package files

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gatewright/gatewright/client/output"
	"github.com/gatewright/gatewright/shared/base/disk"
	"github.com/gatewright/gatewright/shared/base/lazy"
)

// ExportedAccount has the objects of an account as files describe them. The same objects produce the same bytes in
// every installation.
type ExportedAccount struct {
	// lists are the top-level lists, in the order of creation.
	lists []objectList
	// Secrets lists the values that the API does not return, each with its reference: the user must provide the value
	// there. Skipped lists the objects that files cannot describe.
	Secrets, Skipped []string
	// usedReferences has the references that are already in use. members are the top-level lists that the caller has
	// requested.
	usedReferences map[string]bool
	members        []string
}

type objectList struct {
	member  string
	objects []exportedObject
}

// exportedObject is an object as files describe it, with its fields in JSON and its children. An export may have 20,000
// objects, so each is encoded separately.
type exportedObject struct {
	fields   Value
	children []objectList
}

// exporter reads all objects of an account.
type exporter struct {
	*accountClient
	out *ExportedAccount
}

// Export reads all objects in the top-level lists with these names. If members is empty, it reads all objects.
func Export(ctx context.Context, api API, members []string) (*ExportedAccount, error) {
	account, err := api.Account(ctx)
	if err != nil {
		return nil, err
	}
	e := &exporter{
		accountClient: &accountClient{api: api, account: account, etagsComputable: map[*Kind]bool{}},
		out:           &ExportedAccount{usedReferences: map[string]bool{}},
	}
	if len(members) == 0 {
		members = TopLevelLists()
	}
	e.out.members = members
	kinds := Kinds()
	if e.fieldsByKind, err = fieldsByKind(kinds); err != nil {
		return nil, err
	}
	for _, k := range kinds {
		if !slices.Contains(members, k.Member) {
			continue
		}
		objects, err := e.exportList(ctx, k, &remoteObject{})
		if err != nil {
			return nil, err
		}
		if len(objects) > 0 {
			e.out.lists = append(e.out.lists, objectList{k.Member, objects})
		}
	}
	return e.out, nil
}

// exportList returns all objects of a kind within a parent as files describe them, sorted by name.
func (e *exporter) exportList(ctx context.Context, k *Kind, parent *remoteObject) ([]exportedObject, error) {
	existing, err := e.listExisting(ctx, k, parent)
	if err != nil {
		return nil, err
	}
	if k.Member == meteringBucketsMember {
		if existing, err = e.nameMeteringBuckets(ctx, k, existing); err != nil {
			return nil, err
		}
	}
	var objects []exportedObject
	for _, name := range slices.Sorted(maps.Keys(existing)) {
		object, err := e.exportObject(ctx, k, existing[name])
		if isNotFound(err) {
			continue // the object was deleted after the list was read
		}
		if err != nil {
			return nil, err
		}
		if object != nil {
			objects = append(objects, *object)
		}
	}
	return objects, nil
}

// listExisting returns the existing objects of a kind within a parent, by normalized name. It returns none for a kind
// whose objects files cannot create.
func (e *exporter) listExisting(ctx context.Context, k *Kind, parent *remoteObject) (map[string]*remoteObject, error) {
	switch {
	case k.Create == "" && k.List != "":
		return nil, nil
	case k.Embedded != nil:
		return e.embeddedObjects(k, parent)
	case k.List != "":
		include := map[string]string{}
		for _, childKind := range k.Children {
			if childKind.Create != "" {
				maps.Copy(include, childKind.Embedded)
			}
		}
		return e.list(ctx, k, parent, include)
	}
	// Export the branches of a project's environments, and the branch main.
	const main = "main"
	environments, err := e.list(ctx, k.parent.child("environments"), parent, nil)
	if err != nil {
		return nil, err
	}
	existing := map[string]*remoteObject{main: {kind: k, name: main, id: main, parent: parent}}
	for name := range environments {
		existing[name] = &remoteObject{kind: k, name: name, id: name, parent: parent}
	}
	return existing, nil
}

// nameMeteringBuckets returns metering buckets by the names that they get in files. The name of a bucket is the name of
// its first plan that is not already the name of another bucket. Buckets are named in the order of their plans, so that
// names are the same in every installation. nameMeteringBuckets skips a bucket without plans, a bucket with the same
// plans as another, and a bucket for which no name is left.
func (e *exporter) nameMeteringBuckets(
	ctx context.Context, k *Kind, buckets map[string]*remoteObject,
) (map[string]*remoteObject, error) {
	type bucket struct {
		*remoteObject
		plans []string
	}
	var all []bucket
	for _, id := range slices.Sorted(maps.Keys(buckets)) {
		plans, err := e.list(ctx, k.child("plans"), buckets[id], nil)
		if isNotFound(err) {
			continue
		}
		if err != nil {
			return nil, err
		}
		all = append(all, bucket{buckets[id], slices.Sorted(maps.Keys(plans))})
	}
	slices.SortStableFunc(all, func(a, b bucket) int { return slices.Compare(a.plans, b.plans) })
	named := map[string]*remoteObject{}
	for i, b := range all {
		unused := slices.IndexFunc(b.plans, func(name string) bool { return named[name] == nil })
		switch {
		case len(b.plans) == 0:
			e.out.Skipped = append(e.out.Skipped, fmt.Sprintf("a %s without plans, by which it would be known", k.Singular))
		case i > 0 && slices.Equal(all[i-1].plans, b.plans), unused < 0:
			e.out.Skipped = append(e.out.Skipped, fmt.Sprintf("a %s of which others have all plans: %s", k.Singular,
				joinNames(b.plans)))
		default:
			b.name = b.plans[unused]
			named[b.name] = b.remoteObject
		}
	}
	return named, nil
}

// exportObject returns an object as files describe it. It returns nil if files cannot describe the object, or need not
// describe it.
func (e *exporter) exportObject(ctx context.Context, k *Kind, remote *remoteObject) (*exportedObject, error) {
	var b bytes.Buffer
	b.WriteString(`{"` + k.Key + `":`)
	b.Write(mustMarshal(remote.name))
	write := func(name string, value Value) {
		b.WriteString(`,"` + name + `":`)
		b.Write(value)
	}
	fromProject, fieldCount := e.isProjectBucket(k, remote), 0
	secret := k.Secret != "" && string(remote.fields[k.SecretIf]) == "true"
	for _, name := range slices.Sorted(maps.Keys(e.fieldsByKind[k].byName)) {
		f, value := e.fieldsByKind[k].byName[name], remote.fields[name]
		if k.SeparateField != nil && name == k.SeparateField.Field {
			var err error
			if value, _, err = e.readSeparate(ctx, remote); err != nil {
				return nil, err
			}
		}
		switch {
		case slices.Contains(k.LocalFields, name), fromProject && slices.Contains([]string{"tags", "isRetrievable"}, name):
		case f.Secret, secret && name == k.Secret, slices.Contains(k.writeOnlyFields(), name):
			write(name, e.addReference(k, remote, name))
		case isEmpty(value):
		default:
			value = canonical(value)
			if !f.accepts(value) {
				e.out.Skipped = append(e.out.Skipped, fmt.Sprintf("the %s %s: no %s is made with %s %s", k.Singular, remote.name,
					k.Singular, name, displayValue(value)))
				return nil, nil
			}
			write(name, value)
			fieldCount++
		}
	}
	b.WriteByte('}')
	out := &exportedObject{fields: b.Bytes()}
	for _, kind := range k.Children {
		objects, err := e.exportList(ctx, kind, remote)
		if err != nil {
			return nil, err
		}
		if len(objects) > 0 {
			out.children = append(out.children, objectList{kind.Member, objects})
		}
	}
	if len(out.children) == 0 && (k.List == "" || fromProject && fieldCount == 0) {
		return nil, nil
	}
	return out, nil
}

// isProjectBucket reports whether a key bucket was created together with its project, and still has its original tags.
func (e *exporter) isProjectBucket(k *Kind, remote *remoteObject) bool {
	if k.Member != keyBucketsMember {
		return false
	}
	for suffix, envType := range projectBucketTypes {
		if owner, ok := strings.CutSuffix(remote.name, suffix); ok &&
			equal(decode(remote.fields["tags"]),
				decode(mustMarshal(map[string]string{"account": e.account, "environmentType": envType, "project": owner}))) {
			return true
		}
	}
	return false
}

var (
	nonVariableChars = lazy.Regexp(`[^A-Z0-9]+`)
	nonFileChars     = lazy.Regexp(`[^A-Za-z0-9._-]+`)
)

// addReference returns a reference in place of a value that the API does not return, and adds it to
// ExportedAccount.Secrets. The reference is unique in the export, and each export of the same objects has the same
// references.
func (e *exporter) addReference(k *Kind, remote *remoteObject, name string) Value {
	var names []string
	for ancestor := remote; ancestor.kind != nil; ancestor = ancestor.parent {
		names = append([]string{ancestor.name}, names...)
	}
	ref := &Reference{}
	for n := 1; ; n++ {
		suffix := ""
		if n > 1 {
			suffix = fmt.Sprintf("_%d", n)
		}
		if k.Secret == name {
			ref.Env = cmp.Or(strings.Trim(nonVariableChars().ReplaceAllString(strings.ToUpper(strings.Join(names, "_")), "_"),
				"_"), "UNNAMED") + suffix
			if ref.Env[0] >= '0' && ref.Env[0] <= '9' {
				ref.Env = "_" + ref.Env
			}
		} else {
			folder, ext := "certificates", ".pem"
			if name != certificateField {
				folder, ext = "secrets", ".key"
			}
			base := strings.TrimLeft(nonFileChars().ReplaceAllString(strings.Join(names, "-"), "-"), ".")
			ref.File = folder + "/" + cmp.Or(base, "unnamed") + suffix + ext
		}
		if !e.out.usedReferences[ref.String()] {
			break
		}
	}
	e.out.usedReferences[ref.String()] = true
	e.out.Secrets = append(e.out.Secrets, fmt.Sprintf("%s of the %s %s: %s", name, k.Singular, strings.Join(names, " "),
		ref))
	return mustMarshal(ref)
}

// JSON returns the export as one JSON document.
func (e *ExportedAccount) JSON() []byte {
	b := bytes.NewBufferString("{")
	for i, list := range e.lists {
		if i > 0 {
			b.WriteByte(',')
		}
		list.json(b)
	}
	b.WriteByte('}')
	return b.Bytes()
}

func (l objectList) json(b *bytes.Buffer) {
	b.WriteString(`"` + l.member + `":[`)
	for i, o := range l.objects {
		if i > 0 {
			b.WriteByte(',')
		}
		b.Write(o.fields[:len(o.fields)-1])
		for _, child := range o.children {
			b.WriteByte(',')
			child.json(b)
		}
		b.WriteByte('}')
	}
	b.WriteByte(']')
}

// YAML returns the export as the content of one YAML file.
func (e *ExportedAccount) YAML() ([]byte, error) {
	var b bytes.Buffer
	for _, list := range e.lists {
		if err := list.yaml(&b, ""); err != nil {
			return nil, err
		}
	}
	if b.Len() == 0 {
		b.WriteString("{}\n")
	}
	return b.Bytes(), nil
}

// yaml writes a list. It can indent each line separately, because output.ToYAML writes each text in one line.
func (l objectList) yaml(b *bytes.Buffer, indent string) error {
	b.WriteString(indent + l.member + ":\n")
	for _, o := range l.objects {
		text, err := output.ToYAML(o.fields)
		if err != nil {
			return err
		}
		prefix := indent + "  - "
		for line := range bytes.Lines(text) {
			b.WriteString(prefix)
			b.Write(line)
			prefix = indent + "    "
		}
		for _, child := range o.children {
			if err := child.yaml(b, prefix); err != nil {
				return err
			}
		}
	}
	return nil
}

var wordBoundary = lazy.Regexp(`([a-z])([A-Z])`)

// fileName returns the file name of a top-level list.
func fileName(member string) string {
	return strings.ToLower(wordBoundary().ReplaceAllString(member, "$1-$2")) + ".yaml"
}

// CheckFolder returns an error for a folder that WriteFolder would refuse, so that a command can fail before its first
// request. WriteFolder refuses a folder that has files, unless force is true, a folder that cannot be read, and a new
// folder whose parent does not exist.
func CheckFolder(dir string, force bool) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, os.ErrNotExist) {
		_, err = os.Stat(filepath.Dir(filepath.Clean(dir)))
	}
	switch {
	case err != nil:
		return usageError("%s cannot be read: %w", dir, disk.Cause(err))
	case len(entries) > 0 && !force:
		return usageError("%s is there, with files in it: --force writes over those of an export, and leaves others alone",
			dir)
	}
	return nil
}

// WriteFolder writes one file for each top-level list into the folder dir, and returns the names of the files. If dir
// does not exist or is empty, it receives all files in one step: an interruption leaves it as it was. If dir has files,
// force must be true. WriteFolder then replaces each file in one step, and removes files of an earlier export whose
// list is now empty.
func (e *ExportedAccount) WriteFolder(dir string, force bool) (written []string, err error) {
	files := map[string][]byte{}
	for _, list := range e.lists {
		var b bytes.Buffer
		if err = list.yaml(&b, ""); err != nil {
			return nil, err
		}
		files[fileName(list.member)] = b.Bytes()
	}
	if err := CheckFolder(dir, force); err != nil {
		return nil, err
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) == 0 {
		return slices.Sorted(maps.Keys(files)), newFolder(dir, files)
	}
	const mode = 0o644
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if err := writeFile(filepath.Join(dir, name), files[name], mode); err != nil {
			return nil, err
		}
	}
	for _, member := range e.members {
		if name := fileName(member); files[name] == nil {
			if err := os.Remove(filepath.Join(dir, name)); err != nil && !errors.Is(err, os.ErrNotExist) {
				return nil, fmt.Errorf("%s cannot be removed: %w", name, disk.Cause(err))
			}
		}
	}
	return slices.Sorted(maps.Keys(files)), disk.SyncFolder(dir)
}

// newFolder creates a folder with files. The folder appears under its name when all files are written.
func newFolder(dir string, files map[string][]byte) error {
	parent := filepath.Dir(filepath.Clean(dir))
	temp, err := os.MkdirTemp(parent, "."+filepath.Base(dir)+"-*")
	if err != nil {
		return usageError("%s cannot be made: %w", dir, disk.Cause(err))
	}
	defer func() { _ = os.RemoveAll(temp) }()
	const mode, folderMode = 0o644, 0o755
	for name, text := range files {
		if err := writeFile(filepath.Join(temp, name), text, mode); err != nil {
			return err
		}
	}
	err = os.Chmod(temp, folderMode)
	if err == nil {
		_ = os.Remove(dir) // it may exist as an empty folder
		err = os.Rename(temp, dir)
	}
	if err == nil {
		err = disk.SyncFolder(parent)
	}
	if err != nil {
		return fmt.Errorf("%s cannot be made: %w", dir, disk.Cause(err))
	}
	return nil
}
