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
	"github.com/gatewright/gatewright/shared/disk"
	"github.com/gatewright/gatewright/shared/lazy"
)

// Exported is what an account has, as files have it: the same bytes for the same objects, wherever they are.
type Exported struct {
	// parts are the lists at the top, in the order in which objects are made.
	parts []part
	// Secrets are the places of values that the API does not tell, each with where it is to come from; LeftOut is what files cannot have.
	Secrets, LeftOut []string
	// refers has the references that are given, and members what was asked for.
	refers  map[string]bool
	members []string
}

type part struct {
	member  string
	objects []exportedObject
}

// exportedObject is an object as files have it: its own fields, and what is within it. 20,000 are written one by one.
type exportedObject struct {
	fields Value
	below  []part
}

// exporter asks for all that there is.
type exporter struct {
	*state
	out *Exported
}

// Export asks for all objects of kinds, by their members at the top, nil for all.
func Export(ctx context.Context, api API, members []string) (*Exported, error) {
	account, err := api.Account(ctx)
	if err != nil {
		return nil, err
	}
	e := &exporter{state: &state{api: api, account: account, told: map[*Kind]bool{}}, out: &Exported{refers: map[string]bool{}}}
	if len(members) == 0 {
		members = Members()
	}
	e.out.members = members
	kinds := Kinds()
	if e.kinds, err = fieldsOfAll(kinds); err != nil {
		return nil, err
	}
	for _, k := range kinds {
		if !slices.Contains(members, k.Member) {
			continue
		}
		objects, err := e.list(ctx, k, &seen{})
		if err != nil {
			return nil, err
		}
		if len(objects) > 0 {
			e.out.parts = append(e.out.parts, part{k.Member, objects})
		}
	}
	return e.out, nil
}

