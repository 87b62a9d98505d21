package scaffold

import (
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/gatewright/gatewright/shared/format/project"
)

// origins finds the places in the description, and in its other files, from which init has copied the parts of a project.
type origins struct {
	document document
	text     []byte // of the description
	files    *sourceFiles
	// operations has the origins of the members of paths that init has copied from other path items, by their pointers in the
	// description with routes.
	operations map[string]origin
	// converted looks up places in the description that was converted from Swagger 2.0. It is nil for any other description.
	converted *targets
	// original looks up places in the description. It is nil until it is needed.
	original *targets
}

// origin is a place in a file of the description's folder.
type origin struct{ file, pointer string }

// Original replaces the places of problems in files of the project by the places in the description, and in its other
// files, from which init has copied these parts. A problem keeps its place if it is about a part that init has written, such
// as a route. display returns the name of a file for the user: it gets the path of the file in the description's folder.
// The result has the texts of all files with problems, by these names.
func (r Routes) Original(problems []project.Problem, display func(name string) string) project.Files {
	texts, inFile := project.Files{}, map[string][]int{}
	for i := range problems {
		p := &problems[i]
		if name, isCopy := strings.CutPrefix(p.File, configFolder+"/"); isCopy && r.Files[p.File] != nil {
			p.File = display(name)
			texts[p.File] = r.Files[configFolder+"/"+name]
			continue
		}
		if p.File != RoutesFile || r.origins == nil {
			continue
		}
		if from, ok := r.origins.find(p.Path); ok {
			p.Path = from.pointer
			inFile[from.file] = append(inFile[from.file], i)
		}
	}
	for name, indexes := range inFile {
		text, file := r.origins.source(name)
		located := make([]project.Problem, len(indexes))
		for j, i := range indexes {
			located[j] = project.Problem{File: file, Path: problems[i].Path, Message: strconv.Itoa(i)}
		}
		project.Locate(project.Files{file: text}, located) // it changes their order
		for _, p := range located {
			i, _ := strconv.Atoi(p.Message)
			problems[i].File, problems[i].Line, problems[i].Column = display(name), p.Line, p.Column
		}
		texts[display(name)] = text
	}
	return texts
}

// source returns the text of a file of the description's folder, and a name that says whether it is JSON or YAML.
func (o *origins) source(name string) (text []byte, kind string) {
	if name != o.files.name {
		return o.files.read[name].text, name
	}
	if o.document.isJSON {
		return o.text, "description.json"
	}
	return o.text, "description.yaml"
}

// find returns the place from which init has copied a part of the description with routes, or else the nearest part that
// contains it. It returns false for a part that init has written.
func (o *origins) find(pointer string) (origin, bool) {
	names := slices.Collect(jsontext.Pointer(pointer).Tokens())
	if len(names) >= 3 && names[0] == "paths" {
		if from, isCopied := o.operations[join(names[:3])]; isCopied {
			return o.existing(from.file, from.pointer, names[3:])
		}
	}
	if o.converted != nil {
		return origin{o.files.name, o.swaggerPlace(names)}, !slices.ContainsFunc(names, isWritten)
	}
	return o.existing(o.files.name, "", names)
}

// existing returns the place of a part of a file. names lead from at to the part. If the file does not have the part, the
// place is that of the nearest part that contains it. It returns false for a part that init has written.
func (o *origins) existing(file, at string, names []string) (origin, bool) {
	t := o.targetsOf(file)
	for _, name := range names {
		next := jsontext.Pointer(at).AppendToken(name)
		if t.value(next) == nil {
			return origin{file, at}, !isWritten(name)
		}
		at = string(next)
	}
	return origin{file, at}, true
}

// isWritten reports whether init writes members with this name.
func isWritten(name string) bool { return name == routeMember || name == policyMember }

// targetsOf looks up places in a file of the description's folder.
func (o *origins) targetsOf(file string) *targets {
	if file != o.files.name {
		return &o.files.read[file].targets
	}
	if o.original == nil {
		root, _ := readMembers(o.document.value) // the description is an object
		o.original = newTargets(root)
	}
	return o.original
}

// pointer returns the pointer in the description of a part of the description with routes, for notes.
func (o *origins) pointer(at string) string {
	if from, ok := o.find(at); ok && from.file == o.files.name {
		return from.pointer
	}
	return at
}

// join returns the JSON pointer with these names.
func join(names []string) string {
	var pointer jsontext.Pointer
	for _, name := range names {
		pointer = pointer.AppendToken(name)
	}
	return string(pointer)
}
