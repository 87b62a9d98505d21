package scaffold

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/url"
	"path"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/gatewright/gatewright/shared/base/disk"
	"github.com/gatewright/gatewright/shared/base/lazy"
	"github.com/gatewright/gatewright/shared/format/project"
)

// configFolder is the folder of the project to which the files of the description's folder are copied. Relative references
// lead to the same files there.
const configFolder = "config"

// maxFileNotes is the maximum number of notes about files that are not copied.
const maxFileNotes = 10

// sourceFiles reads the files to which the references of a description lead.
type sourceFiles struct {
	// folder is the folder of the description. It is nil if the description is not a file. name is the name of the
	// description in the folder.
	folder fs.FS
	name   string
	// read has the files to which references lead, by their paths in the folder. It has nil for a file that cannot be read.
	read map[string]*sourceFile
	// bytes is the size of all files that were read.
	bytes int64
	notes []string
}

// sourceFile is a file to which a reference leads. targets looks up places in it.
type sourceFile struct {
	text    []byte
	value   jsontext.Value // the content as JSON
	targets targets
}

// hasScheme matches references that are URLs.
var hasScheme = lazy.Regexp(`^([A-Za-z][A-Za-z0-9+.-]*:|//)`)

// resolve returns the path of the file to which a reference leads, and the fragment of the reference. from is the path of
// the file that has the reference. The path is "" for a URL, an absolute path, and a path out of the description's folder.
func (s *sourceFiles) resolve(from, reference string) (name, fragment string) {
	file, fragment, _ := strings.Cut(reference, "#")
	if file == "" {
		return from, fragment
	}
	text, err := url.PathUnescape(file)
	if err != nil || hasScheme().MatchString(file) || strings.HasPrefix(text, "/") || strings.Contains(text, `\`) {
		return "", ""
	}
	name = path.Join(path.Dir(from), text)
	if !fs.ValidPath(name) {
		s.note(fmt.Sprintf("the file %s is not copied, because it is not in the folder of the description: copy it, and "+
			"correct the references to it", name))
		return "", ""
	}
	return name, fragment
}

// note adds a note, unless there is the same note already or there are maxFileNotes.
func (s *sourceFiles) note(text string) {
	if len(s.notes) < maxFileNotes && !slices.Contains(s.notes, text) {
		s.notes = append(s.notes, text)
	}
}

// file returns a file of the folder. It returns nil for a missing or malformed file: the build reports the reference or the
// file. It returns an error if reading fails, or if the files are too large or too many.
func (s *sourceFiles) file(name string) (*sourceFile, error) {
	if known, ok := s.read[name]; ok {
		return known, nil
	}
	s.read[name] = nil
	if s.folder == nil || !project.IsReferable(name) {
		return nil, nil
	}
	f, err := s.folder.Open(name)
	if err != nil {
		return nil, nil
	}
	defer func() { _ = f.Close() }()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return nil, nil
	}
	text, err := disk.ReadAtMost(f, MaxBytes())
	if err != nil {
		return nil, fmt.Errorf("read %s, to which the description refers: %w", name, disk.Cause(err))
	}
	limits := project.DefaultLimits()
	if s.bytes += int64(len(text)); s.bytes > limits.ConfigBytes || len(s.read) > limits.Files/2 {
		return nil, fmt.Errorf("the files to which the description refers have more than %d bytes together, or are more "+
			"than %d: divide the description", limits.ConfigBytes, limits.Files/2)
	}
	d, err := readDocument(text)
	if err != nil {
		s.note(fmt.Sprintf("%s: %v", name, err))
		return nil, nil // the build reports the file
	}
	root, _ := readMembers(d.value) // nil for a value that is no object
	out := &sourceFile{text: text, value: d.value, targets: *newTargets(root)}
	s.read[name] = out
	return out, nil
}

// pathItem returns the object to which a reference of the description leads in another file, or nil if there is none. It
// makes the references in the object relative to the description.
func (s *sourceFiles) pathItem(reference string) (jsontext.Value, error) {
	name, fragment := s.resolve(s.name, reference)
	if name == "" || name == s.name {
		return nil, nil
	}
	f, err := s.file(name)
	if f == nil || err != nil {
		return nil, err
	}
	value := f.value
	if fragment != "" {
		value = f.targets.lookup(fragment)
	}
	all, err := readMembers(value)
	if err != nil {
		return nil, nil //nolint:nilerr // the build reports a reference that leads to no path item
	}
	all = slices.DeleteFunc(all, func(m member) bool {
		return strings.HasPrefix(m.name, "x-") && !strings.HasPrefix(m.name, "x-gateway-") // other parts of the file
	})
	return s.relocate(writeObject(all), name, false), nil
}

// exists reports whether a reference of the description leads to another file that was read.
func (s *sourceFiles) exists(reference string) bool {
	name, _ := s.resolve(s.name, reference)
	return name != s.name && s.read[name] != nil
}

// dataMembers are the members whose values are data without references.
var dataMembers = []string{"example", "default", "enum", "const", "value"}

// namedMembers are the members whose values are objects with names of the author's choice.
var namedMembers = []string{
	"properties", "patternProperties", "dependentSchemas", "$defs", "definitions", "responses", "headers", "content",
	"examples", "links", "callbacks", "encoding", additionalOperations,
}

// relocate makes the references in a value of another file relative to the description. from is the path of this file.
// isNamed is true for an object whose members have names of the author's choice.
func (s *sourceFiles) relocate(value jsontext.Value, from string, isNamed bool) jsontext.Value {
	switch value.Kind() {
	case jsontext.KindBeginArray:
		all := readElements(value)
		for i, element := range all {
			all[i] = s.relocate(element, from, false)
		}
		return writeList(all)
	case jsontext.KindBeginObject:
	default:
		return value
	}
	all, err := readMembers(value)
	if err != nil {
		return value
	}
	for i, m := range all {
		text := stringValue(m.value)
		switch {
		case isNamed:
			all[i].value = s.relocate(m.value, from, false)
		case m.name == "$ref" && text != "":
			all[i].value = quote(s.relocated(text, from))
		case m.name == "discriminator":
			all[i].value = s.relocateMapping(m.value, from)
		case slices.Contains(dataMembers, m.name) || strings.HasPrefix(m.name, "x-"):
		default:
			all[i].value = s.relocate(m.value, from, slices.Contains(namedMembers, m.name))
		}
	}
	return writeObject(all)
}

// relocateMapping makes the references in the mapping of a discriminator relative to the description.
func (s *sourceFiles) relocateMapping(value jsontext.Value, from string) jsontext.Value {
	all, err := readMembers(value)
	if err != nil {
		return value
	}
	for i, m := range all {
		mapping, err := readMembers(m.value)
		if m.name != "mapping" || err != nil {
			continue
		}
		for j, entry := range mapping {
			if text := stringValue(entry.value); strings.Contains(text, "#") || project.IsReferable(text) {
				mapping[j].value = quote(s.relocated(text, from))
			}
		}
		all[i].value = writeObject(mapping)
	}
	return writeObject(all)
}

// relocated returns a reference of another file as a reference of the description.
func (s *sourceFiles) relocated(reference, from string) string {
	name, fragment := s.resolve(from, reference)
	switch name {
	case "":
		return reference
	case s.name:
		return "#" + fragment
	}
	out := (&url.URL{Path: name}).EscapedPath()
	if strings.Contains(reference, "#") {
		out += "#" + fragment
	}
	return out
}

// writeList encodes the elements of a list.
func writeList(all []jsontext.Value) jsontext.Value {
	parts := make([][]byte, len(all))
	for i, element := range all {
		parts[i] = element
	}
	return slices.Concat([]byte("["), bytes.Join(parts, []byte(",")), []byte("]"))
}

// copies returns the contents of the files to which the references of the description lead, directly or through other
// files, by their paths in the project. description is the text of the description. It is copied too if another file
// refers to it, unless its name is the name of the routes file.
func (s *sourceFiles) copies(root jsontext.Value, description []byte) (map[string][]byte, error) {
	out := map[string][]byte{}
	pending := s.referredFiles(s.name, root)
	if s.folder == nil {
		if len(pending) > 0 {
			s.note("the files to which the description refers are not copied, because it comes from stdin: name its file")
		}
		return nil, nil
	}
	for len(pending) > 0 {
		name := pending[0]
		pending = pending[1:]
		target := path.Join(configFolder, name)
		if _, known := out[target]; known {
			continue
		}
		text, value := description, root
		if name != s.name {
			f, err := s.file(name)
			if err != nil {
				return nil, err
			}
			if f == nil {
				continue
			}
			text, value = f.text, f.value
		} else if target != RoutesFile {
			s.note(fmt.Sprintf("other files refer to the description, so the project also has a copy of it: %s", target))
		}
		switch {
		case target == RoutesFile && name == s.name:
			continue // the routes file itself
		case project.IsRoutesFile(target), target == PoliciesFile:
			return nil, fmt.Errorf("the description refers to %s, and a project reads a file of this name as a part of its "+
				"configuration: rename the file, and correct the references", name)
		}
		out[target] = text
		pending = append(pending, s.referredFiles(name, value)...)
	}
	return out, nil
}

// referredFiles returns the paths of the other files to which the references of a file lead, sorted.
func (s *sourceFiles) referredFiles(from string, value jsontext.Value) []string {
	found := map[string]bool{}
	add := func(reference string) {
		if strings.HasPrefix(reference, "#") {
			return
		}
		if name, _ := s.resolve(from, reference); name != "" && project.IsReferable(name) && (name != from) {
			found[name] = true
		}
	}
	d := jsontext.NewDecoder(bytes.NewReader(value), jsontext.AllowDuplicateNames(true))
	names := []string{""} // of the members that are being read, by depth
	for {
		token, err := d.ReadToken()
		if err != nil {
			return slices.Sorted(maps.Keys(found))
		}
		depth := d.StackDepth()
		for len(names) <= depth {
			names = append(names, "")
		}
		kind, length := d.StackIndex(depth)
		switch {
		case token.Kind() != jsontext.KindString || kind != jsontext.KindBeginObject:
			if k := token.Kind(); k == jsontext.KindBeginObject || k == jsontext.KindBeginArray {
				names[depth] = ""
			}
		case length%2 == 1:
			names[depth] = token.String()
		case names[depth] == "$ref", depth > 1 && names[depth-1] == "mapping" && project.IsReferable(token.String()):
			add(token.String())
		}
	}
}

// errSwaggerFiles is the error for a description in Swagger 2.0 that has several files.
var errSwaggerFiles = errors.New("the description in Swagger 2.0 refers to other files, which are not converted: " +
	"write it into one file")