// list has all objects of a kind within another, in the order of their names.
func (e *exporter) list(ctx context.Context, k *Kind, parent *seen) ([]exportedObject, error) {
	have, err := e.have(ctx, k, parent)
	if err != nil {
		return nil, err
	}
	if k.Member == metering {
		if have, err = e.named(ctx, k, have); err != nil {
			return nil, err
		}
	}
	var objects []exportedObject
	for _, name := range slices.Sorted(maps.Keys(have)) {
		object, err := e.object(ctx, k, have[name])
		if notThere(err) {
			continue // somebody has deleted it since it was listed
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

func (e *exporter) have(ctx context.Context, k *Kind, parent *seen) (map[string]*seen, error) {
	switch {
	case k.Create == "" && k.List != "":
		return nil, nil // files make none
	case k.Within != nil:
		return e.children(k, parent)
	case k.List != "":
		with := map[string]string{}
		for _, b := range k.Below {
			if b.Create != "" {
				maps.Copy(with, b.Within)
			}
		}
		return e.state.list(ctx, k, parent, with)
	}
	// The branches of a project: those of its environments, and the one that each has.
	const main = "main"
	environments, err := e.state.list(ctx, k.parent.below("environments"), parent, nil)
	if err != nil {
		return nil, err
	}
	have := map[string]*seen{main: {kind: k, name: main, id: main, parent: parent}}
	for name := range environments {
		have[name] = &seen{kind: k, name: name, id: name, parent: parent}
	}
	return have, nil
}

// named has metering buckets under the first of their plans' names that no other one has, in the order of these: the same names wherever they are.
func (e *exporter) named(ctx context.Context, k *Kind, buckets map[string]*seen) (map[string]*seen, error) {
	type bucket struct {
		*seen
		plans []string
	}
	var all []bucket
	for _, id := range slices.Sorted(maps.Keys(buckets)) {
		plans, err := e.state.list(ctx, k.below("plans"), buckets[id], nil)
		if notThere(err) {
			continue
		}
		if err != nil {
			return nil, err
		}
		all = append(all, bucket{buckets[id], slices.Sorted(maps.Keys(plans))})
	}
	slices.SortStableFunc(all, func(a, b bucket) int { return slices.Compare(a.plans, b.plans) })
	named := map[string]*seen{}
	for i, b := range all {
		free := slices.IndexFunc(b.plans, func(name string) bool { return named[name] == nil })
		switch {
		case len(b.plans) == 0:
			e.out.LeftOut = append(e.out.LeftOut, fmt.Sprintf("a %s without plans, by which it would be known", k.One))
		case i > 0 && slices.Equal(all[i-1].plans, b.plans), free < 0:
			e.out.LeftOut = append(e.out.LeftOut, fmt.Sprintf("a %s of which others have all plans: %s", k.One, listOf(b.plans)))
		default:
			b.name = b.plans[free]
			named[b.name] = b.seen
		}
	}
	return named, nil
}

// object is one as files have it, nil for what they cannot have or need not.
func (e *exporter) object(ctx context.Context, k *Kind, s *seen) (*exportedObject, error) {
	var b bytes.Buffer
	b.WriteString(`{"` + k.Key + `":`)
	b.Write(marshal(s.name))
	put := func(name string, value Value) {
		b.WriteString(`,"` + name + `":`)
		b.Write(value)
	}
	own, fieldsOf := e.own(k, s), 0
	secret := k.Secret != "" && string(s.fields[k.SecretIf]) == "true"
	for _, name := range slices.Sorted(maps.Keys(e.kinds[k].all)) {
		f, value := e.kinds[k].all[name], s.fields[name]
		if k.Apart != nil && name == k.Apart.Field {
			var err error
			if value, _, err = e.apart(ctx, s); err != nil {
				return nil, err
			}
		}
		switch {
		case slices.Contains(k.Local, name), own && slices.Contains([]string{"tags", "isRetrievable"}, name):
		case f.Secret, secret && name == k.Secret, slices.Contains(k.unread(), name):
			put(name, e.refer(k, s, name))
		case empty(value):
		default:
			value = stable(value)
			if !f.takes(value) {
				e.out.LeftOut = append(e.out.LeftOut, fmt.Sprintf("the %s %s: no %s is made with %s %s", k.One, s.name, k.One, name, shown(value)))
				return nil, nil
			}
			put(name, value)
			fieldsOf++
		}
	}
	b.WriteByte('}')
	out := &exportedObject{fields: b.Bytes()}
	for _, kind := range k.Below {
		objects, err := e.list(ctx, kind, s)
		if err != nil {
			return nil, err
		}
		if len(objects) > 0 {
			out.below = append(out.below, part{kind.Member, objects})
		}
	}
	if len(out.below) == 0 && (k.List == "" || own && fieldsOf == 0) {
		return nil, nil
	}
	return out, nil
}

// own reports whether a bucket is one that comes with its project, with the tags that it comes with.
func (e *exporter) own(k *Kind, s *seen) bool {
	if k.Member != bucketsMember {
		return false
	}
	for suffix, kind := range ownBuckets {
		if of, is := strings.CutSuffix(s.name, suffix); is &&
			equal(decoded(s.fields["tags"]), decoded(marshal(map[string]string{"account": e.account, "environmentType": kind, "project": of}))) {
			return true
		}
	}
	return false
}

var (
	noVariable = lazy.Regexp(`[^A-Z0-9]+`)
	noFile     = lazy.Regexp(`[^A-Za-z0-9._-]+`)
)

// refer is where a value that the API does not tell is to come from: a name that is the object's own, and the same on each export.
func (e *exporter) refer(k *Kind, s *seen, name string) Value {
	var names []string
	for of := s; of.kind != nil; of = of.parent {
		names = append([]string{of.name}, names...)
	}
	from := &Reference{}
	for n := 1; ; n++ {
		suffix := ""
		if n > 1 {
			suffix = fmt.Sprintf("_%d", n)
		}
		if k.Secret == name {
			from.Env = cmp.Or(strings.Trim(noVariable().ReplaceAllString(strings.ToUpper(strings.Join(names, "_")), "_"), "_"), "UNNAMED") + suffix
			if from.Env[0] >= '0' && from.Env[0] <= '9' {
				from.Env = "_" + from.Env
			}
		} else {
			folder, end := "certificates", ".pem"
			if name != certificateField {
				folder, end = "secrets", ".key"
			}
			base := strings.TrimLeft(noFile().ReplaceAllString(strings.Join(names, "-"), "-"), ".")
			from.File = folder + "/" + cmp.Or(base, "unnamed") + suffix + end
		}
		if !e.out.refers[from.String()] {
			break
		}
	}
	e.out.refers[from.String()] = true
	e.out.Secrets = append(e.out.Secrets, fmt.Sprintf("%s of the %s %s: %s", name, k.One, strings.Join(names, " "), from))
	return marshal(from)
}

// JSON is the whole of it as one document.
func (e *Exported) JSON() []byte {
	b := bytes.NewBufferString("{")
	for i, p := range e.parts {
		if i > 0 {
			b.WriteByte(',')
		}
		p.json(b)
	}
	b.WriteByte('}')
	return b.Bytes()
}

func (p part) json(b *bytes.Buffer) {
	b.WriteString(`"` + p.member + `":[`)
	for i, o := range p.objects {
		if i > 0 {
			b.WriteByte(',')
		}
		b.Write(o.fields[:len(o.fields)-1])
		for _, below := range o.below {
			b.WriteByte(',')
			below.json(b)
		}
		b.WriteByte('}')
	}
	b.WriteByte(']')
}

// YAML is the whole of it as a file has it.
func (e *Exported) YAML() ([]byte, error) {
	var b bytes.Buffer
	for _, p := range e.parts {
		if err := p.yaml(&b, ""); err != nil {
			return nil, err
		}
	}
	if b.Len() == 0 {
		b.WriteString("{}\n")
	}
	return b.Bytes(), nil
}

// yaml writes a list. No text has several lines (output.ToYAML), so that each line is moved to where it stands.
func (p part) yaml(b *bytes.Buffer, indent string) error {
	b.WriteString(indent + p.member + ":\n")
	for _, o := range p.objects {
		text, err := output.ToYAML(o.fields)
		if err != nil {
			return err
		}
		begin := indent + "  - "
		for line := range bytes.Lines(text) {
			b.WriteString(begin)
			b.Write(line)
			begin = indent + "    "
		}
		for _, below := range o.below {
			if err := below.yaml(b, begin); err != nil {
				return err
			}
		}
	}
	return nil
}

var humps = lazy.Regexp(`([a-z])([A-Z])`)

// fileName is the file of a list at the top.
func fileName(member string) string {
	return strings.ToLower(humps().ReplaceAllString(member, "$1-$2")) + ".yaml"
}

// CheckFolder says what keeps WriteFolder from a folder, as far as it is known before anything is asked of the API: files in it without force, or
// that it, or the one to make it in, can't be read.
func CheckFolder(dir string, force bool) error {
	there, err := os.ReadDir(dir)
	if errors.Is(err, os.ErrNotExist) {
		_, err = os.Stat(filepath.Dir(filepath.Clean(dir)))
	}
	switch {
	case err != nil:
		return usage("%s cannot be read: %w", dir, disk.Cause(err))
	case len(there) > 0 && !force:
		return usage("%s is there, with files in it: --force writes over those of an export, and leaves others alone", dir)
	}
	return nil
}

// WriteFolder writes a file for each kind. Into a folder that is not there, or empty, all is written at once or nothing. Files that are there
// are written over only with force, each whole or not at all, and those that an export before has written of what is gone are removed.
func (e *Exported) WriteFolder(dir string, force bool) (written []string, err error) {
	files := map[string][]byte{}
	for _, p := range e.parts {
		var b bytes.Buffer
		if err = p.yaml(&b, ""); err != nil {
			return nil, err
		}
		files[fileName(p.member)] = b.Bytes()
	}
	if err := CheckFolder(dir, force); err != nil {
		return nil, err
	}
	if there, err := os.ReadDir(dir); err != nil || len(there) == 0 {
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

// newFolder makes a folder with files in it, in one step.
func newFolder(dir string, files map[string][]byte) error {
	above := filepath.Dir(filepath.Clean(dir))
	beside, err := os.MkdirTemp(above, "."+filepath.Base(dir)+"-*")
	if err != nil {
		return usage("%s cannot be made: %w", dir, disk.Cause(err))
	}
	defer func() { _ = os.RemoveAll(beside) }()
	const mode, folderMode = 0o644, 0o755
	for name, text := range files {
		if err := writeFile(filepath.Join(beside, name), text, mode); err != nil {
			return err
		}
	}
	err = os.Chmod(beside, folderMode)
	if err == nil {
		_ = os.Remove(dir) // an empty one
		err = os.Rename(beside, dir)
	}
	if err == nil {
		err = disk.SyncFolder(above)
	}
	if err != nil {
		return fmt.Errorf("%s cannot be made: %w", dir, disk.Cause(err))
	}
	return nil
}
